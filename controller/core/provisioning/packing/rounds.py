"""The rounds of a first plan: allocate topology domains, pack, return units without room, relax their preferences.

Rounds go on until nothing more can be placed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.core.api import labels
from controller.core.api.pod import Resources
from controller.core.provisioning.offerings.mask_compiler import Mask, MaskCompiler
from controller.core.provisioning.packing.items import Item, make_items
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.packing.placed_shares import PlacedShares, Share, shares
from controller.core.provisioning.packing.shrinking import Shrinker
from controller.core.provisioning.pods.pod_classes import PodClass
from controller.core.provisioning.pods.relaxation import Choice, RelaxationLevel
from controller.core.provisioning.resource_space import Floats
from controller.core.provisioning.topology.allocation import Allocation, Allocator
from controller.core.provisioning.topology.bundler import Bundler
from controller.core.provisioning.topology.bundles import Bundle, BundleMember, RuleSet, unit_rules
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import RuleKind, Topology, TopologyGroup

PLANNED = "\0planned"
"""The domain under which host groups count all planned pods together; `HostCounts` has them by row."""

Step = tuple[int, RelaxationLevel, tuple[Choice, ...]]
"""A level's number, the level, and a variant of its choices."""


@dataclass(slots=True)
class Progress:
    """How many pods of a class are left to place, and at which step of relaxation."""

    pod_class: PodClass
    steps: list[Step]
    left: int
    """Pods left to place."""
    step: int = 0
    """Index of the current step."""
    blocked: set[tuple[str, ...]] = field(default_factory=set)
    """Joint domains where units found no room at the current step."""

    def go_to(self, step: int) -> None:
        """Set the current step, at which every joint domain may be tried."""
        self.step = step
        self.blocked.clear()


class Rounds:
    """Places classes until nothing more can be placed.

    scale: R, one over the largest amount of each resource that any node has; it makes sizes of items comparable.
    """

    def __init__(
        self,
        topology: Topology,
        masks: MaskCompiler,
        domains: Domains,
        packer: Packer,
        progress: Sequence[Progress],
        early: frozenset[int] = frozenset(),
    ) -> None:
        """`early`: classes, by index, that are allocated before others."""
        self.topology = topology
        self.masks = masks
        self.domains = domains
        self.packer = packer
        self.progress = progress
        self.shrinker = Shrinker(packer)
        self.scale = _scale(masks.catalog.allocatable, masks.existing.free)
        self.allocator = Allocator(masks, domains, packer.style, early)
        self.bundler = Bundler(topology, masks, domains)
        self._retry = False
        """Whether the current round changed what the next may do, even if it placed nothing."""
        self._progress_of = {one.pod_class.index: one for one in progress}
        self._requests: dict[Resources, tuple[Floats, bytes]] = {}
        self._rule_sets: dict[int, RuleSet] = {}

    def run(self, *, careful: bool = False) -> None:
        """Place what can be placed; the rest stays in `Progress.left`. `careful`: one class and one unit at a time."""
        if careful:
            for one in sorted(self.progress, key=self._obeys):
                self._run([one], careful=True)
        waiting = [one for one in self.progress if one.left]
        while self._run(waiting, careful=careful):
            waiting = [one for one in self.progress if one.left]
            for one in waiting:
                one.go_to(0)

    def run_first(self, first: Mapping[int, int]) -> None:
        """Place so many pods of the classes (by index), and none of others; the rest stays in `Progress.left`."""
        self._find_universes([self._bundle(one) for one in self.progress])
        later = {one.pod_class.index: one.left - first.get(one.pod_class.index, 0) for one in self.progress}
        for one in self.progress:
            one.left -= later[one.pod_class.index]
        self.run()
        for one in self.progress:
            one.left += later[one.pod_class.index]

    def _obeys(self, one: Progress) -> bool:
        """Return whether a topology rule binds the class. Others go first, as kube-scheduler may bind them first."""
        return any(rule.obeys for rule in unit_rules(self.topology, (BundleMember(one.pod_class, 1, one.steps[0][0]),)))

    def _run(self, waiting: list[Progress], *, careful: bool, considerate: bool = False) -> bool:
        """Run rounds until no class has steps left. Returns whether units were placed after some class was given up.

        Such a class may have a place by now, for instance beside a pod that it has affinity to.
        """
        given_up = outdated = progressed = False
        while waiting:
            before = sum(one.left for one in waiting)
            self._retry = False
            self._round(waiting, careful=careful, considerate=considerate)
            placed = sum(one.left for one in waiting) < before
            waiting = self._with_room(waiting)
            if placed:
                progressed = True
                outdated = given_up
            elif self._retry:
                continue
            elif progressed and any(one.blocked for one in waiting):
                progressed = False
                for one in waiting:
                    one.blocked.clear()
            else:
                progressed = False
                relaxed = [one for one in waiting if self._relax(one)]
                given_up |= len(relaxed) < len(waiting)
                waiting = relaxed
        return outdated

    def _with_room(self, waiting: Sequence[Progress]) -> list[Progress]:
        """Return the classes with pods left that may still find a place: limits that are reached leave most without."""
        left = [one for one in waiting if one.left]
        if not self.packer.limits.limited:
            return left
        fitting = self._chosen(left, self.packer.has_room)
        if left and not fitting and self.shrinker.shrink():
            return self._chosen(left, self.packer.has_room)
        return fitting

    def _chosen(self, waiting: Sequence[Progress], chosen: Callable[[Mask, Floats], bool]) -> list[Progress]:
        """Return the classes for which this holds, by the mask and request of a pod at its step or a later one."""
        known: dict[tuple[int, bytes], bool] = {}

        def holds_for(one: Progress) -> bool:
            request, key = self._request(one.pod_class)
            for _, level, choices in one.steps[one.step :]:
                mask = self.masks.mask(level, choices)
                if (mask.index, key) not in known:
                    known[mask.index, key] = chosen(mask, request)
                if known[mask.index, key]:
                    return True
            return False

        return [one for one in waiting if holds_for(one)]

    def _relax(self, one: Progress) -> bool:
        """Go to the class's next step; False if there is none."""
        if one.step + 1 >= len(one.steps):
            return False
        one.go_to(one.step + 1)
        return True

    def _round(self, waiting: list[Progress], *, careful: bool, considerate: bool) -> None:
        separate = [self._bundle(one) for one in waiting]
        self._find_universes(separate)
        by_class = {one.pod_class.index: one for one in waiting}
        bundles = self.bundler.colocate(separate)
        allocations = self.allocator.allocate(bundles, single=careful, considerate=considerate)
        placed_bundles: set[int] = set()
        for item in self._pack(allocations):
            # The item's units were placed in the order of its allocations.
            unassigned = item.placed
            for allocation in item.allocations:
                placed = min(unassigned, allocation.count)
                unassigned -= placed
                self._count_hosts(allocation, placed)
                if placed:
                    placed_bundles.add(id(allocation.bundle))
                for member in allocation.bundle.members:
                    by_class[member.pod_class.index].left -= placed * member.pods
                if placed < allocation.count:
                    self._return(allocation, allocation.count - placed, by_class)

        for bundle in bundles:
            if bundle.colocated and id(bundle) not in placed_bundles:
                self.bundler.failed(bundle)
                self._retry = True
        self._retry |= self.bundler.waits
        self.bundler.waits = False

    def _count_hosts(self, allocation: Allocation, placed: int) -> None:
        """Count units for host rules: once a matched pod is on some host, pods with affinity to it must join it."""
        for rule in allocation.bundle.rules.host:
            if rule.matched and placed:
                rule.group.max_matched[PLANNED] += placed * rule.matched

    def _pack(self, allocations: list[Allocation]) -> list[Item]:
        items = self.packer.in_turn(make_items(allocations, self.scale))
        self.packer.pack(items)
        while (left := [item for item in items if item.count]) and self.shrinker.shrink():
            self.packer.pack(left)
        return items

    def _return(self, allocation: Allocation, amount: int, by_class: dict[int, Progress]) -> None:
        """Take units without room out of the counts; their joint domain is not tried again at this step."""
        self.allocator.take_back(allocation, amount)
        if allocation.domain is not None:
            self._retry = True
            for member in allocation.bundle.members:
                by_class[member.pod_class.index].blocked.add(allocation.domain.values)

    def _bundle(self, one: Progress) -> Bundle:
        number, level, choices = one.steps[one.step]
        members = (BundleMember(one.pod_class, 1, number),)
        request, key = self._request(one.pod_class)
        rules = self._rules(members)
        return Bundle(members, level, choices, request, one.left, rules, key, blocked=set(one.blocked))

    def _request(self, pod_class: PodClass) -> tuple[Floats, bytes]:
        """Return the requests as a vector (R), and as bytes to compare them by."""
        if (request := self._requests.get(pod_class.requests)) is None:
            vector = self.masks.catalog.space.vector(pod_class.requests)
            request = self._requests[pod_class.requests] = (vector, vector.tobytes())
        return request

    def _rules(self, members: tuple[BundleMember, ...]) -> RuleSet:
        """Return the rules of one pod of a class; classes with the same rules share the set."""
        own = self.topology.rules(members[0].pod_class, members[0].number)
        if (rules := self._rule_sets.get(id(own))) is None:
            rules = self._rule_sets[id(own)] = RuleSet.of(unit_rules(self.topology, members))
        return rules

    def _find_universes(self, bundles: list[Bundle]) -> None:
        """Set the domains of spread groups: those of existing nodes, and of nodes that this batch may launch."""
        groups = {
            rule.group.index: rule.group
            for bundle in bundles
            for rule in bundle.rules.domain
            if rule.group.key.kind is RuleKind.SPREAD
        }
        if groups:
            self.domains.expect(self.masks.mask(bundle.level, bundle.choices) for bundle in bundles)
            for group in groups.values():
                group.domains = self.domains.universe(group) | group.domains

    @property
    def unsettled(self) -> bool:
        """Whether counts of a required spread are uncertain, so that it was held to their upper and lower bounds."""
        groups = (group for group in self.topology.groups.values() if group.key.key != labels.HOSTNAME)
        spreads = (group for group in groups if group.required and group.key.kind is RuleKind.SPREAD)
        return any(
            count > group.min_matched.get(domain, 0) for group in spreads for domain, count in group.max_matched.items()
        )

    def broken(self) -> list[TopologyGroup]:
        """Return the groups whose required rule does not hold in the end,
        though it held for each unit when it was allocated.

        Units of other classes may have been added to spreads that only count them, or to another domain than pods with
        an affinity to them that went first; returned units may have left others without the pods they depend on.
        """
        constrained_first = self.packer.style.constrained_first
        groups = [group for group in self.topology.groups.values() if group.batch_owners and group.required]
        return [group for group in groups if not holds(group, constrained_first=constrained_first)]

    @property
    def left(self) -> int:
        """Number of pods without a place."""
        return sum(one.left for one in self.progress)

    @property
    def placed(self) -> dict[int, int]:
        """The number of pods with a place, by class index."""
        return {one.pod_class.index: len(one.pod_class) - one.left for one in self.progress}

    @property
    def rationed(self) -> bool:
        """Whether limits leave pods out: nodes that they no longer allow would have room."""
        return bool(self._chosen([one for one in self.progress if one.left], self.packer.beyond_limits))

    def disregarding(self, groups: Sequence[TopologyGroup]) -> frozenset[int]:
        """Return the classes, by index, that these spreads count without binding them, in overfull domains."""
        placed = [share for share in shares(self.packer) if share.units]
        return frozenset(
            share.allocation.bundle.pod_class.index
            for group in groups
            for domain in self._overfull(group)
            for share in placed
            if share.counted_by(group, domain)
        )

    def settle(self) -> None:
        """Take back units whose own rules do not hold in the end; they get one more chance to be placed."""
        if self._withdraw_broken():
            for one in self.progress:
                one.go_to(0)
            self.run()
            self._withdraw_broken()
        self.add_left()

    def add_left(self) -> None:
        """Place units with rules over domains that were left out, one by one, where all rules still hold afterwards.

        What was taken back, from this domain or others, may have made room for them.
        """
        tied = self._tied()
        before = self.left + 1
        while self.left < before:
            before = self.left
            for one in tied:
                one.go_to(0)
                self._run(self._with_room([one]), careful=True, considerate=True)

    @property
    def left_by_domains(self) -> frozenset[int]:
        """The classes, by index, with pods without a place that have rules over domains."""
        return frozenset(one.pod_class.index for one in self._tied() if one.left)

    def _tied(self) -> list[Progress]:
        """Return the classes that obey rules over domains."""
        return [one for one in self.progress if any(rule.obeys for rule in self._bundle(one).rules.domain)]

    def _withdraw_broken(self) -> int:
        """Take back units until the rules of all that are left hold; how many."""
        placed, before = PlacedShares(self.packer), self.left
        while sum([self._withdraw(placed, group) for group in self.broken()]):
            pass
        return self.left - before

    def _overfull(self, group: TopologyGroup) -> dict[str, int]:
        """Return, by domain with units that have the spread's rule, the matched pods above what it allows."""
        return excesses(group, constrained_first=self.packer.style.constrained_first)

    def _withdraw(self, placed: PlacedShares, group: TopologyGroup) -> int:
        """Take back units from the domains where the group's rule does not hold for them; how many."""
        if group.key.kind is RuleKind.SPREAD:
            return sum(self._take_from(placed, group, domain, most) for domain, most in self._overfull(group).items())
        return sum(self._take_from(placed, group, domain, group.owners[domain]) for domain in alone(group))

    def _take_from(self, placed: PlacedShares, group: TopologyGroup, domain: str, most: int) -> int:
        """Take back up to so many of the units that came last to a domain with the group's rule; how many."""
        share = placed.last(group, domain)
        if share is None:
            return 0
        units = min(share.units, most)
        self._take(placed, share, units)
        return units

    def _take(self, placed: PlacedShares, share: Share, units: int) -> None:
        """Take back units, and with them all that chose their hosts for pods like them."""
        placed.remove(share, units)
        self.allocator.take_back(share.allocation, units)
        self._count_hosts(share.allocation, -units)
        bundle = share.allocation.bundle
        for member in bundle.members:
            self._progress_of[member.pod_class.index].left += units * member.pods
        beside = {r.group.index for r in bundle.rules.host if r.matched and r.group.key.kind is RuleKind.AFFINITY}
        for other in placed.on_hosts(beside):
            if other.units:
                self._take(placed, other, other.units)


def holds(group: TopologyGroup, *, constrained_first: bool = False) -> bool:
    """Return whether the pods placed with the group's rule are in domains that it allows.

    constrained_first: a spread needs to hold only if the pods that it counts without binding them are bound last.
    """
    if group.key.key == labels.HOSTNAME or group.key.kind is RuleKind.ANTI_AFFINITY:
        return True
    if group.key.kind is RuleKind.AFFINITY:
        return not alone(group)
    return not excesses(group, constrained_first=constrained_first)


def alone(group: TopologyGroup) -> list[str]:
    """Return, of an affinity, the domains with owners that need a matching pod there.

    Owners that match themselves need no others while all that match are in one domain: one of them is bound first. Else
    kube-scheduler may bind those of another domain first, which leaves them none.
    """
    only = sum(count > 0 for count in group.max_matched.values()) == 1
    return [
        domain
        for domain, owners in group.owners.items()
        if owners > 0 and group.max_matched.get(domain, 0) <= (0 if only else group.matched_owners[domain])
    ]


def excesses(group: TopologyGroup, *, constrained_first: bool = False) -> dict[str, int]:
    """Return, of a spread, by domain with owners, the matched pods above what least domain and maxSkew allow."""
    free = group.unconstrained if constrained_first else {}
    most = group.global_minimum(without_unconstrained=constrained_first) + group.key.max_skew
    above = {
        domain: group.max_matched.get(domain, 0) - free.get(domain, 0) - most
        for domain, owners in group.owners.items()
        if owners > 0
    }
    return {domain: excess for domain, excess in above.items() if excess > 0}


def _scale(*tables: Floats) -> Floats:
    """Return R: one over the largest value in each row of these tables (R x nodes)."""
    largest = np.max([table.max(axis=1, initial=0.0) for table in tables], axis=0)
    return np.asarray(np.divide(1.0, largest, out=np.full(len(largest), 1e9), where=largest > 0))
