"""Pack small problems by fill patterns: the set covering program of the cutting stock problem.

A pattern is what one bin can hold: a number of units of each item type. Part of a pattern is a pattern too, so units
may be covered more often than asked for, and only maximal patterns are needed. Where the ways to choose units are few,
dynamic programming finds the cheapest packing there is (exact_packing.py). Otherwise, and where Provisioners' limits do
not admit that packing, patterns come from column generation (Gilmore and Gomory): bins are filled greedily by the duals
of the linear program until no pattern with a negative reduced cost is found. An integer program then chooses how often
each pattern is used.

A pattern whose reduced cost exceeds the gap between the best known packing and the linear program's optimum is part of
no better packing and is left out. The integer program is limited by search nodes, not by time: it is deterministic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.bin_types import LoadPrices
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.exact_packing import MOST_STATES, pack_exactly, state_count
from controller.core.provisioning.optimize.fill import SLACK, FillStrategy, OpenBins, Supply, fill
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

MOST_UNITS = 50
"""Units to place up to which patterns are used at all."""
ROUNDS, FRUITLESS_ROUNDS = 30, 3
"""Rounds of column generation, and rounds in a row without a new pattern after which it ends."""
SEARCH_NODES = 20
"""The most nodes of HiGHS's branch and bound."""
MOST_COLUMNS = 200
"""Patterns in the integer program: the time of its root node grows with them, to half a second for so many."""
TOLERANCE = 1e-7
"""$/hour by which a reduced cost must be negative, and by which a packing must be cheaper."""


@dataclass(frozen=True, slots=True)
class PatternPacking:
    """A packing, and whether it is proven that no other costs less."""

    packing: Packing
    optimal: bool


def few_states(problem: BinPackingProblem) -> bool:
    """Return whether the problem is small enough to be packed exactly."""
    return problem.counts.sum() <= MOST_UNITS and state_count(problem.counts) <= MOST_STATES


def pack_by_patterns(
    problem: BinPackingProblem, best: Packing, strategies: Sequence[FillStrategy], work: WorkBudget
) -> PatternPacking:
    """Return the cheapest packing found, no dearer than `best`; of any problem that has at most `MOST_UNITS` units."""
    most = best.cost(problem)
    bins = find_bins(problem, most)
    program = _CoveringProgram(problem, bins, most)
    least = -INFINITY
    if few_states(problem):
        work.enumerated(int(state_count(problem.counts)), bins.types)
        exact = pack_exactly(problem, bins.type_numbers, program.penalty, LoadPrices.flat(problem.price))
        if exact is not None:
            least = program.cost(exact)
            if least >= program.cost(best) - TOLERANCE:
                return PatternPacking(existing_first(problem, best), optimal=True)
            if within_limits(problem, exact):
                return PatternPacking(existing_first(problem, exact), optimal=True)
    packing = program.solve(_generate_patterns(program, best, strategies, work), best, work)
    return PatternPacking(existing_first(problem, packing), program.cost(packing) <= least + TOLERANCE)


def within_limits(problem: BinPackingProblem, packing: Packing) -> bool:
    """Return whether Provisioners' limits admit the packing's new nodes."""
    numbers = [one.number for one in packing.bins if not one.existing]
    return all(float(limit.takes[numbers].sum()) <= limit.left for limit in problem.limits)


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


@dataclass(frozen=True, slots=True)
class _Columns:
    """P patterns. units: P x D. group: P, the group of bins that each is a pattern of."""

    units: Floats
    group: Ints


def find_bins(problem: BinPackingProblem, most: float, least: Floats | None = None) -> BinGroups:
    """Return the bin types that cost no more than `most` and that none dominates,
    and the existing nodes that let something in.

    least: B, $/hour of a bin with next to no load, where that is less than its price. Capacity beyond what all units
    ask for together is worth nothing, so it is cut off before bins are compared.
    """
    total = problem.counts @ problem.requests
    capacity, room = np.minimum(problem.capacity, total), np.minimum(problem.room, total)
    takes = np.array([limit.takes for limit in problem.limits]).reshape(len(problem.limits), len(capacity)).T
    least = problem.price if least is None else least
    useful = np.flatnonzero(problem.allowed.any(axis=1) & (least <= most + TOLERANCE))
    order = useful[np.lexsort((-capacity[useful].sum(axis=1), problem.price[useful]))]
    types = order[
        _undominated(capacity[order], problem.allowed[order], takes[order], problem.price[order], least[order])
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


def _undominated(capacity: Floats, allowed: Bools, takes: Floats, price: Floats, least: Floats) -> list[int]:
    """Return the bin types, given in order of price, that no earlier one replaces:
    as large, as open, no more of any limit.

    price, least: B, $/hour of a full bin, and of one with next to no load.
    """
    kept: list[int] = []
    for number in range(len(capacity)):
        better = (capacity[kept] >= capacity[number]).all(axis=1) & (takes[kept] <= takes[number]).all(axis=1)
        better &= price[kept] <= least[number]
        if not (better & (allowed[kept] >= allowed[number]).all(axis=1)).any():
            kept.append(number)
    return kept


@dataclass(frozen=True, slots=True)
class _Relaxation:
    """The linear program's optimum: its objective and duals. worth: D. charge: G, what a bin of each group costs with
    what it takes of limits and of the bins available."""

    objective: float
    worth: Floats
    charge: Floats


class _CoveringProgram:
    """Choose how often each pattern is used: cover all units for least money, within limits and available bins."""

    def __init__(self, problem: BinPackingProblem, bins: BinGroups, most: float) -> None:
        """most: $/hour, the cost of the best packing so far."""
        self.problem = problem
        self.bins = bins
        dearest = max(1.0, most, float(bins.price.max(initial=0.0)))
        self.penalty = 10.0 * dearest * np.where(problem.pinned, 1.0 + problem.counts.sum(), 1.0)
        """D, $/hour for each unit left out: more than any bin and than the whole of the best packing, as leaving out
        fewer comes first; and more for a pinned one than for all others, as other pods' places may rest on it."""

    def relaxed(self, columns: _Columns, work: WorkBudget) -> _Relaxation:
        """Solve the linear relaxation."""
        program = self._program(columns)
        solution = program.solve()
        work.solved(columns.units.size, program.row_count)
        cover, limits, available = np.split(
            solution.duals, np.cumsum([len(self.problem.counts), len(self.problem.limits)])
        )
        charge = self.bins.price - self.bins.takes @ limits
        charge[self.bins.types :] -= available
        return _Relaxation(solution.objective, cover, charge)

    def solve(self, columns: _Columns, best: Packing, work: WorkBudget) -> Packing:
        """Return the integer program's best packing, or `best`, of the patterns with the least reduced costs."""
        known = self.cost(best)
        relaxation = self.relaxed(columns, work)
        gap = known - relaxation.objective
        if gap <= TOLERANCE:
            return best
        reduced = relaxation.charge[columns.group] - columns.units @ relaxation.worth
        kept = np.argsort(reduced, kind="stable")[:MOST_COLUMNS]
        kept = np.sort(kept[reduced[kept] <= gap])
        columns = _Columns(columns.units[kept], columns.group[kept])
        solution = self._program(columns).solve_integers(SEARCH_NODES)
        work.solved_integers(len(kept))
        if solution.values is None or solution.objective >= known - TOLERANCE:
            return best
        return self._packing(columns, solution.values[: len(kept)])

    def cost(self, packing: Packing) -> float:
        """Return the $/hour of new nodes, and the penalty of the units left out."""
        paid = sum(float(self.problem.price[one.number]) for one in packing.bins if not one.existing)
        return paid + float(self.penalty @ packing.left)

    def _program(self, columns: _Columns) -> LinearProgram:
        """Build the program. Columns: the patterns, then units left out (D).
        Rows: item types (D), limits (L), existing groups."""
        bins, counts, types = self.bins, self.problem.counts, self.bins.types
        program = LinearProgram()
        used = program.columns(bins.price[columns.group], bins.available[columns.group])
        left = program.columns(self.penalty, counts)
        cover = program.rows(counts, np.full(len(counts), INFINITY))
        program.matrix(cover, used, columns.units)
        program.entries(cover, left, 1.0)
        most = np.array([max(0.0, limit.left) for limit in self.problem.limits])
        limits = program.rows(np.full(len(most), -INFINITY), most)
        program.matrix(limits, used, bins.takes[columns.group])
        available = program.rows(np.full(len(bins.price) - types, -INFINITY), bins.available[types:])
        pattern = np.flatnonzero(columns.group >= types)
        program.entries(available[columns.group[pattern] - types], used[pattern], 1.0)
        return program

    def _packing(self, columns: _Columns, times: Floats) -> Packing:
        """Return the bins of the chosen patterns; units that are covered more than once go into the first of them."""
        left, packed = self.problem.counts.copy(), list[Bin]()
        rows = [list(numbers) for numbers in self.bins.numbers]
        for place in np.flatnonzero(np.rint(times)).tolist():
            group = int(columns.group[place])
            existing = group >= self.bins.types
            for _ in range(round(times[place])):
                units = np.minimum(columns.units[place], left)
                if units.any():
                    left -= units
                    packed.append(Bin(existing, rows[group].pop(0) if existing else rows[group][0], units))
        return Packing(packed, left)


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


class _PatternSet:
    """Patterns without duplicates, in the order in which they came."""

    def __init__(self, items: int) -> None:
        self.items = items
        self.units: list[Floats] = []
        self.groups: list[int] = []
        self._known: set[tuple[int, bytes]] = set()

    def add(self, group: int, units: Floats) -> bool:
        """Return whether the pattern was a new one."""
        key = (group, units.tobytes())
        if key in self._known or not units.any():
            return False
        self._known.add(key)
        self.units.append(units)
        self.groups.append(group)
        return True

    @property
    def columns(self) -> _Columns:
        """The patterns so far."""
        return _Columns(np.reshape(self.units, (-1, self.items)), np.array(self.groups, dtype=np.int64))


def _generate_patterns(
    program: _CoveringProgram, best: Packing, strategies: Sequence[FillStrategy], work: WorkBudget
) -> _Columns:
    """Return the patterns of `best`, and those that greedy filling by the linear program's duals finds in rounds."""
    problem, bins = program.problem, program.bins
    patterns = _PatternSet(len(problem.counts))
    for one in best.bins:
        fits = (bins.capacity >= one.units @ problem.requests - SLACK).all(axis=1)
        fits &= bins.allowed[:, one.units > 0].all(axis=1)
        if fits.any():
            patterns.add(int(np.argmin(np.where(fits, bins.price, np.inf))), one.units)
    prices = bins.even_prices(problem.dense)
    worth, charge, fruitless = first_worth(problem, bins, prices), bins.price, 0
    for number in range(ROUNDS):
        if fruitless == FRUITLESS_ROUNDS or work.over:
            break
        strategy = strategies[number % len(strategies)]
        supply = Supply(problem.units, problem.counts, worth)
        units = fill(OpenBins(bins.capacity, prices, bins.allowed), supply, strategy, work)
        gain = units @ worth - charge
        useful = range(len(gain)) if number == 0 else np.flatnonzero(gain > TOLERANCE).tolist()
        if not sum([patterns.add(group, units[group]) for group in useful]):
            fruitless += 1
            continue
        fruitless = 0
        relaxation = program.relaxed(patterns.columns, work)
        worth, charge = relaxation.worth, relaxation.charge
    return patterns.columns


def first_worth(problem: BinPackingProblem, bins: BinGroups, prices: Floats) -> Floats:
    """Return for each item type the least that its share of a new bin costs, $/hour; 1 where no new bin holds it."""
    shares = (prices[: bins.types, None, :] * problem.requests).max(axis=2)
    fits = bins.allowed & (problem.requests <= bins.capacity[:, None, :] + SLACK).all(axis=2)
    cost = np.where(fits[: bins.types], shares * bins.price[: bins.types, None], np.inf).min(axis=0, initial=np.inf)
    return np.asarray(np.where(np.isfinite(cost), cost, 1.0))
