"""Colocate pods that must share a host: one unit for one node, with every pod that its affinity asks for.

A class with pod affinity over kubernetes.io/hostname (an owner) joins the classes that its terms match (targets).
Targets without such an affinity lend one pod; their other pods are placed on their own. A unit that fits no node is cut
down evenly; the pods cut off may only join the nodes of the unit, as kube-scheduler would put them nowhere else.
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
    """Joins bundles whose pods must share a host."""

    def __init__(self, topology: Topology, masks: MaskCompiler, domains: Domains) -> None:
        self.topology = topology
        self.masks = masks
        self.domains = domains
        self._attempts: dict[frozenset[int], int] = defaultdict(int)
        self._targets_first: set[frozenset[int]] = set()
        self.waits = False
        """A bundle was held back for one round: a round without progress is then not the last."""

    def colocate(self, bundles: Sequence[Bundle]) -> list[Bundle]:
        """Replace bundles that must share a host by one colocated bundle, and by what it leaves of each."""
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
        """Group the places of bundles that are linked by a host affinity of which no matching pod runs (union-find)."""
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
        return [sorted(places) for _, places in sorted(components.items())]

    def _bundle(self, bundles: list[Bundle]) -> Bundle | None:
        """The next attempt for a component: all owners; one pod of each owner; then each owner alone.

        First together with their targets. When all of that failed, targets are placed for one round on their own; only
        if none of them found a place do owners go without targets. None: nothing to try in this round.
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
        """Note that a colocated bundle found no place: the next attempt is smaller."""
        self._attempts[bundle.component] += 1

    def _with_targets(self, bundles: list[Bundle], owners: list[Bundle], counts: dict[int, int]) -> Bundle | None:
        """These owners with one pod of each target of theirs; None: no node can hold it.

        kube-scheduler may bind a target first, anywhere: from then on owners need a target on their host, even if they
        match their own term.
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
        """The largest even cut of the unit that some node can hold, by bisection; None: not even one pod of each."""
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
        if self._repels_itself(bundle) or not self._has_an_order(bundle):
            return False
        mask = self.masks.mask(bundle.level, bundle.choices, None, bundle.tolerations)
        return bool(np.isfinite(self.domains.cost(mask, bundle.request)))

    def _has_an_order(self, bundle: Bundle) -> bool:
        """Whether kube-scheduler could bind the members in some order, each finding the affinity that it asks for."""
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

    def _repels_itself(self, bundle: Bundle) -> bool:
        """Whether a pod of the unit has anti-affinity to another pod of it."""
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
