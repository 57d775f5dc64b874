"""Groups of bins that are equal as far as a batch goes, for a packing that looks at all of its units at once.

Of the bin types those are left out that cost more than a known packing, and those that another replaces: as large, as
open, no dearer, and taking no more of any limit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.fill import SLACK
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram
from controller.core.provisioning.resource_space import Bools, Floats, Ints

TOLERANCE = 1e-7
"""$/hour within which two costs are the same."""
BLOCK = 128
"""Bin types compared with others at once."""


@dataclass(frozen=True, slots=True)
class BinGroups:
    """G groups of bins: first the bin types, then groups of existing nodes that are equal as far as these units go.

    capacity: G x W. price: G, $/hour, 0 for existing nodes. allowed: G x D. takes: G x L, of the problem's limits.
    available: G, how many bins there are (infinite for bin types). numbers: G, each the number of a bin type, or those
    of existing nodes. types: how many of the groups are bin types.
    """

    capacity: Floats
    price: Floats
    allowed: Bools
    takes: Floats
    available: Floats
    numbers: tuple[tuple[int, ...], ...]
    types: int

    @property
    def type_numbers(self) -> Ints:
        """The numbers of the bin types."""
        return np.array([numbers[0] for numbers in self.numbers[: self.types]], dtype=np.int64)

    def even_prices(self, dense: int) -> Floats:
        """Return resource prices (G x W) of one over the capacity; 0 for host rules, the columns from `dense` on.

        By them a unit's density is its worth over the sum of its shares of the bin.
        """
        own, prices = self.capacity[:, :dense], np.zeros_like(self.capacity)
        np.divide(1.0, own, out=prices[:, :dense], where=own > 0)
        return prices


def find_bins(
    problem: BinPackingProblem, most: float, least: Floats | None = None, among: Ints | None = None
) -> BinGroups:
    """Return the bin types that cost no more than `most` and that none dominates,
    and the existing nodes that let something in.

    least: B, $/hour of a bin with next to no load, where that is less than its price. among: bin types, and no others.
    Capacity beyond what all units ask for together is worth nothing, so it is cut off before bins are compared.
    """
    total = problem.counts @ problem.requests
    capacity, room = np.minimum(problem.capacity, total), np.minimum(problem.room, total)
    takes = np.array([limit.takes for limit in problem.limits]).reshape(len(problem.limits), len(capacity)).T
    least = problem.price if least is None else least
    useful = np.flatnonzero(problem.allowed.any(axis=1) & (least <= most + TOLERANCE))
    useful = useful if among is None else np.intersect1d(useful, among)
    order = useful[np.lexsort((-capacity[useful].sum(axis=1), problem.price[useful]))]
    types = order[
        undominated(capacity[order], problem.allowed[order], takes[order], problem.price[order], least[order])
    ]
    equal: dict[bytes, list[int]] = defaultdict(list)
    for row in np.flatnonzero(problem.open_to.any(axis=1)).tolist():
        equal[room[row].tobytes() + problem.open_to[row].tobytes()].append(row)
    first = np.array([rows[0] for rows in equal.values()], dtype=np.int64)
    return BinGroups(
        np.concatenate([capacity[types], room[first]]),
        np.concatenate([problem.price[types], np.zeros(len(first))]),
        np.concatenate([problem.allowed[types], problem.open_to[first]]),
        np.concatenate([takes[types], np.zeros((len(first), takes.shape[1]))]),
        np.concatenate([np.full(len(types), INFINITY), [float(len(rows)) for rows in equal.values()]]),
        (*((number,) for number in types.tolist()), *(tuple(rows) for rows in equal.values())),
        len(types),
    )


def undominated(capacity: Floats, allowed: Bools, takes: Floats, price: Floats, least: Floats) -> Ints:
    """Return the bin types, given in order of price, that no earlier one replaces:
    as large, as open, no more of any limit.

    price, least: B, $/hour of a full bin, and of one with next to no load. What replaces a bin type that replaces
    another replaces that one, too.
    """
    # B x N: what an earlier bin type must have as much of.
    asked = np.concatenate([capacity, allowed, -takes], axis=1)
    asked = asked[:, (asked != asked[:1]).any(axis=0)]
    kept = np.zeros(0, dtype=np.int64)
    for first in range(0, len(asked), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(asked)))
        rows = rows[~_replaced(asked, price, least, rows, kept).any(axis=1)]
        earlier = np.tri(len(rows), k=-1, dtype=np.bool_)
        kept = np.append(kept, rows[~(_replaced(asked, price, least, rows, rows) & earlier).any(axis=1)])
    return kept


def _replaced(asked: Floats, price: Floats, least: Floats, rows: Ints, others: Ints) -> Bools:
    """Return rows x others: whether the other has all that is asked for and costs no more."""
    fine: Bools = price[others] <= least[rows, None]
    for column in asked.T:
        fine &= column[others] >= column[rows, None]
    return fine


def first_worth(problem: BinPackingProblem, bins: BinGroups, prices: Floats) -> Floats:
    """Return for each item type the least that its share of a new bin costs, $/hour; 1 where no new bin holds it."""
    shares = (prices[: bins.types, None, :] * problem.requests).max(axis=2)
    fits = bins.allowed & (problem.requests <= bins.capacity[:, None, :] + SLACK).all(axis=2)
    cost = np.where(fits[: bins.types], shares * bins.price[: bins.types, None], np.inf).min(axis=0, initial=np.inf)
    return np.asarray(np.where(np.isfinite(cost), cost, 1.0))


def of_equal_the_cheapest(rows: Floats, cost: Floats) -> Ints:
    """Return, of equal rows, the number of the one that costs least."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    same = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((cost, same))
    same = same[order]
    return np.asarray(order[np.concatenate([[True], same[1:] != same[:-1]])])


def cover_by_patterns(
    program: LinearProgram, units: Floats, cost: Floats, counts: Floats, dear: float
) -> tuple[Ints, Ints]:
    """Let bins with patterns cover units; return the columns of patterns (P) and the rows of item types (D).

    units: P x D. cost: $/hour of each pattern. counts: D. dear: $/hour of a unit that is left out.
    """
    used = program.columns(cost)
    missing = program.columns(np.full(len(counts), dear))
    cover = program.rows(counts, np.full(len(counts), INFINITY))
    program.matrix(cover, used, units)
    program.entries(cover, missing, 1.0)
    return used, cover


def use_existing_once(program: LinearProgram, bins: BinGroups, used: Ints, group: Ints, available: Floats) -> Ints:
    """Use no more existing nodes of each group than there are; return the rows of these groups.

    used: P columns of patterns. group: P, the bins of each. available: G.
    """
    existing = program.rows(np.full(len(available) - bins.types, -INFINITY), available[bins.types :])
    count_existing(program, bins, used, group, existing)
    return existing


def count_existing(program: LinearProgram, bins: BinGroups, used: Ints, group: Ints, existing: Ints) -> None:
    """Count patterns of existing nodes in the rows of their groups (`existing`).

    used, group: see `use_existing_once`.
    """
    of_existing = np.flatnonzero(group >= bins.types)
    program.entries(existing[group[of_existing] - bins.types], used[of_existing], 1.0)


def keep_within_limits(program: LinearProgram, used: Ints, takes: Floats, lefts: Floats) -> Ints:
    """Let what is used (P columns) take no more of the limits than is left (L); return the rows of the limits.

    takes: P x L.
    """
    rows = program.rows(np.full(len(lefts), -INFINITY), np.maximum(lefts, 0.0))
    program.matrix(rows, used, takes)
    return rows


def within_limits(problem: BinPackingProblem, packing: Packing) -> bool:
    """Return whether Provisioners' limits admit the packing's new nodes."""
    numbers = [one.number for one in packing.bins if not one.existing]
    return all(float(limit.takes[numbers].sum()) <= limit.left for limit in problem.limits)


def existing_first(problem: BinPackingProblem, packing: Packing) -> Packing:
    """Return the same bins, with all units on existing nodes that have room there:
    the objective is the same."""
    packed = packing.bins
    existing = {one.number: one.units.copy() for one in packed if one.existing}
    new = [one for one in packed if not one.existing]
    movable = np.sum([one.units for one in new], axis=0) if new else np.zeros(len(problem.counts))
    for row in np.flatnonzero((problem.open_to & (movable > 0)).any(axis=1)).tolist():
        units = existing.setdefault(row, np.zeros(len(problem.counts)))
        for item in np.flatnonzero(problem.open_to[row] & (movable > 0)).tolist():
            free, request = problem.room[row] - units @ problem.requests, problem.requests[item]
            asked = request > 0
            fitting = float(np.floor((free[asked] + SLACK) / request[asked]).min(initial=np.inf))
            taken = max(0.0, min(movable[item], fitting))
            units[item] += taken
            movable[item] -= taken
    bins = [Bin(existing=True, number=row, units=units) for row, units in existing.items() if units.any()]
    for one in new:
        units = np.minimum(one.units, movable)
        movable -= units
        if units.any():
            bins.append(Bin(existing=False, number=one.number, units=units))
    return Packing(bins, packing.left)
