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
from controller.core.provisioning.topology.bundles import Bundle, BundleMember, RuleSet, unit_rules
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import RuleKind, Topology

BISECTIONS = 12
"""Steps by which a unit that fits no node is cut down."""


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
        taken: dict[int, int] = defaultdict(int)
        colocated: list[Bundle] = []
        for component in self._components(bundles):
            bundle = self._bundle([bundles[index] for index in component])
            if bundle is None:
                continue
            colocated.append(bundle)
            sizes = {member.pod_class.index: member.pods for member in bundle.members}
            for index in component:
                taken[index] += sizes.get(bundles[index].pod_class.index, 0)
        for index, bundle in enumerate(bundles):
            bundle.count -= taken[index]
        return [*colocated, *(bundle for bundle in bundles if bundle.count)]

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
                if rule.bootstraps:
                    touched[rule.group.index].append(index)
                    if rule.obeys:
                        owned.add(rule.group.index)
        linked: set[int] = set()
        for group in sorted(owned):
            first, *others = touched[group]
            linked.update(touched[group])
            for index in others:
                leader[find(index)] = find(first)
        components: dict[int, list[int]] = defaultdict(list)
        for index in sorted(linked):
            components[find(index)].append(index)
        return [places for _, places in sorted(components.items())]

    def _bundle(self, bundles: list[Bundle]) -> Bundle | None:
        """Return the next attempt for a component: all owners; one pod of each owner; then each owner alone.

        First together with their targets. When all of that failed, targets are placed on their own for one round; only
        if none of them found a place do owners go without targets. None: nothing to try in this round.
        """
        owners = [bundle for bundle in bundles if any(rule.bootstraps and rule.obeys for rule in bundle.rules)]
        key = frozenset(bundle.pod_class.index for bundle in bundles)
        kinds = len(owners) + 2
        for attempt in range(self._attempts[key], 2 * kinds):
            self._attempts[key] = attempt
            if attempt >= kinds and key not in self._targets_first:
                self._targets_first.add(key)
                self.waits = True
                return None
            step = attempt % kinds
            chosen = owners if step < 2 else [owners[step - 2]]
            counts = {bundle.pod_class.index: bundle.count if step == 0 else 1 for bundle in chosen}
            colocated = self._with_targets(bundles if attempt < kinds else chosen, chosen, counts)
            if colocated is not None:
                colocated.component = key
                return colocated
        return None

    def failed(self, bundle: Bundle) -> None:
        """Note that a colocated bundle found no place: the next attempt is smaller."""
        self._attempts[bundle.component] += 1

    def _with_targets(self, bundles: list[Bundle], owners: list[Bundle], counts: dict[int, int]) -> Bundle | None:
        """Join these owners with one pod of each of their targets; None: no node can hold it.

        kube-scheduler may bind a target first, anywhere: from then on owners need a target on their host, even if they
        match their own term. counts: pods per class; those of targets are added.
        """
        needed = {rule.group.index for owner in owners for rule in owner.rules if rule.bootstraps and rule.obeys}
        chosen, brought = list(owners), set[int]()
        for bundle in sorted(bundles, key=lambda bundle: (bundle.count, bundle.name)):
            adds = {r.group.index for r in bundle.rules if r.bootstraps and r.matched and not r.obeys}
            if bundle.pod_class.index not in counts and adds & (needed - brought):
                counts[bundle.pod_class.index] = 1
                chosen.append(bundle)
                brought |= adds
        if needed - {rule.group.index for bundle in chosen for rule in bundle.rules if rule.matched}:
            return None
        return self._cut_to_fit(sorted(chosen, key=lambda bundle: bundle.name), counts)

    def _cut_to_fit(self, bundles: list[Bundle], counts: dict[int, int]) -> Bundle | None:
        """Return the largest even cut of the unit that some node holds, by bisection; None: not one pod of each."""
        whole = self._joined(bundles, counts)
        if self._fits(whole):
            return whole
        best = self._joined(bundles, dict.fromkeys(counts, 1))
        if not self._fits(best):
            return None
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            smaller = self._joined(bundles, {index: max(1, int(count * middle)) for index, count in counts.items()})
            if self._fits(smaller):
                low, best = middle, smaller
            else:
                high = middle
        return best

    def _joined(self, bundles: list[Bundle], counts: dict[int, int]) -> Bundle:
        """Return one colocated unit of these bundles' classes, with so many pods of each."""
        members = tuple(
            BundleMember(member.pod_class, counts[bundle.pod_class.index], member.number)
            for bundle in bundles
            for member in bundle.members
        )
        request: Floats = np.sum([bundle.request * counts[bundle.pod_class.index] for bundle in bundles], axis=0)
        levels = [bundle.level for bundle in bundles]
        return Bundle(
            members,
            levels[0],
            tuple(dict.fromkeys(terms for bundle in bundles for terms in bundle.choices)),
            request,
            count=1,
            rules=RuleSet.of(unit_rules(self.topology, members), colocated=True),
            request_key=request.tobytes(),
            tolerations=tuple(dict.fromkeys((each.tolerations, each.avoids_preferred_taints) for each in levels)),
            colocated=True,
        )

    def _fits(self, bundle: Bundle) -> bool:
        """Return whether some node can hold the unit, and its members' rules allow them to share a host."""
        for rule in bundle.rules:
            if rule.group.key.kind is RuleKind.SPREAD and rule.obeys and rule.matched > rule.group.key.max_skew:
                return False
        if self._repels_itself(bundle) or not self._has_an_order(bundle):
            return False
        mask = self.masks.mask(bundle.level, bundle.choices, None, bundle.tolerations)
        return bool(np.isfinite(self.domains.cost(mask, bundle.request)))

    def _has_an_order(self, bundle: Bundle) -> bool:
        """Return whether members can be bound in some order, each finding the affinity that it asks for."""
        waiting, there = list(bundle.members), set[int]()
        while waiting:
            for member in waiting:
                rules = self.topology.rules(member.pod_class, member.number)
                asked = [rule for rule in rules if rule.obeys and rule.group.key.kind is RuleKind.AFFINITY]
                if all(rule.group.has_matched or rule.group.index in there or rule.matched for rule in asked):
                    there.update(rule.group.index for rule in rules if rule.matched)
                    waiting.remove(member)
                    break
            else:
                return False
        return True

    def _repels_itself(self, bundle: Bundle) -> bool:
        """Return whether a pod of the unit has anti-affinity to another pod of it."""
        owners: dict[int, int] = defaultdict(int)
        matched: dict[int, int] = defaultdict(int)
        alone: dict[int, bool] = {}
        for member in bundle.members:
            for rule in self.topology.rules(member.pod_class, member.number):
                if rule.group.key.kind is RuleKind.ANTI_AFFINITY:
                    index = rule.group.index
                    owners[index] += member.pods * rule.obeys
                    matched[index] += member.pods * rule.matched
                    alone[index] = rule.obeys and rule.matched > 0
        return any(
            owners[index] and matched[index] and not (owners[index] == matched[index] == 1 and alone[index])
            for index in owners
        )
