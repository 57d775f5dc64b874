"""Repack bins two by two, each pair as cheaply as can be, until no pair gets cheaper.

All ways to part the units of two bins between them are priced at once: each part goes into the cheapest bin type that
holds it, or stays on the existing node. Way n and way N - 1 - n part the units alike, with the bins exchanged, so a
table of N costs is all that a pair of new nodes takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

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
TRIED = 20
"""Of ways that cost less, the cheapest so many are held against Provisioners' limits."""


_Placed = tuple[Bin, float]
"""A bin and its cost, $/hour."""


@dataclass(frozen=True, slots=True)
class _Ways:
    """N ways to part units between two bins. items: K item types. units: N x K, what the first bin gets."""

    items: Ints
    units: Ints


class PairRepacking:
    """Repacks packings of a problem. groups: its bins. bins: their prices by load."""

    def __init__(self, problem: BinPackingProblem, groups: BinGroups, bins: PricedBins) -> None:
        self.problem = problem
        self.groups = groups
        self.bins = bins.some(np.arange(groups.types))
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
        ways = _ways(whole)
        if ways is None:
            return None
        costs, types = self._costs(ways, now, left)
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

    def _costs(self, ways: _Ways, most: float, left: Floats) -> tuple[Floats, Ints]:
        """Return the cost of a new node with the first part of each way (N, $/hour; infinite where none holds it),
        and the number of its bin type.

        Of bin types that cost less than `most` and take no more of limits than is `left`.
        """
        bins, takes = self.bins, self.groups.takes[: self.groups.types]
        within = ((takes <= left) | (takes <= 0)).all(axis=1)
        chosen = np.flatnonzero((bins.charge < most) & within & bins.allowed[:, ways.items].any(axis=1))
        if not len(chosen):
            return np.where(ways.units.any(axis=1), np.inf, 0.0), np.zeros(len(ways.units), dtype=np.int64)
        some = bins.some(chosen)
        load, fits = self._fitting(ways, some.capacity, some.allowed[:, ways.items])
        costs = np.where(fits, some.charge, np.inf)
        sloping = np.flatnonzero(some.slope)
        costs[:, sloping] += some.slope[sloping] * np.maximum(0.0, load[:, [some.column]] - some.free[sloping])
        best = np.argmin(costs, axis=1)
        least = np.take_along_axis(costs, best[:, None], axis=1)[:, 0]
        return np.where(ways.units.any(axis=1), least, 0.0), self.groups.type_numbers[chosen[best]]

    def _on_existing(self, ways: _Ways, row: int) -> tuple[Floats, Ints]:
        """Return 0 where an existing node holds the first part of each way, else infinity (N), and its number."""
        room, open_to = self.problem.room[[row]], self.problem.open_to[[row]][:, ways.items]
        holds = self._fitting(ways, room, open_to)[1][:, 0]
        return np.where(holds, 0.0, np.inf), np.full(len(holds), row)

    def _fitting(self, ways: _Ways, capacity: Floats, allowed: Bools) -> tuple[Floats, Bools]:
        """Return the load of the first part of each way (N x W), and whether bins hold it (N x G).

        capacity: G x W. allowed: G x K.
        """
        load = ways.units @ self.problem.requests[ways.items]
        fits = np.ones((len(load), len(capacity)), dtype=np.bool_)
        for column in np.flatnonzero((capacity + SLACK < load[-1]).any(axis=0)).tolist():
            fits &= load[:, [column]] <= capacity[:, column] + SLACK
        for place in np.flatnonzero(~allowed.all(axis=0)).tolist():
            fits &= (ways.units[:, [place]] == 0) | allowed[:, place]
        return load, fits

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
    choices = [np.arange(count + 1) for count in units[items].astype(np.int64).tolist()]
    while np.prod([float(len(each)) for each in choices]) > MOST_WAYS:
        place = max(range(len(choices)), key=lambda each: len(choices[each]))
        if len(choices[place]) == 2:
            return None
        choices[place] = _fewer(choices[place])
    shape = tuple(len(each) for each in choices)
    places = np.unravel_index(np.arange(int(np.prod(shape))), shape)
    return _Ways(items, np.stack([each[place] for each, place in zip(choices, places, strict=True)], axis=-1))


def _fewer(numbers: Ints) -> Ints:
    """Return fewer of these numbers of units, both ends kept; what is left in the other bin is among them, too."""
    count, step, fewer = int(numbers[-1]), 2, numbers
    while len(fewer) >= len(numbers):
        some = np.arange(0, count + 1, step)
        fewer, step = np.unique(np.concatenate([some, count - some])), step + 1
    return fewer
