"""A lower bound: the least that any plan can cost which places all pods that can be placed.

Pods and nodes are divisible here, all else holds that can be said of amounts: selectors, taints, resources with the
daemons' share taken off, limits, free room on existing nodes, spread and anti-affinity over zones and over hosts.
Preferences are left out (a plan may give them up), as are pod affinity and the order of binding: a bound may be too
low, never too high.
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
from controller.core.provisioning.optimize.bin_types import BinTypes, find_bin_types, find_limits
from controller.core.provisioning.optimize.covering import Coupling, Cover, Covering, cover
from controller.core.provisioning.plan import SchedulingProblem, SolveOptions
from controller.core.provisioning.pods.selector_index import SelectorIndex
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.provisioning.solver.solver import DEFAULTS, Solver
from controller.core.provisioning.topology.groups import RuleKind, Topology, TopologyGroup
from controller.core.provisioning.topology.host_counts import HostCounts
from controller.core.provisioning.topology.seeding import seed

APART, LEAN = 32, 5
"""Up to so many existing nodes are bins of their own. More are taken together where they let the same pods in and are
short of the same resources: how much more a node has of each than of its scarcest, in steps of the root of two."""


@dataclass(frozen=True, slots=True)
class Bound:
    """price_per_hour: $/hour that no plan undercuts which leaves no more than `unplaced` pods out.

    unplaced: pods that no plan can place (for limits a fraction may remain). pod_worth: by a pod of each class, what
    one more of its kind adds to the price, $/hour. nodes: the offerings of the linear program's optimum, with the
    (fractional) number of nodes of each.
    """

    price_per_hour: float
    unplaced: float
    pod_worth: tuple[tuple[PodKey, float], ...] = ()
    nodes: tuple[tuple[PricedOffering, float], ...] = ()


def bound(
    problem: SchedulingProblem,
    options: SolveOptions = DEFAULTS,
    without: frozenset[PodKey] = frozenset(),
    snapshot_index: SnapshotIndex | None = None,
) -> Bound:
    """The bound for the pending pods, those of `without` left out (to judge a plan that places only some)."""
    return _Bounder(Solver(problem, options, snapshot_index), without).bound()


class _Bounder:
    """Turns a solver's compiled problem into a covering program."""

    def __init__(self, solver: Solver, without: frozenset[PodKey]) -> None:
        self.solver = solver
        self.catalog = solver.catalog
        self.existing = solver.existing
        self.classes = [c for c in solver.classes if c.index in solver.ladders]
        counts = [sum(pod.key not in without for pod in c.pods) for c in self.classes]
        self.without = without
        self.counts = np.array(counts, dtype=np.float64)
        self._find_masks()
        self._find_groups()

    def _find_masks(self) -> None:
        """Per class: where its last level lets it go, the variants of its OR terms together."""
        found: dict[bytes, int] = {}
        self.mask_bits: list[Bits] = []
        self.mask_existing: list[Bools] = []
        self.mask_of: list[int] = []
        for pod_class in self.classes:
            steps = self.solver.ladders[pod_class.index]
            last = [step for step in steps if step[0] == steps[-1][0]]
            masks = [self.solver.masks.mask(level, choices) for _, level, choices in last]
            bits = np.bitwise_or.reduce([mask.bits for mask in masks])
            existing = np.logical_or.reduce([mask.existing for mask in masks])
            key = bits.tobytes() + existing.tobytes()
            if key not in found:
                found[key] = len(self.mask_bits)
                self.mask_bits.append(bits)
                self.mask_existing.append(existing)
            self.mask_of.append(found[key])

    def _find_groups(self) -> None:
        """Spread and anti-affinity that bind every pod they count, by group: their classes' places in `classes`."""
        solver = self.solver
        index = SelectorIndex({name: space.labels for name, space in solver.problem.snapshot.namespaces.items()})
        self.topology = Topology(solver.running_pods(index))
        numbers = [solver.ladders[c.index][-1][0] for c in self.classes]
        for pod_class, number in zip(self.classes, numbers, strict=True):
            self.topology.add(pod_class, number, solver.ladders[pod_class.index][-1][1])
        self.domains = solver.domains()
        self.hosts = HostCounts(max(1, len(self.existing)))
        seed(self.topology, self.domains, self.hosts, self.existing.rows)
        members: dict[int, list[int]] = defaultdict(list)
        self.groups: dict[int, TopologyGroup] = {}
        loose: set[int] = set()
        for place, (pod_class, number) in enumerate(zip(self.classes, numbers, strict=True)):
            for one in self.topology.involvements(pod_class, number):
                if one.group.key.kind is RuleKind.AFFINITY:
                    continue
                self.groups[one.group.index] = one.group
                if one.owner and one.matched and one.required:
                    members[one.group.index].append(place)
                elif one.matched:
                    loose.add(one.group.index)
        self.members = {index: places for index, places in members.items() if places}
        self.loose = loose

    def bound(self) -> Bound:
        """Solve the covering program."""
        host = [i for i in sorted(self.members) if self.groups[i].key.key == labels.HOSTNAME]
        zonal = [i for i in sorted(self.members) if self.groups[i].key.key == labels.ZONE]
        offers = find_bin_types(self.catalog, self.mask_bits, by_zone=bool(zonal))
        requests = self._requests(host)
        lumps = self._lumps(requests, zonal)
        items = np.array([lump[0] for lump in lumps], dtype=np.int64)
        counts = np.array([self.counts[lump].sum() for lump in lumps])
        existing = self._existing_bins(host, by_zone=bool(zonal), zones=offers.zones)
        capacity = np.concatenate([self._capacity(offers, host), existing.capacity])
        price = np.concatenate([offers.price, np.zeros(len(existing.capacity))])
        ceiling = np.concatenate([np.full(len(offers), np.inf), np.ones(len(existing.capacity))])
        masks = np.array(self.mask_of, dtype=np.int64)[items] if len(items) else np.zeros(0, dtype=np.int64)
        allowed = np.concatenate([offers.allowed[:, masks], existing.allowed[:, masks]])
        request = requests[items] if len(items) else np.zeros((0, capacity.shape[1]))
        for column in range(len(self.catalog.space)):
            allowed[: len(offers)] &= request[:, column] <= capacity[: len(offers), column, None]
        allowed[len(offers) :] &= np.array(
            [[self._fits(one, rows) for one in items] for rows in existing.rows], dtype=np.bool_
        ).reshape(len(existing.rows), len(items))
        zone = np.concatenate([offers.zone, existing.zone])
        couplings = self._couplings(zonal, lumps, zone, offers.zones)
        problem = Covering(
            request, counts, capacity, price, ceiling, allowed, find_limits(self.catalog, offers, len(price)), couplings
        )
        found = cover(problem)
        return self._answer(found, offers, lumps)

    def _requests(self, host: list[int]) -> Floats:
        """Classes x (resources and host rules)."""
        space = self.catalog.space
        table = np.zeros((len(self.classes), len(space) + len(host)))
        for place, pod_class in enumerate(self.classes):
            table[place, : len(space)] = space.vector(pod_class.requests)
        for column, index in enumerate(host):
            table[self.members[index], len(space) + column] = 1.0
        return table

    def _host_cap(self, group: TopologyGroup) -> float:
        return 1.0 if group.key.kind is RuleKind.ANTI_AFFINITY else float(group.key.max_skew)

    def _capacity(self, offers: BinTypes, host: list[int]) -> Floats:
        caps = np.array([self._host_cap(self.groups[i]) for i in host])
        own = self.catalog.allocatable[:, offers.option].T
        return np.concatenate([np.maximum(own, 0.0), np.broadcast_to(caps, (len(offers), len(host)))], axis=1)

    def _lumps(self, requests: Floats, zonal: list[int]) -> list[list[int]]:
        """Classes that the program cannot tell apart: same request, same mask, zone rules of the same kind."""
        rules: dict[int, list[tuple[object, ...]]] = defaultdict(list)
        for index in zonal:
            group = self.groups[index]
            alike = {(requests[place].tobytes(), self.mask_of[place]) for place in self.members[index]}
            alone = group.key.kind is RuleKind.ANTI_AFFINITY and not group.has_matched and len(alike) == 1
            for place in self.members[index]:
                rules[place].append((group.key.kind, -1 if alone else index))
        found: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for place in range(len(self.classes)):
            key = (requests[place].tobytes(), self.mask_of[place], tuple(sorted(rules[place], key=repr)))
            found[key].append(place)
        return [places for places in found.values() if self.counts[places].sum() > 0]

    def _couplings(
        self, zonal: list[int], lumps: list[list[int]], zone: Ints, zones: tuple[str, ...]
    ) -> tuple[Coupling, ...]:
        lump_of = {place: number for number, lump in enumerate(lumps) for place in lump}
        found: list[Coupling] = []
        alone: dict[tuple[int, ...], float] = defaultdict(float)
        for index in zonal:
            group = self.groups[index]
            items = tuple(sorted({lump_of[place] for place in self.members[index] if place in lump_of}))
            if not items:
                continue
            if group.key.kind is RuleKind.ANTI_AFFINITY:
                if group.has_matched or index in self.loose:
                    continue
                alone[items] += 1.0
            elif self._plain_spread(index, group, zones):
                existing = np.array([float(group.max_matched.get(name, 0)) for name in zones])
                found.append(Coupling(np.array(items), zone, existing, float(group.key.max_skew)))
        for items, most in alone.items():
            found.append(Coupling(np.array(items), zone, np.zeros(len(zones)), None, np.full(len(zones), most)))
        return tuple(found)

    def _plain_spread(self, index: int, group: TopologyGroup, zones: tuple[str, ...]) -> bool:
        """Whether the spread can be said of amounts: it counts its own pods alone, over the zones of the offers."""
        masks = {self.mask_of[place] for place in self.members[index]}
        if index in self.loose or len(masks) != 1:
            return False
        place = self.members[index][0]
        steps = self.solver.ladders[self.classes[place].index]
        mask = self.solver.masks.mask(steps[-1][1], steps[-1][2])
        self.domains.expect([mask])
        universe = self.domains.universe(group)
        return universe == frozenset(zones) and group.key.min_domains <= len(zones)

    def _existing_bins(self, host: list[int], *, by_zone: bool, zones: tuple[str, ...]) -> _ExistingBins:
        """Existing nodes that let the same masks in (and stand in the same zone) are one bin with all their room."""
        lets_in = (
            np.stack(self.mask_existing, axis=1) if self.mask_existing else np.zeros((len(self.existing), 0), bool)
        )
        places = {name: number for number, name in enumerate(zones)}
        groups: dict[tuple[bytes, int, object], list[int]] = defaultdict(list)
        apart = range(len(self.existing)) if len(self.existing) <= APART else self._lean()
        for row, node in enumerate(self.existing.nodes):
            if lets_in[row].any():
                zone = places.get(node.node.labels.get(labels.ZONE, ""), -1) if by_zone else -1
                groups[(lets_in[row].tobytes(), zone, apart[row])].append(row)
        rows = [np.array(found, dtype=np.int64) for found in groups.values()]
        width = len(self.catalog.space) + len(host)
        capacity = np.zeros((len(rows), width))
        for number, one in enumerate(rows):
            capacity[number, : len(self.catalog.space)] = np.maximum(self.existing.free[:, one], 0.0).sum(axis=1)
            for column, index in enumerate(host):
                capacity[number, len(self.catalog.space) + column] = self._host_cap(self.groups[index]) * len(one)
        zone_of = np.array([zone for _, zone, _ in groups], dtype=np.int64)
        allowed = np.stack([lets_in[one[0]] for one in rows]) if rows else np.zeros((0, lets_in.shape[1]), bool)
        return _ExistingBins(rows, capacity, zone_of, allowed)

    def _lean(self) -> Sequence[object]:
        """Per existing node, how much more it has of each resource than of its scarcest, in steps as `LEAN` says."""
        space = self.catalog.space
        total = sum((space.vector(c.requests) * n for c, n in zip(self.classes, self.counts, strict=True)), np.zeros(1))
        free = self.existing.free[total > 0] if len(self.classes) else self.existing.free[:0]
        shares = np.maximum(free, 1e-9) / total[total > 0][:, None]
        times = np.log2(shares / shares.min(axis=0, initial=np.inf))
        return [column.tobytes() for column in np.clip(np.round(2.0 * times), 0, LEAN).astype(np.int8).T]

    def _fits(self, place: int, rows: Ints) -> bool:
        request = self.catalog.space.vector(self.classes[place].requests)
        asked = request > 0
        return bool((self.existing.free[asked][:, rows] >= request[asked][:, None]).all(axis=0).any())

    def _answer(self, found: Cover, offers: BinTypes, lumps: list[list[int]]) -> Bound:
        lost = sum(key not in self.without for key in self.solver.unplaced)
        worth = tuple(
            (self.classes[place].pods[0].key, float(found.worth[number]))
            for number, lump in enumerate(lumps)
            for place in lump
        )
        nodes = []
        for one, count in zip(found.bins.tolist(), found.nodes.tolist(), strict=True):
            if one < len(offers) and count > 1e-6:
                nodes.append((self.catalog.offerings[offers.option[one]][int(offers.offering_key[one])], count))
        return Bound(found.price, float(found.unplaced.sum()) + lost, tuple(sorted(worth)), tuple(sorted(nodes)))


@dataclass(frozen=True, slots=True)
class _ExistingBins:
    """Bins of existing nodes: their rows, what is free on them together, their zone (or -1), masks let in."""

    rows: list[Ints]
    capacity: Floats
    zone: Ints
    allowed: Bools
