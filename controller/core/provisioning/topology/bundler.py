"""Pods that must share a host are bundled: one unit that goes to one node, with all that it needs there.

A class with affinity over kubernetes.io/hostname joins those that it must stand beside. Targets that ask for nothing
themselves lend one pod; the rest of them go where they like. What one node cannot hold is cut down evenly; what is left
may only join rows where the bundle went (kube-scheduler would not put it elsewhere).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from controller.core.provisioning.offerings.mask_compiler import MaskCompiler
from controller.core.provisioning.resource_space import Floats
from controller.core.provisioning.topology.bundles import Bundle, BundleMember, RuleSet, UnitRule, unit_rules
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import RuleKind, Topology


class Bundler:
    """Turns bundles into bundles, bundles among them."""

    def __init__(self, topology: Topology, masks: MaskCompiler, domains: Domains) -> None:
        self.topology = topology
        self.masks = masks
        self.domains = domains
        self._attempts: dict[frozenset[int], int] = defaultdict(int)
        self._targets_first: set[frozenset[int]] = set()
        self.waits = False
        """Some bundle was held back for a round, so a round without progress is not the end."""

    def colocate(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """The bundles, those that must share a host replaced by bundles and what is left over of them."""
        components = self._components(bundles)
        taken: dict[int, int] = defaultdict(int)
        made: list[Bundle] = []
        for component in components:
            bundle = self._bundle([bundles[index] for index in component])
            if bundle is None:
                continue
            made.append(bundle)
            sizes = {member.pod_class.index: member.pods for member in bundle.members}
            for index in component:
                taken[index] += sizes.get(bundles[index].pod_class.index, 0)
        for index, bundle in enumerate(bundles):
            bundle.count -= taken[index]
            if bundle.count:
                made.append(bundle)
        return made

    def _components(self, bundles: Sequence[Bundle]) -> list[list[int]]:
        """Bundles linked by a host affinity whose first pod is still to be placed."""
        leader = list(range(len(bundles)))

        def find(index: int) -> int:
            while leader[index] != index:
                leader[index] = leader[leader[index]]
                index = leader[index]
            return index

        touched: dict[int, list[int]] = defaultdict(list)
        owned: set[int] = set()
        for index, bundle in enumerate(bundles):
            for rule in bundle.rules:
                if _bootstraps(rule):
                    touched[rule.group.index].append(index)
                    if rule.obeys:
                        owned.add(rule.group.index)
        if not owned:
            return []
        for group, members in sorted(touched.items()):
            if group in owned:
                for index in members[1:]:
                    leader[find(index)] = find(members[0])
        components: dict[int, list[int]] = defaultdict(list)
        for index, bundle in enumerate(bundles):
            if any(_bootstraps(rule) and rule.group.index in owned for rule in bundle.rules):
                components[find(index)].append(index)
        return [sorted(found) for _, found in sorted(components.items())]

    def _bundle(self, bundles: list[Bundle]) -> Bundle | None:
        """The next bundle to try of a component: all owners; one pod of each; then one owner after the other.

        First with the targets beside them. Once that failed the targets go first, wherever they can; only if none found
        a place do the owners start alone.
        """
        owners = [p for p in bundles if any(_bootstraps(rule) and rule.obeys for rule in p.rules)]
        key = frozenset(p.pod_class.index for p in bundles)
        kinds = len(owners) + 2
        for attempt in range(self._attempts[key], 2 * kinds):
            self._attempts[key] = attempt
            if attempt >= kinds and key not in self._targets_first:
                self._targets_first.add(key)
                self.waits = True
                return None
            step = attempt % kinds
            chosen = owners if step < 2 else [owners[step - 2]]
            counts = {p.pod_class.index: p.count if step == 0 else 1 for p in chosen}
            made = self._with_targets(bundles if attempt < kinds else chosen, chosen, counts)
            if made is not None:
                made.component = key
                return made
        return None

    def failed(self, bundle: Bundle) -> None:
        """A bundle found no place: try a smaller one next time."""
        self._attempts[bundle.component] += 1

    def _with_targets(self, bundles: list[Bundle], owners: list[Bundle], counts: dict[int, int]) -> Bundle | None:
        """A bundle of these owners and a pod of each target beside them; None: no node can hold it.

        Targets that ask for nothing may be bound first, anywhere: from then on owners need one beside them, although
        they match their own rule.
        """
        needed = {r.group.index for p in owners for r in p.rules if _bootstraps(r) and r.obeys}
        chosen, brought = list(owners), set[int]()
        for bundle in sorted(bundles, key=lambda p: (p.count, p.name)):
            adds = {r.group.index for r in bundle.rules if _bootstraps(r) and r.matched and not r.obeys}
            if bundle.pod_class.index not in counts and adds & (needed - brought):
                counts[bundle.pod_class.index] = 1
                chosen.append(bundle)
                brought |= adds
        if needed - {r.group.index for p in chosen for r in p.rules if r.matched}:
            return None
        return self._cut_to_fit(sorted(chosen, key=lambda p: p.name), counts)

    def _cut_to_fit(self, bundles: list[Bundle], counts: dict[int, int]) -> Bundle | None:
        """The largest even share of the bundle that some node can hold; None: not even one pod of each."""
        low, high = 0.0, 1.0
        best = self._joined(bundles, counts)
        if self._fits(best):
            return best
        best = self._joined(bundles, dict.fromkeys(counts, 1))
        if not self._fits(best):
            return None
        for _ in range(12):
            middle = (low + high) / 2
            smaller = self._joined(bundles, {index: max(1, int(count * middle)) for index, count in counts.items()})
            if self._fits(smaller):
                low, best = middle, smaller
            else:
                high = middle
        return best

    def _joined(self, bundles: list[Bundle], counts: dict[int, int]) -> Bundle:
        members = tuple(
            BundleMember(m.pod_class, counts[p.pod_class.index], m.number) for p in bundles for m in p.members
        )
        request: Floats = np.sum([p.request * counts[p.pod_class.index] for p in bundles], axis=0)
        first = bundles[0]
        level = first.level
        choices = tuple(terms for bundle in bundles for terms in bundle.choices)
        joined = Bundle(members, level, tuple(dict.fromkeys(choices)), request, 1)
        joined.colocated = True
        joined.rules = RuleSet.of(unit_rules(self.topology, members), colocated=True)
        joined.request_key = request.tobytes()
        joined.tolerations = tuple(
            dict.fromkeys((p.level.tolerations, p.level.avoids_preferred_taints) for p in bundles)
        )
        return joined

    def _fits(self, bundle: Bundle) -> bool:
        if any(
            rule.group.key.kind is RuleKind.SPREAD and rule.obeys and rule.matched > rule.group.key.max_skew
            for rule in bundle.rules
        ):
            return False
        if self._quarrels(bundle) or not self._has_an_order(bundle):
            return False
        mask = self.masks.mask(bundle.level, bundle.choices, None, bundle.tolerations)
        return bool(np.isfinite(self.domains.cost(mask, bundle.request)))

    def _has_an_order(self, bundle: Bundle) -> bool:
        """Whether kube-scheduler could bind the members one after the other: each finds the affinity it asks for."""
        waiting, there = list(bundle.members), set[int]()
        while waiting:
            for member in waiting:
                involved = self.topology.involvements(member.pod_class, member.number)
                asked = [one for one in involved if one.owner and one.group.key.kind is RuleKind.AFFINITY]
                if all(one.group.has_matched or one.group.index in there or one.matched for one in asked):
                    there.update(one.group.index for one in involved if one.matched)
                    waiting.remove(member)
                    break
            else:
                return False
        return True

    def _quarrels(self, bundle: Bundle) -> bool:
        """Whether one pod of the unit has anti-affinity to another."""
        owners: dict[int, int] = defaultdict(int)
        matched: dict[int, int] = defaultdict(int)
        alone: dict[int, bool] = {}
        for member in bundle.members:
            for one in self.topology.involvements(member.pod_class, member.number):
                index = one.group.index
                if one.group.key.kind is RuleKind.ANTI_AFFINITY:
                    owners[index] += member.pods * one.owner
                    matched[index] += member.pods * one.matched
                    alone[index] = one.owner and one.matched
        return any(
            owners[index] and matched[index] and not (owners[index] == matched[index] == 1 and alone[index])
            for index in owners
        )


def _bootstraps(rule: UnitRule) -> bool:
    return rule.group.key.kind is RuleKind.AFFINITY and rule.host and not rule.group.has_matched
