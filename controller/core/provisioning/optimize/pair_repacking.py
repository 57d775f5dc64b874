"""Repack bins two by two, each pair as cheaply as can be, until no pair gets cheaper.

All ways to part the units of two bins between them are priced at once: each part goes into the cheapest bin type that
holds it, or stays on the existing node. Way n and way N - 1 - n part the units alike, with the bins exchanged, so a
table of N costs is all that a pair of new nodes takes.

By the duals of a linear program no part costs less than its units are worth. That leaves few bin types for each part:
those that cost less do not hold it, and with those that cost more the pair would not be cheaper than it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import prod

import numpy as np

from controller.core.provisioning.optimize.bin_groups import TOLERANCE, BinGroups
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.fill import SLACK
from controller.core.provisioning.optimize.patterns.pricing import PricedBins
from controller.core.provisioning.resource_space import Bools, Floats, Ints

MOST_WAYS = 1_000
"""Ways to part the units of a pair; where there are more, units of the most numerous item types move by several."""
MOST_PAIRS = 200
"""Pairs that are looked at in one packing at most."""
MOST_EMPTY = 10
"""Existing nodes that hold nothing yet and take part."""
ROUNDING = 1e-9
"""$/hour by which units may be worth more than a bin costs that holds them."""
TRIED = 20
"""Of ways that cost less, the cheapest so many are held against Provisioners' limits."""


_Placed = tuple[Bin, float]
"""A bin and its cost, $/hour."""


@dataclass(frozen=True, slots=True)
class _Ways:
    """N ways to part units between two bins. items: K item types. units: N x K, what the first bin gets."""

    items: Ints
    units: Floats


class PairRepacking:
    """Repacks packings of a problem. groups: its bins. bins: their prices by load."""

    def __init__(
        self, problem: BinPackingProblem, groups: BinGroups, bins: PricedBins, worth: Floats | None = None
    ) -> None:
        """worth: D, $/hour; bins cost at least what their units are worth. None: nothing is known of that."""
        self.problem = problem
        self.groups = groups
        self.bins = bins.some(np.arange(groups.types))
        self.worth: Floats = np.zeros(len(problem.counts)) if worth is None else worth
        self.order: Ints = np.argsort(self.bins.charge, kind="stable")
        self.left: Floats = np.array([limit.left for limit in problem.limits])
        self._found: dict[tuple[object, ...], list[_Placed]] = {}
        """By the units of a pair (and what limits leave), the cheapest way to part them that was found."""

    def repacked(self, packing: Packing) -> tuple[Packing, float]:
        """Return the packing without a pair that could be cheaper, and its cost ($/hour)."""
        placed = [self._cheapest(one) for one in (*packing.bins, *self._empty(packing))]
        before, looked = np.inf, 0
        while _total(placed) < before - TOLERANCE and looked < MOST_PAIRS:
            before = _total(placed)
            for pair in combinations(range(len(placed)), 2):
                first, second = sorted(pair, key=lambda place: placed[place][0].existing)
                both = [placed[first], placed[second]]
                if both[0][0].existing or _total(both) <= 0.0 or looked >= MOST_PAIRS:
                    continue
                left = self.left
                if len(left):
                    left = left - self._taken([each for place, (each, _) in enumerate(placed) if place not in pair])
                key = (both[1][0].number if both[1][0].existing else -1, _units(both).tobytes(), left.tobytes())
                if key not in self._found or _total(self._found[key]) > _total(both) + TOLERANCE:
                    self._found[key] = self._better(both, left) or both
                    looked += 1
                if _total(self._found[key]) < _total(both) - TOLERANCE:
                    placed[first], placed[second] = self._found[key]
        return Packing([one for one, _ in placed if one.units.any()], packing.left), _total(placed)

    def _empty(self, packing: Packing) -> list[Bin]:
        """Return existing nodes that hold nothing, of equal ones one."""
        used = {one.number for one in packing.bins if one.existing}
        groups = [[row for row in rows if row not in used] for rows in self.groups.numbers[self.groups.types :]]
        units = np.zeros(len(self.problem.counts))
        return [Bin(existing=True, number=rows[0], units=units) for rows in groups if rows][:MOST_EMPTY]

    def _taken(self, bins: Sequence[Bin]) -> Floats:
        """Return what bins take of limits."""
        numbers = [one.number for one in bins if not one.existing and one.units.any()]
        return np.array([float(limit.takes[numbers].sum()) for limit in self.problem.limits])

    def _better(self, both: list[_Placed], left: Floats) -> list[_Placed] | None:
        """Return two bins, the first a new node, with their units parted in the cheapest way; None: that is no cheaper.

        left: of limits.
        """
        whole, now, other = _units(both), _total(both), both[1][0]
        ways = _ways(whole) if other.existing or now - float(whole @ self.worth) > TOLERANCE else None
        if ways is None:
            return None
        # N, $/hour: what the first part is worth, and what it may cost, as the second costs what it is worth or more.
        worth = ways.units @ self.worth[ways.items]
        most = now - (np.zeros(len(worth)) if other.existing else worth[::-1])
        costs, types = self._costs(ways, worth, most, left)
        others, rows = (costs, types) if not other.existing else self._on_existing(ways, other.number)
        sums = costs + others[::-1]
        cheaper = np.flatnonzero(sums < now - TOLERANCE)
        for way in cheaper[np.argsort(sums[cheaper], kind="stable")][:TRIED].tolist():
            units = np.zeros_like(whole)
            units[ways.items] = ways.units[way]
            parts = [
                Bin(existing=False, number=int(types[way]), units=units),
                Bin(other.existing, int(rows[-1 - way]), whole - units),
            ]
            if (self._taken(parts) <= np.maximum(left, 0.0)).all():
                return list(zip(parts, (float(costs[way]), float(others[-1 - way])), strict=True))
        return None

    def _costs(self, ways: _Ways, worth: Floats, most: Floats, left: Floats) -> tuple[Floats, Ints]:
        """Return the cost of a new node with the first part of each way (N, $/hour), and the number of its bin type.

        Infinite where no bin type holds the part for less than `most` (N) within the limits of which so much is `left`.
        worth: N, $/hour of the part.
        """
        takes = self.groups.takes[: self.groups.types]
        within: Bools = np.asarray(((takes <= left) | (takes <= 0)).all(axis=1))
        within &= self.bins.allowed[:, ways.items].any(axis=1)
        chosen = self.order[within[self.order]]
        some = self.bins.some(chosen)
        part, place, load = self._fitting_pairs(ways, some, worth, most)
        cost = some.charge[place] + some.slope[place] * np.maximum(0.0, load[part, some.column] - some.free[place])
        order = np.lexsort((cost, part))
        order = order[np.diff(part[order], prepend=-1) > 0]
        costs, types = np.where(ways.units.any(axis=1), np.inf, 0.0), np.zeros(len(ways.units), dtype=np.int64)
        costs[part[order]], types[part[order]] = cost[order], self.groups.type_numbers[chosen[place[order]]]
        return costs, types

    def _fitting_pairs(self, ways: _Ways, bins: PricedBins, worth: Floats, most: Floats) -> tuple[Ints, Ints, Floats]:
        """Return pairs of a part (of N) and a bin (given in order of their charges) that holds it and costs less than
        `most`, and the load of each part (N x W)."""
        load = ways.units @ self.problem.requests[ways.items]
        used: Bools = np.asarray(ways.units.any(axis=1))
        beyond = np.minimum(load[-1, bins.column], bins.capacity[:, bins.column]) - bins.free
        dearest = np.maximum.accumulate(bins.charge + bins.slope * np.maximum(0.0, beyond))
        first = np.searchsorted(dearest, worth - ROUNDING)
        number = np.where(used, np.maximum(0, np.searchsorted(bins.charge, most) - first), 0)
        part = np.repeat(np.arange(len(used)), number)
        place = np.arange(len(part)) + np.repeat(first - np.cumsum(number) + number, number)
        for column in np.flatnonzero((bins.capacity + SLACK < load[-1]).any(axis=0)).tolist():
            fits = load[part, column] <= bins.capacity[place, column] + SLACK
            part, place = part[fits], place[fits]
        for position, item in enumerate(ways.items.tolist()):
            if not bins.allowed[:, item].all():
                fits = bins.allowed[place, item] | (ways.units[part, position] == 0)
                part, place = part[fits], place[fits]
        return part, place, load

    def _on_existing(self, ways: _Ways, row: int) -> tuple[Floats, Ints]:
        """Return 0 where an existing node holds the first part of each way, else infinity (N), and its number."""
        room, open_to = self.problem.room[[row]], self.problem.open_to[[row]][:, ways.items]
        load = ways.units @ self.problem.requests[ways.items]
        holds = (load <= room + SLACK).all(axis=1) & ((ways.units == 0) | open_to).all(axis=1)
        return np.where(holds, 0.0, np.inf), np.full(len(holds), row)

    def _cheapest(self, one: Bin) -> _Placed:
        """Return a new node as the cheapest bin type that holds its units and takes no more of limits."""
        if one.existing:
            return one, 0.0
        bins, load = self.bins, one.units @ self.problem.requests
        fits = (bins.capacity >= load - SLACK).all(axis=1) & bins.allowed[:, one.units > 0].all(axis=1)
        for place, limit in enumerate(self.problem.limits):
            fits &= self.groups.takes[: self.groups.types, place] <= limit.takes[one.number]
        paid = np.where(fits, bins.charge + bins.slope * np.maximum(0.0, load[bins.column] - bins.free), np.inf)
        best = int(np.argmin(paid))
        return Bin(existing=False, number=self.groups.numbers[best][0], units=one.units), float(paid[best])


def _units(placed: Sequence[_Placed]) -> Floats:
    return np.asarray(sum(one.units for one, _ in placed))


def _total(placed: Sequence[_Placed]) -> float:
    return sum(cost for _, cost in placed)


def _ways(units: Floats) -> _Ways | None:
    """Return ways to part these units (D) in two, `MOST_WAYS` at most; None where there are more all the same."""
    items = np.flatnonzero(units)
    choices = [tuple(range(count + 1)) for count in units[items].astype(np.int64).tolist()]
    while prod(len(each) for each in choices) > MOST_WAYS:
        place = max(range(len(choices)), key=lambda each: len(choices[each]))
        if len(choices[place]) == 2:
            return None
        choices[place] = _fewer(choices[place])
    units = np.empty((*(len(each) for each in choices), len(items)))
    for place, each in enumerate(choices):
        units[..., place] = np.reshape(each, (-1, *(1,) * (len(items) - 1 - place)))
    return _Ways(items, units.reshape(-1, len(items)))


@cache
def _fewer(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return fewer of these numbers of units, both ends kept; what is left in the other bin is among them, too."""
    count, step, fewer = numbers[-1], 2, numbers
    while len(fewer) >= len(numbers):
        some = range(0, count + 1, step)
        fewer, step = tuple(sorted({*some, *(count - each for each in some)})), step + 1
    return fewer
