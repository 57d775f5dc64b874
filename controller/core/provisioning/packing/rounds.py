"""The rounds of a solution: allocate, pack, take back what found no room, relax what is left, and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.core.api import labels
from controller.core.api.pod import Resources
from controller.core.provisioning.offerings.mask_compiler import MaskCompiler
from controller.core.provisioning.packing.items import Item, make_items
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.packing.shrinking import shrink
from controller.core.provisioning.pods.pod_classes import PodClass
from controller.core.provisioning.pods.relaxation import Choice, RelaxationLevel
from controller.core.provisioning.resource_space import Floats
from controller.core.provisioning.topology.allocation import Allocation, Allocator
from controller.core.provisioning.topology.bundler import Bundler
from controller.core.provisioning.topology.bundles import Bundle, BundleMember, RuleSet, unit_rules
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import RuleKind, Topology, TopologyGroup

PLANNED = "\0planned"
"""The domain under which host groups count what the plan places; rows have the details."""

Step = tuple[int, RelaxationLevel, tuple[Choice, ...]]
"""A level's number, the level, and a variant of its choices."""


@dataclass(slots=True)
class Progress:
    """How far a class has come: its steps (level number, level, variant of its choices), and pods left to place."""

    pod_class: PodClass
    steps: list[Step]
    left: int
    step: int = 0
    blocked: set[tuple[str, ...]] = field(default_factory=set)


class Rounds:
    """Places classes until nothing more can be placed."""

    def __init__(
        self, topology: Topology, masks: MaskCompiler, domains: Domains, packer: Packer, scale: Floats
    ) -> None:
        self.topology = topology
        self.masks = masks
        self.domains = domains
        self.packer = packer
        self.scale = scale
        self.allocator = Allocator(masks, domains, packer.style)
        self.bundler = Bundler(topology, masks, domains)
        self.taken_back = False
        self._requests: dict[Resources, tuple[Floats, bytes]] = {}
        self._rule_sets: dict[int, RuleSet] = {}
        self.retry = False

    def run(self, classes: Sequence[Progress], *, careful: bool = False) -> None:
        """Place what can be placed; the rest stays in `left`. `careful`: one class and one unit at a time."""
        if careful:
            for one in sorted(classes, key=self._obeys):
                self._run([one], careful=True)
        waiting = list(classes)
        while self._run(waiting, careful=careful):
            waiting = [one for one in classes if one.left]
            for one in waiting:
                one.step = 0
                one.blocked.clear()

    def _obeys(self, one: Progress) -> bool:
        """Pods that obey nothing go first: kube-scheduler may bind them before any other."""
        return any(rule.obeys for rule in unit_rules(self.topology, (BundleMember(one.pod_class, 1, one.steps[0][0]),)))

    def _run(self, waiting: list[Progress], *, careful: bool) -> bool:
        """Whether something was placed after some class had been given up: what is left may have a place by now."""
        given_up = outdated = progressed = False
        while waiting:
            before = sum(one.left for one in waiting)
            self.retry = False
            self._round(waiting, careful=careful)
            waiting = [one for one in waiting if one.left]
            if sum(one.left for one in waiting) < before:
                progressed = True
                outdated = given_up
            elif self.retry:
                continue
            elif progressed and any(one.blocked for one in waiting):
                progressed = False
                for one in waiting:
                    one.blocked.clear()
            else:
                progressed = False
                going_on = [one for one in waiting if self._relax(one)]
                given_up |= len(going_on) < len(waiting)
                waiting = going_on
        return outdated

    def _relax(self, one: Progress) -> bool:
        """Go on to the next step; False when there is none."""
        if one.step + 1 >= len(one.steps):
            return False
        one.step += 1
        one.blocked.clear()
        return True

    def _round(self, waiting: list[Progress], *, careful: bool) -> None:
        separate = [self._bundle(one) for one in waiting]
        self._find_universes(separate)
        by_class = {one.pod_class.index: one for one in waiting}
        bundles = self.bundler.colocate(separate)
        allocations = self.allocator.allocate(bundles, single=careful)
        placed_bundles: set[int] = set()
        for item in self._pack(allocations):
            placed = item.placed
            for allocation in item.allocations:
                here = min(placed, allocation.count)
                placed -= here
                self._count_hosts(allocation, here)
                if here:
                    placed_bundles.add(id(allocation.bundle))
                for member in allocation.bundle.members:
                    by_class[member.pod_class.index].left -= here * member.pods
                if here < allocation.count:
                    self._return(allocation, allocation.count - here, by_class)

        for bundle in bundles:
            if bundle.colocated and id(bundle) not in placed_bundles:
                self.bundler.failed(bundle)
                self.retry = True
        self.retry |= self.bundler.waits
        self.bundler.waits = False

    def _count_hosts(self, allocation: Allocation, placed: int) -> None:
        """Once a matched pod stands on some host, those with affinity to it must join it there."""
        for rule in allocation.bundle.rules.host:
            if rule.matched and placed:
                rule.group.max_matched[PLANNED] += placed * rule.matched

    def _pack(self, allocations: list[Allocation]) -> list[Item]:
        asked = make_items(allocations, self.scale)
        asked = self.packer.in_turn(asked)
        self.packer.pack(asked)
        left = [item for item in asked if item.count]
        if left and shrink(self.packer):
            self.packer.pack(left)
        return asked

    def _return(self, allocation: Allocation, amount: int, by_class: dict[int, Progress]) -> None:
        """Units that found no room: their counts go back, and their cell is not tried again at this step."""
        self.allocator.take_back(allocation, amount)
        if allocation.domain is not None:
            self.taken_back = True
            self.retry = True
            for member in allocation.bundle.members:
                by_class[member.pod_class.index].blocked.add(allocation.domain.values)

    def _bundle(self, one: Progress) -> Bundle:
        number, level, choices = one.steps[one.step]
        members = (BundleMember(one.pod_class, 1, number),)
        request, key = self._request(one.pod_class)
        rules = self._rules(members)
        blocked = set(one.blocked) if one.blocked else set()
        return Bundle(members, level, choices, request, one.left, rules, key, blocked=blocked)

    def _request(self, pod_class: PodClass) -> tuple[Floats, bytes]:
        found = self._requests.get(pod_class.requests)
        if found is None:
            vector = self.masks.catalog.space.vector(pod_class.requests)
            found = self._requests[pod_class.requests] = (vector, vector.tobytes())
        return found

    def _rules(self, members: tuple[BundleMember, ...]) -> RuleSet:
        """The rules of one pod of a class; classes with the same involvements share them."""
        involved = self.topology.involvements(members[0].pod_class, members[0].number)
        found = self._rule_sets.get(id(involved))
        if found is None:
            found = self._rule_sets[id(involved)] = RuleSet.of(unit_rules(self.topology, members))
        return found

    def _find_universes(self, bundles: list[Bundle]) -> None:
        """Spread groups count the domains of existing nodes, and of nodes that this batch may launch."""
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
        """Whether a spread that binds may count more pods than it surely does: then it was held to both."""
        spreads = (g for g in self.topology.groups.values() if g.required and g.key.kind is RuleKind.SPREAD)
        return any(
            count > group.min_matched.get(domain, 0) for group in spreads for domain, count in group.max_matched.items()
        )

    def sound(self) -> bool:
        """Whether the groups' rules hold: taking pods back may have left others without what they need."""
        if not self.taken_back:
            return True
        constrained_first = self.packer.style.constrained_first
        groups = [group for group in self.topology.groups.values() if group.batch_owners and group.required]
        return all(holds(group, constrained_first=constrained_first) for group in groups)


def holds(group: TopologyGroup, *, constrained_first: bool = False) -> bool:
    """Whether the owners that the plan placed stand where the group's rule allows.

    `constrained_first`: it is enough that a spread holds when pods that it only counts are bound after its owners.
    """
    occupied = [domain for domain, owners in group.owners.items() if owners > 0]
    if group.key.key == labels.HOSTNAME or group.key.kind is RuleKind.ANTI_AFFINITY:
        return True
    if group.key.kind is RuleKind.AFFINITY:
        if sum(count > 0 for count in group.max_matched.values()) == 1:
            return all(group.max_matched.get(domain, 0) > 0 for domain in occupied)
        return all(group.max_matched.get(domain, 0) > group.owners[domain] for domain in occupied)
    free = group.unconstrained if constrained_first else {}
    floor = group.global_minimum(without_unconstrained=constrained_first)
    return all(group.max_matched.get(d, 0) - free.get(d, 0) - floor <= group.key.max_skew for d in occupied)


def size_scale(*tables: Floats) -> Floats:
    """One over the largest amount of each resource that some node has, to make sizes comparable."""
    largest = np.max([table.max(axis=1, initial=0.0) for table in tables], axis=0)
    return np.asarray(np.divide(1.0, largest, out=np.full(len(largest), 1e9), where=largest > 0))
