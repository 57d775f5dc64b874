"""A lower bound on the cost of any plan that places all pods that can be placed: a covering linear program.

The relaxation makes pods and nodes divisible. It keeps what can be stated in amounts: selectors, taints, resources less
DaemonSet overhead, limits, free room on existing nodes, spread and anti-affinity over zones and over hosts. It drops
preferences, which a plan may give up, pod affinity, and the order of binding. So the bound may be too low, never too
high.

Letters in shapes: C classes, I item types (classes that are equal for the program), M distinct masks, B bin types,
G groups of existing nodes, E existing nodes, R resources, H rules over kubernetes.io/hostname.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.api import labels
from controller.core.api.pod import PodKey
from controller.core.cloud import PricedOffering
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.optimize.bin_types import BinTypes, capacities, find_bin_types, find_limits
from controller.core.provisioning.optimize.covering import Coupling, Cover, Covering, cover
from controller.core.provisioning.plan import SchedulingProblem, SolveOptions
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.provisioning.solver.compiled_problem import CompiledProblem, compile_problem
from controller.core.provisioning.solver.solver import DEFAULTS
from controller.core.provisioning.topology.groups import RuleKind, TopologyGroup
from controller.core.provisioning.topology.host_counts import HostCounts

MOST_SINGLE = 32
"""Up to this many existing nodes are bins of their own. More are grouped: nodes of a group let the same pods in and are
short of the same resources, or the sum of their room would hold pods that none of them can."""
MOST_STEPS = 5
"""How short a node is of each resource is measured in this many steps of a factor of the square root of two."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The cost that no plan undercuts which leaves out no more than `unplaced` pods."""

    cost_per_hour: float
    """$/hour: the price and what nodes cost beside it, without surplus CPU."""
    unplaced: float
    """Pods that no plan can place; a fraction where limits cut a pod in two."""
    pod_worth: tuple[tuple[PodKey, float], ...] = ()
    """Dual price of a class, by its first pod: $/hour that one more such pod adds."""
    nodes: tuple[tuple[PricedOffering, float], ...] = ()
    """The offerings of the program's optimum, with the fractional number of nodes of each."""


def bound(
    problem: SchedulingProblem,
    options: SolveOptions = DEFAULTS,
    without: frozenset[PodKey] = frozenset(),
    snapshot_index: SnapshotIndex | None = None,
) -> Bound:
    """Return the bound for the pending pods but those of `without` (to judge a plan that leaves some out)."""
    return _Bounder(compile_problem(problem, options, snapshot_index), without).bound()


@dataclass(frozen=True, slots=True)
class _ClassMasks:
    """Where each class may go at its last relaxation level, all variants of its OR terms together.

    of: C, the mask of each class. bits: M times T sets of offering bits. existing: M x E flags.
    """

    of: list[int]
    bits: list[Bits]
    existing: list[Bools]


@dataclass(frozen=True, slots=True)
class _Rules:
    """Required spread and anti-affinity, by group index.

    members: positions (in C) of the classes that have the rule and are counted by it. loose: groups that also count
    classes without the rule.
    """

    groups: dict[int, TopologyGroup]
    members: dict[int, list[int]]
    loose: set[int]

    def over(self, key: str) -> list[int]:
        """Return the groups with members over a topology key, ascending."""
        return [index for index in sorted(self.members) if self.groups[index].key.key == key]


@dataclass(frozen=True, slots=True)
class _ExistingBins:
    """Groups of existing nodes as bins. rows: G arrays of positions in E. capacity: G x (R + H), free room together.

    zone: G, position in the bin types' zones or -1. allowed: G x M.
    """

    rows: list[Ints]
    capacity: Floats
    zone: Ints
    allowed: Bools


class _Bounder:
    """Turns a compiled problem into a covering program."""

    def __init__(self, compiled: CompiledProblem, without: frozenset[PodKey]) -> None:
        self.compiled = compiled
        self.catalog = compiled.masks.catalog
        self.existing = compiled.masks.existing
        self.ladders = compiled.ladders
        self.without = without
        # C: pods of each class; C x R: what one of them requests.
        counts = [sum(pod.key not in without for pod in each.pod_class.pods) for each in self.ladders]
        self.counts: Floats = np.array(counts, dtype=np.float64)
        space = self.catalog.space
        self.requests: Floats = np.zeros((len(self.ladders), len(space)))
        for position, ladder in enumerate(self.ladders):
            self.requests[position] = space.vector(ladder.pod_class.requests)
        self.masks = self._class_masks()
        hosts = HostCounts(max(1, len(self.existing)))
        self.topology, self.domains = compiled.topology(hosts, last_level_only=True)
        self.rules = self._find_rules()

    def _class_masks(self) -> _ClassMasks:
        numbers: dict[bytes, int] = {}
        masks = _ClassMasks([], [], [])
        for ladder in self.ladders:
            last = [step for step in ladder.steps if step[0] == ladder.steps[-1][0]]
            variants = [self.compiled.masks.mask(level, choices) for _, level, choices in last]
            bits = np.bitwise_or.reduce([mask.bits for mask in variants])
            existing = np.logical_or.reduce([mask.existing for mask in variants])
            number = numbers.setdefault(bits.tobytes() + existing.tobytes(), len(numbers))
            if number == len(masks.bits):
                masks.bits.append(bits)
                masks.existing.append(existing)
            masks.of.append(number)
        return masks

    def _find_rules(self) -> _Rules:
        rules = _Rules({}, defaultdict(list), set())
        for position, ladder in enumerate(self.ladders):
            for rule in self.topology.rules(ladder.pod_class, ladder.steps[-1][0]):
                index = rule.group.index
                if rule.group.key.kind is RuleKind.AFFINITY:
                    continue
                rules.groups[index] = rule.group
                if rule.owned and rule.matched:
                    rules.members[index].append(position)
                elif rule.matched:
                    rules.loose.add(index)
        return rules

    def bound(self) -> Bound:
        """Solve the covering program."""
        host, zonal = self.rules.over(labels.HOSTNAME), self.rules.over(labels.ZONE)
        bin_types = find_bin_types(self.catalog, self.masks.bits, by_zone=bool(zonal))
        # C x (R + H): a pod takes 1 of every host rule that it is a member of.
        requests = np.concatenate([self.requests, np.zeros((len(self.ladders), len(host)))], axis=1)
        for column, index in enumerate(host, start=len(self.catalog.space)):
            requests[self.rules.members[index], column] = 1.0
        item_types = self._item_types(requests, zonal)
        first = np.array([classes[0] for classes in item_types], dtype=np.int64)
        masks = np.array([self.masks.of[position] for position in first], dtype=np.int64)
        request = requests[first]
        # The program's bins are the B bin types, then the G groups of existing nodes, which are free and one each.
        existing = self._existing_bins(host, by_zone=bool(zonal), zones=bin_types.zones)
        groups = len(existing.rows)
        of_types = capacities(self.catalog, bin_types, [self.rules.groups[index].key for index in host])
        capacity = np.concatenate([of_types, existing.capacity])
        zone = np.concatenate([bin_types.zone, existing.zone])
        # Bins x I: a unit must fit on one empty node of the type, or on one node of the group.
        allowed = np.concatenate([bin_types.allowed[:, masks], existing.allowed[:, masks]])
        for column in range(len(self.catalog.space)):
            allowed[: len(bin_types)] &= request[:, column] <= capacity[: len(bin_types), column, None]
        fits = [[self._fits(position, rows) for position in first] for rows in existing.rows]
        allowed[len(bin_types) :] &= np.array(fits, dtype=np.bool_).reshape(groups, len(first))
        # What is used of CPU beyond a baseline is not known of divisible nodes: it counts as free.
        surplus = self.catalog.table.surplus[bin_types.option]
        program = Covering(
            requests=request,
            counts=np.array([self.counts[classes].sum() for classes in item_types]),
            capacity=capacity,
            price=np.concatenate([bin_types.price - surplus, np.zeros(groups)]),
            ceiling=np.concatenate([np.full(len(bin_types), np.inf), np.ones(groups)]),
            allowed=allowed,
            limits=find_limits(self.catalog, bin_types, len(capacity)),
            couplings=self._couplings(zonal, item_types, zone, bin_types.zones),
        )
        return self._answer(cover(program), bin_types, item_types)

    def _item_types(self, requests: Floats, zonal: list[int]) -> list[list[int]]:
        """Return I lists of positions in C: classes with pods, equal requests, equal masks, and equal zone rules."""
        rules: dict[int, list[tuple[object, ...]]] = defaultdict(list)
        for index in zonal:
            group, members = self.rules.groups[index], self.rules.members[index]
            # Anti-affinity groups of one item type each can share it, as each allows one pod per zone (`_couplings`).
            distinct = {(requests[position].tobytes(), self.masks.of[position]) for position in members}
            shared = group.key.kind is RuleKind.ANTI_AFFINITY and not group.has_matched and len(distinct) == 1
            for position in members:
                rules[position].append((group.key.kind, -1 if shared else index))
        item_types: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for position in range(len(self.ladders)):
            own_rules = tuple(sorted(rules[position], key=repr))
            item_types[requests[position].tobytes(), self.masks.of[position], own_rules].append(position)
        return [classes for classes in item_types.values() if self.counts[classes].sum() > 0]

    def _couplings(
        self, zonal: list[int], item_types: list[list[int]], zone: Ints, zones: tuple[str, ...]
    ) -> tuple[Coupling, ...]:
        """Return the zone rules that the program can state. zone: of each bin, position in `zones` or -1."""
        item_of = {position: number for number, classes in enumerate(item_types) for position in classes}
        couplings: list[Coupling] = []
        # By item types: how many anti-affinity groups they stand for, which is what each zone takes.
        apart: dict[tuple[int, ...], float] = defaultdict(float)
        for index in zonal:
            group = self.rules.groups[index]
            items = tuple(sorted({item_of[position] for position in self.rules.members[index] if position in item_of}))
            if not items:
                continue
            if group.key.kind is RuleKind.ANTI_AFFINITY:
                if not group.has_matched and index not in self.rules.loose:
                    apart[items] += 1.0
            elif self._plain_spread(index, zones):
                matched = np.array([float(group.max_matched.get(name, 0)) for name in zones])
                couplings.append(Coupling(np.array(items), zone, matched, float(group.key.max_skew)))
        for items, most in apart.items():
            couplings.append(Coupling(np.array(items), zone, np.zeros(len(zones)), None, np.full(len(zones), most)))
        return tuple(couplings)

    def _plain_spread(self, index: int, zones: tuple[str, ...]) -> bool:
        """Return whether a spread can be stated in amounts: it counts its own pods alone, over the bins' zones."""
        group, members = self.rules.groups[index], self.rules.members[index]
        if index in self.rules.loose or len({self.masks.of[position] for position in members}) != 1:
            return False
        _, level, choices = self.ladders[members[0]].steps[-1]
        self.domains.expect([self.compiled.masks.mask(level, choices)])
        return self.domains.universe(group) == frozenset(zones) and group.key.min_domains <= len(zones)

    def _existing_bins(self, host: list[int], *, by_zone: bool, zones: tuple[str, ...]) -> _ExistingBins:
        """Group existing nodes that let the same masks in and are short of the same resources; by zone if asked."""
        # E x M: whether the node lets the mask in.
        lets_in: Bools = (
            np.array(self.masks.existing, dtype=np.bool_).reshape(len(self.masks.existing), len(self.existing)).T
        )
        shortage = range(len(self.existing)) if len(self.existing) <= MOST_SINGLE else self._shortages()
        groups: dict[tuple[bytes, int, object], list[int]] = defaultdict(list)
        for row, node in enumerate(self.existing.nodes):
            if lets_in[row].any():
                name = node.node.labels.get(labels.ZONE, "")
                zone = zones.index(name) if by_zone and name in zones else -1
                groups[lets_in[row].tobytes(), zone, shortage[row]].append(row)
        rows = [np.array(group, dtype=np.int64) for group in groups.values()]
        resources = len(self.catalog.space)
        capacity = np.zeros((len(rows), resources + len(host)))
        for number, group in enumerate(rows):
            capacity[number, :resources] = np.maximum(self.existing.free[:, group], 0.0).sum(axis=1)
            capacity[number, resources:] = [self.rules.groups[index].key.host_capacity * len(group) for index in host]
        zone_of = np.array([zone for _, zone, _ in groups], dtype=np.int64)
        allowed = lets_in[[group[0] for group in rows]] if rows else lets_in[:0]
        return _ExistingBins(rows, capacity, zone_of, allowed)

    def _shortages(self) -> Sequence[object]:
        """Return E, as bytes: how much more a node has of each resource than of its scarcest, in `MOST_STEPS`."""
        total = self.requests.T @ self.counts
        # Requested resources x E: free room as a share of all requests.
        shares = np.maximum(self.existing.free[total > 0], 1e-9) / total[total > 0][:, None]
        octaves = np.log2(shares / shares.min(axis=0, initial=np.inf))
        return [column.tobytes() for column in np.clip(np.round(2.0 * octaves), 0, MOST_STEPS).astype(np.int8).T]

    def _fits(self, position: int, rows: Ints) -> bool:
        """Return whether a pod of the class fits on one of these existing nodes."""
        request = self.requests[position]
        asked = request > 0
        return bool((self.existing.free[asked][:, rows] >= request[asked][:, None]).all(axis=0).any())

    def _answer(self, optimum: Cover, bin_types: BinTypes, item_types: list[list[int]]) -> Bound:
        unreadable = sum(key not in self.without for key in self.compiled.unreadable)
        worth = sorted(
            (self.ladders[position].pod_class.pods[0].key, float(optimum.worth[number]))
            for number, classes in enumerate(item_types)
            for position in classes
        )
        nodes = sorted(
            (self.catalog.table.offering(int(bin_types.option[number]), int(bin_types.offering_key[number])), count)
            for number, count in zip(optimum.bins.tolist(), optimum.nodes.tolist(), strict=True)
            if number < len(bin_types) and count > 1e-6
        )
        return Bound(optimum.price, float(optimum.unplaced.sum()) + unreadable, tuple(worth), tuple(nodes))
