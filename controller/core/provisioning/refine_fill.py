"""Filling bins by prices: which units make the most of a bin, asked of many bins at once.

Every unit has a worth ($/hour that one more of it adds to the divisible optimum), every resource of a bin a price. A
unit's density is its worth over the prices of what it takes; a resource gets dearer as the bin runs short of it, so
that cpu and memory run out together. Among units of like density the larger go first and leave the small ones for gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.resources import Bools, Floats, Ints

SLACK = 1e-9
"""Rounding that a request may exceed a host rule's column by."""


@dataclass(frozen=True, slots=True)
class Taste:
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


class Units:
    """D sorts of units: requests D x W, of which the first `dense` columns are resources and the others host rules."""

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

    def __len__(self) -> int:
        return len(self.requests)

    def some(self, which: Ints) -> Units:
        """Only these."""
        picked = Units.__new__(Units)
        picked.requests, picked.dense = self.requests[which], self.dense
        picked.host_columns, picked.host_takes = self.host_columns[which], self.host_takes[which]
        return picked

    def room(self, free: Floats, most: Floats) -> Floats:
        """K x D: how many units fit into what is free (K x W), at most `most` (K x D or D)."""
        room = np.broadcast_to(most, (len(free), len(self))).copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            for column in range(self.dense):
                asked = self.requests[:, column]
                np.fmin(room, np.floor((free[:, column, None] + SLACK) / asked), out=room)
        for place in range(self.host_columns.shape[1]):
            columns = self.host_columns[:, place]
            part = np.floor((free[:, columns] + SLACK) / self.host_takes[:, place])
            np.minimum(room, np.where(columns >= 0, part, np.inf), out=room)
        return room


def fill(
    units: Units, capacity: Floats, prices: Floats, allowed: Bools, counts: Floats, worth: Floats, taste: Taste
) -> Floats:
    """K x D: K bins filled, each as if it alone could draw on all `counts`.

    capacity: K x W. prices: K x W ($/hour of a unit of resource). allowed: K x D. worth: D ($/hour).
    """
    bins, dense = len(capacity), units.dense
    taken = np.zeros((bins, len(units)))
    free = capacity.copy()
    own = capacity[:, :dense]
    basis = prices[:, :dense] * own
    basis += taste.floor / dense * basis.sum(axis=1, keepdims=True) * (own > 0)
    inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
    requests = units.requests[:, :dense]
    size = (inverse[:, None, :] * requests).max(axis=2, initial=0.0)
    appeal = worth * np.maximum(size, 1e-6) ** taste.size
    appeal[~allowed] = 0.0
    rows = np.arange(bins)
    while True:
        room = units.room(free, counts - taken)
        usable = (room >= 1.0) & (appeal > 0)
        alive = usable.any(axis=1)
        if not alive.any():
            return taken
        left = np.maximum(free[:, :dense] * inverse, 1e-3)
        cost = (basis * inverse / left**taste.scarcity) @ requests.T
        pick = np.argmax(np.where(usable, appeal / np.maximum(cost, 1e-30), -1.0), axis=1)
        number = np.where(alive, np.maximum(1.0, np.floor(room[rows, pick] * taste.batch)), 0.0)
        taken[rows, pick] += number
        free -= units.requests[pick] * number[:, None]
