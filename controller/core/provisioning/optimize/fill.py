"""Greedy filling of many bins at once, guided by dual prices.

Each unit has a worth ($/hour that one more of it adds to the linear program's optimum), each resource of a bin a price.
A unit's density is its worth over the price of what it requests. The price of a resource rises as the bin runs short of
it, so that cpu and memory run out together. Among units of similar density larger ones go first; small ones fill gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

SLACK = 1e-9
"""Rounding error by which requests may exceed a capacity."""
UNBOUNDED = 1e30
"""Units per unit of free resource where an item type does not request the resource."""
AT_ONCE = 10_000
"""Below so many quotients of free resource and request, all resources are compared in one call."""
COMPACT_FROM, COMPACT_BELOW = 1_000, 0.8
"""Arrays of so many pairs of bin and item type are compacted when less than this part of the item types fits a bin."""


@dataclass(frozen=True, slots=True)
class FillStrategy:
    """Parameters of the greedy rule.

    scarcity: exponent by which a resource's price grows as the bin runs short of it. size: exponent of the preference
    for larger units. batch: part of the units that fit taken in one step. floor: least price of a resource, as a part
    of the mean over all resources. urge: factor on the worth of units whose host rules need most of the nodes to come.
    """

    scarcity: float = 3.0
    size: float = 0.1
    batch: float = 0.34
    floor: float = 0.1
    urge: float = 10.0


@dataclass(frozen=True, slots=True)
class ItemArrays:
    """Requests of D item types over W columns: `dense` resources, then host rules.

    A unit has few host rules, so these are stored sparse, H (the most of any item type) per item type.

    requests: D x W. columns: the C resources that some item type requests. host_columns: D x H, column numbers, -1
    where an item type has fewer rules. host_takes: D x H, amounts. per_unit: C x D, units per unit of free resource.
    per_host: D x H, units per unit of free host column.
    """

    requests: Floats
    dense: int
    columns: Ints
    host_columns: Ints
    host_takes: Floats
    per_unit: Floats
    per_host: Floats

    @classmethod
    def of(cls, requests: Floats, dense: int) -> ItemArrays:
        """Compile requests (D x W)."""
        takes_host = requests[:, dense:] > 0
        most_rules = int(takes_host.sum(axis=1).max(initial=0))
        host_columns: Ints = np.full((len(requests), most_rules), -1, dtype=np.int64)
        host_takes: Floats = np.ones((len(requests), most_rules))
        for item_type, column in zip(*np.nonzero(takes_host), strict=True):
            place = int((host_columns[item_type] >= 0).sum())
            host_columns[item_type, place] = dense + column
            host_takes[item_type, place] = requests[item_type, dense + column]
        asked = requests[:, :dense].T
        per_unit = np.divide(1.0, asked, out=np.full(asked.shape, UNBOUNDED), where=asked > 0)
        columns = np.flatnonzero((asked > 0).any(axis=1))
        return cls(requests, dense, columns, host_columns, host_takes, per_unit[columns], 1.0 / host_takes)

    def __len__(self) -> int:
        return len(self.requests)

    def some(self, which: Ints) -> ItemArrays:
        """Select these item types."""
        return ItemArrays(
            self.requests[which],
            self.dense,
            self.columns,
            self.host_columns[which],
            self.host_takes[which],
            self.per_unit[:, which],
            self.per_host[which],
        )

    def padded(self, free: Floats) -> Floats:
        """Return K x (W + 1) from free capacity K x W: `SLACK` added,
        and an infinite last column for host column -1."""
        wide = np.full((free.shape[0], free.shape[1] + 1), np.inf)
        np.add(free, SLACK, out=wide[:, :-1])
        return wide

    def room(self, free: Floats, most: Floats) -> Floats:
        """Return K x D: units, fractions included, that fit into free capacity (`padded`), at most `most` (K x D)."""
        if len(free) * self.per_unit.size < AT_ONCE:
            parts = free.T[self.columns, :, None] * self.per_unit[:, None, :]
            room: Floats = np.asarray(np.minimum.reduce(parts, axis=0, initial=np.inf))
            np.minimum(room, most, out=room)
        else:
            room = most.copy()
            for column, per_unit in zip(self.columns, self.per_unit, strict=True):
                np.minimum(room, free[:, column, None] * per_unit, out=room)
        for place in range(self.host_columns.shape[1]):
            part = free[:, self.host_columns[:, place]]
            part *= self.per_host[:, place]
            np.minimum(room, part, out=room)
        return room


@dataclass(frozen=True, slots=True)
class OpenBins:
    """K bins with free capacity.

    capacity: K x W. prices: K x W, $/hour of a unit of resource. allowed: K x D, the item types that each bin lets in.
    """

    capacity: Floats
    prices: Floats
    allowed: Bools


@dataclass(frozen=True, slots=True)
class Supply:
    """Units to choose from. items: D item types. counts: D units. worth: D, $/hour of a unit."""

    items: ItemArrays
    counts: Floats
    worth: Floats


def fill(bins: OpenBins, supply: Supply, strategy: FillStrategy, work: WorkBudget) -> Floats:
    """Fill every bin as if it alone could draw on the whole supply; K x D units taken."""
    filling = _Filling(bins, supply, strategy)
    if filling.taken.size:
        filling.run(work)
    return filling.taken


class _Filling:
    """The state of a filling: one greedy step per iteration in all K bins at once.

    Rows of the arrays are bins, columns item types; bins without room and item types that fit no bin are dropped from
    them as the filling goes on. `rows` and `columns` are the places in `taken` of those that remain.

    free: K x (W + 1), see `ItemArrays.padded`. inverse: K x dense, 1 / capacity, 0 where there is none. prices:
    K x dense, $/hour of a unit of resource, floor included. appeal: K x D, worth ($/hour) times the preference for
    size. left: K x D, units that the bin may still take.
    """

    def __init__(self, bins: OpenBins, supply: Supply, strategy: FillStrategy) -> None:
        self.items, self.strategy = supply.items, strategy
        self.taken: Floats = np.zeros((len(bins.capacity), len(supply.items)))
        self.columns: Ints = np.arange(len(supply.items))
        self.rows: Ints = np.arange(len(bins.capacity))
        self.free = supply.items.padded(bins.capacity)

        # stock: K x dense, $/hour of all that a bin has of a resource; size: K x D, largest share of a bin per unit.
        dense = supply.items.dense
        capacity = bins.capacity[:, :dense]
        stock = bins.prices[:, :dense] * capacity
        stock += strategy.floor / dense * stock.sum(axis=1, keepdims=True) * (capacity > 0)
        self.inverse: Floats = np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)
        self.prices = stock * self.inverse
        size = (self.inverse[:, None, :] * supply.items.requests[:, :dense]).max(axis=2, initial=0.0)
        self.appeal = supply.worth * np.maximum(size, 1e-6) ** strategy.size
        self.left: Floats = np.where(bins.allowed & (self.appeal > 0), supply.counts, 0.0)

    def run(self, work: WorkBudget) -> None:
        """Fill until nothing fits any bin."""
        steps = pairs = 0
        asked, rows = self._asked(), np.arange(len(self.rows))
        while True:
            room = self.items.room(self.free, self.left)
            full = room < 1.0
            if room.size >= COMPACT_FROM and (kept := self._kept(full)) is not None:
                np.copyto(self.left, 0.0, where=full)
                self._compact(*kept)
                room, full = room[kept[0][:, None], kept[1]], full[kept[0][:, None], kept[1]]
                asked, rows = self._asked(), np.arange(len(self.rows))

            # Each bin takes a batch of its densest item type. pick: K item types; number: K units, 0 for a full bin.
            pick = self._density(asked, full).argmax(axis=1)
            fits = room[rows, pick]
            taking = fits >= 1.0
            if not taking.any():
                work.filled(self.taken.shape[1], len(self.taken), steps, pairs)
                return
            steps, pairs = steps + 1, pairs + room.size
            number = np.maximum(1.0, np.floor(np.floor(fits) * self.strategy.batch)) * taking
            self.taken[self.rows, self.columns[pick]] += number
            self.left[rows, pick] -= number
            self.free[:, : self.items.dense] -= asked[pick] * number[:, None]
            if self.items.host_columns.shape[1]:
                takes = self.items.host_takes[pick] * number[:, None]
                self.free[rows[:, None], self.items.host_columns[pick]] -= takes

    def _density(self, asked: Floats, full: Bools) -> Floats:
        """Return K x D, appeal per $/hour of requested resources at prices raised by scarcity; -1: does not fit."""
        scarcity = self.free[:, : self.items.dense] * self.inverse
        np.maximum(scarcity, 1e-3, out=scarcity)
        np.power(scarcity, self.strategy.scarcity, out=scarcity)
        density = np.divide(self.prices, scarcity, out=scarcity) @ asked.T
        np.maximum(density, 1e-30, out=density)
        np.divide(self.appeal, density, out=density)
        np.copyto(density, -1.0, where=full)
        return density

    def _kept(self, full: Bools) -> tuple[Ints, Ints] | None:
        """Return the bins with room and the item types that fit some bin, where these are few; else None."""
        fits_some = np.flatnonzero(~full.all(axis=0))
        if 0 < len(fits_some) < COMPACT_BELOW * full.shape[1]:
            return np.flatnonzero(~full.all(axis=1)), fits_some
        return None

    def _asked(self) -> Floats:
        """Return what item types request of the resources, D x dense."""
        return np.ascontiguousarray(self.items.requests[:, : self.items.dense])

    def _compact(self, rows: Ints, columns: Ints) -> None:
        """Keep only these bins and item types."""
        self.items, self.columns, self.rows = self.items.some(columns), self.columns[columns], self.rows[rows]
        self.free, self.prices, self.inverse = self.free[rows], self.prices[rows], self.inverse[rows]
        kept = (rows[:, None], columns)
        self.appeal, self.left = self.appeal[kept], self.left[kept]
