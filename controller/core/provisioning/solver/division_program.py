"""Choose which workloads to divide between homes, and how: an integer program over divisible units and nodes.

As many workloads as the money allows are kept: no zone and no group of families carries more of their replicas on spot
than it may. Of the ways to keep so many, the one whose nodes cost least is taken. Nodes are shared, so a unit costs
nothing where others leave its room, and units that no workload keeps count in what the nodes cost, too.

Letters in shapes: K kinds of units (equal requests, masks and host rules), H homes, D = K x H item types (a kind in a
home), B bin types, W resources and host rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from controller.core.provisioning.optimize.bin_groups import undominated
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.linear_program import INFINITY, WHOLE, LinearProgram
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.resource_space import Floats, Ints
from controller.core.provisioning.solver.replica_homes import GROUPS, ON_DEMAND, Home, Homes, Workload

BRANCHES = 200
"""Nodes of the branch and bound at most."""
APART = 1e-6
"""$/hour that a unit is taken to cost more in each home than in the one before it, those where a group is in a zone of
its own first: of homes that cost the same, all workloads use the same few."""

Parts = Sequence[tuple[Item, Home, int]]
"""Where a workload's units go: of each item how many to each home."""


@dataclass(slots=True)
class Divisions:
    """The parts of each workload that is kept, by name.

    cost: of all nodes if they are divisible, packed: of whole ones, once they are packed, $/hour.
    """

    parts: Mapping[str, Parts]
    cost: float
    packed: float = 0.0


@dataclass(frozen=True, slots=True)
class _Share:
    """The program's columns for so many units of an item, one for each home that can take some."""

    item: Item
    count: int
    homes: Sequence[Home]
    columns: Ints


class DivisionProgram:
    """The program of these workloads and of other units on new nodes."""

    def __init__(
        self,
        packer: Packer,
        workloads: Sequence[Workload],
        others: Iterable[tuple[Item, int]],
        homes: Homes,
        most: float,
        *,
        evenly: bool = False,
    ) -> None:
        """most: what all nodes may cost, $/hour. evenly: whether zones' spot nodes should cost about the same."""
        self.workloads = workloads
        self.homes = homes
        self._kinds: dict[tuple[object, ...], int] = {}
        counts = Counter[int]()
        first: dict[int, Item] = {}
        others = list(others)
        for item, count in (*others, *(own for each in workloads for own in each.items.values())):
            kind = self._kinds.setdefault(_key(item), len(self._kinds))
            first.setdefault(kind, item)
            counts[kind] += count
        empty = copy(packer)
        empty.placements = []
        items = [
            replace(homes.narrowed(item, home), count=counts[kind])
            for kind, item in first.items()
            for home in homes.every
        ]
        self._problem = BinPackingProblem(empty, items, anew=True)
        self._program = LinearProgram()
        bins = _by_value(self._problem, len(homes.every), most)
        self._add_nodes(bins)
        if evenly:
            self._even_zones(bins)
        for item, count in others:
            self._add_units(item, count)
        self._shares = [[self._add_units(*own) for own in each.items.values()] for each in workloads]
        # One workload more is worth whatever nodes may cost, and the dearest zone's once more.
        self._kept = self._program.columns(np.full(len(workloads), -2.0 * most), 1.0)
        for number in range(len(workloads)):
            self._limit(number)

    @property
    def size(self) -> int:
        """Its number of columns."""
        return self._program.column_count

    def _add_nodes(self, bins: Ints) -> None:
        """Add nodes of these bin types, what they hold of each item type, and a row for each item type's units."""
        problem, program = self._problem, self._program
        self._price: Floats = problem.price[bins]
        self._nodes = program.columns(self._price)
        place, kind = np.nonzero(problem.allowed[bins])
        placed = program.columns(np.zeros(len(place)))
        capacity, requests = problem.capacity[bins], problem.requests
        for column in np.flatnonzero((requests > 0).any(axis=0)).tolist():
            largest = max(float(capacity[:, column].max(initial=0.0)), 1e-9)
            room = program.rows(np.full(len(bins), -INFINITY), np.zeros(len(bins)))
            asked = np.flatnonzero(requests[kind, column])
            program.entries(room[place[asked]], placed[asked], requests[kind[asked], column] / largest)
            program.entries(room, self._nodes, -capacity[:, column] / largest)
        for limit in problem.limits:
            largest = max(float(limit.takes.max(initial=0.0)), 1e-9)
            row = program.rows(np.array([-INFINITY]), np.array([limit.left / largest]))
            program.entries(np.repeat(row, len(bins)), self._nodes, limit.takes[bins] / largest)
        self._open = np.bincount(kind, minlength=len(requests)) > 0
        """D: whether some node takes such units."""
        self._of_type = program.rows(np.zeros(len(requests)), np.zeros(len(requests)))
        program.entries(self._of_type[kind], placed, -1.0)

    def _even_zones(self, bins: Ints) -> None:
        """Count what the spot nodes of the dearest zone cost as much again."""
        every = self.homes.every
        zone = np.array([every[home][0] for home in _homes(self._problem, bins, len(every)).tolist()])
        zones, dearest = len(self.homes.zones), self._program.columns(np.ones(1))
        rows = self._program.rows(np.full(zones, -INFINITY), np.zeros(zones))
        spot = np.flatnonzero(zone >= 0)
        self._program.entries(rows[zone[spot]], self._nodes[spot], self._price[spot])
        self._program.entries(rows, np.repeat(dearest, zones), -1.0)

    def _add_units(self, item: Item, count: int) -> _Share:
        """Add so many units of an item, divided in any way."""
        program, kind = self._program, self._kinds[_key(item)]
        types = kind * len(self.homes.every) + np.arange(len(self.homes.every))
        types = types[self._open[types]]
        homes = [self.homes.every[number % len(self.homes.every)] for number in types.tolist()]
        apart = APART * np.array([group + GROUPS * ((zone - group) % GROUPS) for zone, group in homes])
        columns = program.columns(apart, float(count))
        every = program.rows(np.array([float(count)]), np.array([float(count)]))
        program.entries(np.repeat(every, len(columns)), columns, 1.0)
        program.entries(self._of_type[types], columns, 1.0)
        return _Share(item, count, homes, columns)

    def _limit(self, number: int) -> None:
        """Let no zone and no group carry more of a workload than it may, if the workload is kept."""
        workload, program = self.workloads[number], self._program
        count, standing = workload.count, self.homes.carried(workload.standing)
        columns: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for share in self._shares[number]:
            for home, column in zip(share.homes, share.columns.tolist(), strict=True):
                if home != ON_DEMAND:
                    columns[0, home[0]].append(column)
                    columns[1, home[1]].append(column)
        for (axis, domain), own in columns.items():
            beyond = count + standing[axis][domain] - workload.most
            if beyond > 0:
                row = program.rows(np.array([-INFINITY]), np.array([float(count)]))
                program.entries(np.repeat(row, len(own)), np.array(own), 1.0)
                program.entries(row, self._kept[[number]], float(beyond))

    def solve(self, most: float) -> Divisions | None:
        """Keep as many workloads as nodes for so much allow, $/hour; None: none. The next call keeps some of these."""
        program = self._program
        money = program.rows(np.array([-INFINITY]), np.array([most]))
        program.entries(np.repeat(money, len(self._nodes)), self._nodes, self._price)
        divisible = np.setdiff1d(np.arange(program.column_count), self._kept)
        values = program.solve_integers(BRANCHES, divisible).values
        if values is None:
            return None
        parts = {}
        left_out = self._kept[values[self._kept] <= 0.5]
        program.entries(np.repeat(program.rows(np.array([-INFINITY]), np.zeros(1)), len(left_out)), left_out, 1.0)
        for number in np.flatnonzero(values[self._kept] > 0.5).tolist():
            own = self._whole(number, values)
            if own is not None:
                parts[self.workloads[number].name] = own
        return Divisions(parts, float(self._price @ values[self._nodes])) if parts else None

    def _whole(self, number: int, values: Floats) -> Parts | None:
        """Return a workload's parts in whole units, the nearest to the program's; None: there is no room for all."""
        workload, shares = self.workloads[number], self._shares[number]
        zones, groups = self.homes.carried(workload.standing)

        def take(home: Home, count: int) -> None:
            zones[home[0]] += count
            groups[home[1]] += count

        parts: list[tuple[Item, Home, int]] = []
        wholes = [np.floor(values[share.columns] + WHOLE).astype(np.int64) for share in shares]
        for share, whole in zip(shares, wholes, strict=True):
            for home, count in zip(share.homes, whole.tolist(), strict=True):
                take(home, count)
        for share, whole in zip(shares, wholes, strict=True):
            lacking = values[share.columns] - whole
            for _ in range(share.count - int(whole.sum())):
                room = [
                    place
                    for place, (zone, group) in enumerate(share.homes)
                    if (zone, group) == ON_DEMAND or max(zones[zone], groups[group]) < workload.most
                ]
                if not room:
                    return None
                place = room[int(np.argmax(lacking[room]))]
                whole[place] += 1
                lacking[place] -= 1.0
                take(share.homes[place], 1)
            parts += [(share.item, home, n) for home, n in zip(share.homes, whole.tolist(), strict=True) if n]
        return parts


def _key(item: Item) -> tuple[object, ...]:
    """Return what is equal for units of one kind."""
    return item.request.tobytes(), item.mask.index, tuple(rule.identity for rule in item.rules)


def _homes(problem: BinPackingProblem, bins: Ints, homes: int) -> Ints:
    """Return the number of the home of each of these bin types. homes: how many there are."""
    return np.asarray(problem.allowed[bins].argmax(axis=1) % homes)


def _by_value(problem: BinPackingProblem, homes: int, most: float) -> Ints:
    """Return the bin types that no other of its home replaces, which holds as much for its price and lets as much in.

    homes: how many homes each kind of units has, one item type for each. most: of each, $/hour.
    """
    useful = np.flatnonzero(problem.allowed.any(axis=1) & (problem.price <= most))
    home = _homes(problem, useful, homes)
    kinds = np.asarray(problem.allowed[useful].reshape(len(useful), -1, homes).any(axis=2))
    price = problem.price[useful, None]
    takes = np.array([limit.takes[useful] for limit in problem.limits]).reshape(len(problem.limits), len(useful)).T
    value = np.column_stack([problem.capacity[useful] / price, home, -home])
    order = np.argsort(-(value.sum(axis=1) + kinds.sum(axis=1)), kind="stable")
    equal = np.ones(len(useful))
    return useful[order[undominated(value[order], kinds[order], (takes / price)[order], equal, equal)]]
