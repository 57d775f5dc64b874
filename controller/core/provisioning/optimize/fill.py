"""Fill many bins at once by dual prices, greedily.

Each unit has a worth ($/hour that one more of it adds to the linear program's optimum), each resource of a bin a price.
A unit's density is its worth over the price of what it takes. The price of a resource rises as the bin runs short of
it, so that cpu and memory run out together. Of units of like density the larger go first; small ones fill the gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

SLACK = 1e-9
"""Rounding that a request may exceed a host rule's column by."""
ANY = 1e30
"""How many units fit that ask for nothing of a resource, over what is free."""
KEPT = 0.8
"""Arrays are compacted when no more than this part of the item types still fits some bin."""


@dataclass(frozen=True, slots=True)
class FillStrategy:
    """How to fill.

    scarcity: the power by which a resource's price grows as the bin runs short of it. size: how much larger units are
    preferred. batch: the part of what fits that is taken at once. floor: the price of a resource that is not scarce, as
    a part of all prices. urge: how much units go first whose host rules need most of the nodes to come.
    """

    scarcity: float = 3.0
    size: float = 0.1
    batch: float = 0.34
    floor: float = 0.1
    urge: float = 10.0


class ItemArrays:
    """D item types: requests D x W, of which the first `dense` columns are resources and the others host rules."""

    def __init__(self, requests: Floats, dense: int) -> None:
        self.requests = requests
        self.dense = dense
        widest = int((requests[:, dense:] > 0).sum(axis=1).max(initial=0))
        self.host_columns: Ints = np.full((len(requests), widest), -1, dtype=np.int64)
        self.host_takes: Floats = np.ones((len(requests), widest))
        for unit, column in zip(*np.nonzero(requests[:, dense:] > 0), strict=True):
            place = int((self.host_columns[unit] >= 0).sum())
            self.host_columns[unit, place] = dense + column
            self.host_takes[unit, place] = requests[unit, dense + column]
        asked = requests[:, :dense].T
        self.columns: list[int] = np.flatnonzero((asked > 0).any(axis=1)).tolist()
        """Resources that some unit asks for."""
        self.per_unit: Floats = np.divide(1.0, asked, out=np.full(asked.shape, ANY), where=asked > 0)
        self.per_host: Floats = 1.0 / self.host_takes

    def __len__(self) -> int:
        return len(self.requests)

    def some(self, which: Ints) -> ItemArrays:
        """These item types alone."""
        picked = ItemArrays.__new__(ItemArrays)
        picked.requests, picked.dense, picked.columns = self.requests[which], self.dense, self.columns
        picked.host_columns, picked.host_takes = self.host_columns[which], self.host_takes[which]
        picked.per_unit, picked.per_host = self.per_unit[:, which], self.per_host[which]
        return picked

    def padded(self, free: Floats) -> Floats:
        """K x (W + 1): what is free, plus slack for rounding, and an infinite column for units without a host rule."""
        wide = np.full((free.shape[0], free.shape[1] + 1), np.inf)
        np.add(free, SLACK, out=wide[:, :-1])
        return wide

    def room(self, free: Floats, most: Floats) -> Floats:
        """K x D: how many units fit into what is free (`padded`), parts of one included, at most `most` (K x D)."""
        room = most.copy()
        for column in self.columns:
            np.minimum(room, free[:, column, None] * self.per_unit[column], out=room)
        for place in range(self.host_columns.shape[1]):
            part = free[:, self.host_columns[:, place]]
            part *= self.per_host[:, place]
            np.minimum(room, part, out=room)
        return room


def fill(
    units: ItemArrays,
    capacity: Floats,
    prices: Floats,
    allowed: Bools,
    counts: Floats,
    worth: Floats,
    strategy: FillStrategy,
    work: WorkBudget,
) -> Floats:
    """K x D: K bins filled, each as if it alone could draw on all `counts`.

    capacity: K x W. prices: K x W ($/hour of a unit of resource). allowed: K x D. worth: D ($/hour).
    """
    dense = units.dense
    own = capacity[:, :dense]
    basis = prices[:, :dense] * own
    basis += strategy.floor / dense * basis.sum(axis=1, keepdims=True) * (own > 0)
    inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
    size = (inverse[:, None, :] * units.requests[:, :dense]).max(axis=2, initial=0.0)
    appeal = worth * np.maximum(size, 1e-6) ** strategy.size
    taken = np.zeros((len(capacity), len(units)))
    left = np.where(allowed & (appeal > 0), counts, 0.0)
    _Filling(units, units.padded(capacity), basis * inverse, inverse, appeal, left, strategy).run(taken, work)
    return taken


class _Filling:
    """Bins being filled. Item types that fit no bin any more, and bins that are full, are dropped from the arrays."""

    def __init__(
        self,
        units: ItemArrays,
        free: Floats,
        prices: Floats,
        inverse: Floats,
        appeal: Floats,
        left: Floats,
        strategy: FillStrategy,
    ) -> None:
        self.units, self.free, self.prices, self.inverse = units, free, prices, inverse
        self.appeal, self.left, self.strategy = appeal, left, strategy
        self.column: Ints = np.arange(len(units))
        """The column of `taken` of each item type still considered."""
        self.row: Ints = np.arange(len(free))
        """The row of `taken` of each bin still considered."""

    def run(self, taken: Floats, work: WorkBudget) -> None:
        """Fill all bins; K x D units go into `taken`."""
        steps = pairs = 0
        dense = self.units.dense
        while True:
            room = self.units.room(self.free, self.left)
            usable = room >= 1.0
            some: Bools = np.asarray(usable.any(axis=0))
            fitting = int(np.count_nonzero(some))
            if not fitting:
                work.filled(taken.shape[1], len(taken), steps, pairs)
                return
            steps, pairs = steps + 1, pairs + room.size
            if fitting < KEPT * len(some):
                np.copyto(self.left, 0.0, where=~usable)
                open_still = usable.any(axis=1)
                which = np.ix_(open_still, some)
                self._keep(np.flatnonzero(open_still), np.flatnonzero(some))
                room, usable = room[which], usable[which]
            scarce = np.maximum(self.free[:, :dense] * self.inverse, 1e-3) ** self.strategy.scarcity
            density = (self.prices / scarce) @ self.units.requests[:, :dense].T
            np.maximum(density, 1e-30, out=density)
            np.divide(self.appeal, density, out=density)
            np.copyto(density, -1.0, where=~usable)
            pick = density.argmax(axis=1)
            rows = np.arange(len(pick))
            number = np.maximum(1.0, np.floor(np.floor(room[rows, pick]) * self.strategy.batch)) * usable[rows, pick]
            taken[self.row, self.column[pick]] += number
            self.left[rows, pick] -= number
            self.free[:, :dense] -= self.units.requests[pick, :dense] * number[:, None]
            self.free[rows[:, None], self.units.host_columns[pick]] -= self.units.host_takes[pick] * number[:, None]

    def _keep(self, rows: Ints, which: Ints) -> None:
        self.units, self.column, self.row = self.units.some(which), self.column[which], self.row[rows]
        self.free, self.prices, self.inverse = self.free[rows], self.prices[rows], self.inverse[rows]
        both = np.ix_(rows, which)
        self.appeal, self.left = self.appeal[both], self.left[both]
