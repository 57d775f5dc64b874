"""A lower bound on the cost of equal units, which counts whole units in every bin.

The linear program of `dual_prices` lets bins be filled with parts of units. Of equal units a bin holds a known
whole number, and what is left is the covering knapsack: choose bins that hold N units together, for least money.
"""

from __future__ import annotations

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.resource_space import Floats, Ints

MOST_UNITS = 20_000
"""Of more units the remainder in the last bin is too little to matter: their bound is linear."""
SLACK = 1e-6
"""Parts of a unit that count as one more, so that rounding never makes the bound too high."""


def uniform_bound(problem: BinPackingProblem) -> float:
    """Return the $/hour that no packing of all units costs less than;
    0 where the units are not all of one item type."""
    asked = np.flatnonzero(problem.counts)
    if len(asked) != 1:
        return 0.0
    kind = int(asked[0])
    free = _units(problem, kind, problem.room[problem.open_to[:, kind]])
    units = int(problem.counts[kind] - free.sum())
    let_in = problem.allowed[:, kind]
    held, price = _units(problem, kind, problem.capacity[let_in]), problem.price[let_in]
    useful = held > 0
    if units <= 0 or not useful.any():
        return 0.0
    return _cheapest_cover(units, held[useful], price[useful])


def _units(problem: BinPackingProblem, kind: int, capacity: Floats) -> Ints:
    """Return how many units of an item type each bin holds. capacity: bins x W."""
    request = problem.requests[kind]
    takes = request > 0
    if not takes.any():
        return np.full(len(capacity), int(problem.counts[kind]))
    held: Ints = np.floor((capacity[:, takes] / request[takes]).min(axis=1) + SLACK).astype(np.int64)
    return held


def _cheapest_cover(units: int, held: Ints, price: Floats) -> float:
    """Return the least price of bins, as many of each type as it takes, that hold so many units.
    held, price: by bin type."""
    sizes, of_size = np.unique(np.minimum(held, units), return_inverse=True)
    cheapest = np.full(len(sizes), np.inf)
    np.minimum.at(cheapest, of_size, price)
    if units > MOST_UNITS:
        return float(units * (cheapest / sizes).min())
    least = np.zeros(units + 1)
    for number in range(1, units + 1):
        least[number] = (cheapest + least[np.maximum(0, number - sizes)]).min()
    return float(least[units])
