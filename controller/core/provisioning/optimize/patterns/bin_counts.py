"""Bound and find the cheapest packing by how many bins of each type it has: whole bins, units divisible among them.

Whatever a unit of each item type is said to be worth, a packing's bins hold no more worth than each could hold at most,
so these together must come to the worth of all units. Each such set of worths is a row of an integer program over the
numbers of bins (Benders' cuts); its optimum is a lower bound, higher than that of column generation by what a fraction
of a bin does not cost. The first rows come from the duals of column generation, and from each resource alone: bins that
let some item types in have room for all that these request. Numbers that cost as much as the
best packing known are not looked for. While the optimal numbers of bins do not hold all units, even with each bin's
patterns divisible, the duals of that program make the next row. Where they do, the units are packed into these very
bins, by an integer program of units and bins.

Provisioners' limits are rows of the integer program, and so are the end states that rules over domains admit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.core.provisioning.optimize.bin_groups import BinGroups, undominated, within_limits
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.fill import SLACK
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram
from controller.core.provisioning.optimize.patterns.pricing import NO_WORTH, PricedBins, Question, price
from controller.core.provisioning.resource_space import Floats, Ints

CLOSE = 1e-7
"""Part of a cost within which two are the same."""
DEAR = 10.0
"""Times its worth that a unit costs which given bins do not hold."""
MOST_CHOICES = 100
"""End states of a part up to which the integer program chooses among them; of more it takes the least worth."""
MOST_PLACES = 600
"""Pairs of item type and bin up to which units are packed into given bins by an integer program."""


@dataclass(frozen=True, slots=True)
class Work:
    """Limits on work. rows: made of numbers of bins that do not hold all units; columns: the same, times bin types, as
    the program takes longer with more of them. branches: of the integer program of numbers of bins; tries: of that of
    units in bins, which finds a packing soon or not at all.

    states: of the branch and bound that tells what a bin holds. packings: numbers of bins, one dearer than the other,
    that hold all units as far as patterns tell; 0: only the bound counts. refills: rounds of column generation for
    given bins.
    """

    rows: int = 1
    columns: int = 500
    branches: int = 100
    tries: int = 10
    states: int = 1_000
    packings: int = 1
    refills: int = 4


@dataclass(frozen=True, slots=True)
class Counted:
    """least: $/hour, no packing costs less. cost, packing: of the cheapest one found, if it costs less than `most`."""

    least: float
    cost: float
    packing: Packing | None


class BinCounts:
    """The integer program. G groups of bins, D item types, and `wholes`, as in `ColumnGeneration`."""

    def __init__(
        self,
        problem: BinPackingProblem,
        groups: BinGroups,
        bins: PricedBins,
        wholes: Sequence[Ints],
        work: Work,
    ) -> None:
        self.problem = problem
        self.groups = groups
        self.bins = bins
        self.wholes = wholes
        self.work = work
        self.held: list[Floats] = []
        """By row, G: the worth that a bin holds at most, less the surplus that its load costs."""
        self.worths: list[Floats] = []
        self.rooms, self.requested = self._capacity_rows()
        beyond = np.maximum(0.0, bins.capacity[:, bins.column] - bins.free)
        self.surplus: Floats = bins.slope * beyond
        """G, $/hour that the load of a full bin costs."""
        self.usable: Floats = groups.available
        """G, how many of each a cheaper packing may have."""

    def solved(self, worth: Floats, dearer: Floats, units: Floats, group: Ints, most: float, least: float) -> Counted:
        """The best bound and packing that the limits on work allow.

        worth: D, of column generation's duals. dearer: G, $/hour; a cheaper packing has a bin only if it holds more
        than this by that worth. units, group: its patterns (P x D, P). most: $/hour, a packing must cost less.
        least: $/hour, no packing costs less.
        """
        self._add_row(worth, np.where(np.arange(len(dearer)) < self.groups.types, np.maximum(0.0, dearer), 0.0))
        best, floor, rows, packings = Counted(least, most, None), 0.0, 0, 0
        self._restrict(dearer)
        last: tuple[Floats, float] | None = None
        most_rows = min(self.work.rows, self.work.columns // max(1, int((self.usable > 0).sum())))
        dear = DEAR * np.maximum(worth, NO_WORTH)
        while True:
            counts, bound = self._counts(floor, best.cost)
            if floor == 0.0:
                best = replace(best, least=min(best.cost, max(best.least, bound)))
            if counts is None or bound >= best.cost * (1.0 - CLOSE) or not self.work.packings:
                return best
            if last is not None and np.array_equal(counts, last[0]) and bound <= last[1]:
                return best
            last = counts, bound
            dual, units, group, surplus = self._refill(counts, units, group, dear)
            divisible = dual is None or float(self.bins.charge @ counts) + surplus <= bound * (1.0 + CLOSE)
            if divisible or rows in (most_rows, most_rows // 2):
                best = self._packed(counts, dear, best)
                if best.cost <= best.least * (1.0 + CLOSE):
                    return best
            if dual is not None and not divisible:
                if rows == most_rows:
                    return best
                rows += 1
                self._add_row(dual)
                continue
            packings += 1
            if packings == self.work.packings:
                return best
            floor = bound * (1.0 + 10.0 * CLOSE)

    def _restrict(self, dearer: Floats) -> None:
        """Leave out bin types that cost so much more than what they hold is worth that no cheaper packing has one.

        dearer: see `solved`.
        """
        new = np.arange(len(dearer)) < self.groups.types
        self.usable = np.where(new & (dearer >= self.held[-1]), 0.0, self.groups.available)

    def _capacity_rows(self) -> tuple[Floats, Floats]:
        """Return R rows that say that bins have room for the requests of units: rooms R x G, requested R x D.

        A row for each resource or host rule, and each set of bins that holds all that some item types may go into.
        """
        bins, problem = self.bins, self.problem
        total = problem.counts @ problem.requests
        scarce = np.flatnonzero((bins.capacity < total).any(axis=0))
        rooms, requested = [], []
        for kind in np.unique(bins.allowed, axis=1).T:
            within = ~(bins.allowed & ~kind[:, None]).any(axis=0)
            asked = problem.requests[:, scarce] * within[:, None]
            most = problem.counts @ asked
            some = np.flatnonzero(most)
            room = np.where(kind[:, None], np.minimum(bins.capacity[:, scarce], most), 0.0)
            rooms.append((room[:, some] / most[some]).T)
            requested.append((asked[:, some] / most[some]).T)
        return np.concatenate(rooms), np.concatenate(requested)

    def _packed(self, counts: Floats, dear: Floats, best: Counted) -> Counted:
        """The better of `best` and a packing into so many bins (G), or into these and one bin more or larger."""
        whole = self._pack(counts, dear)
        for packing, cost in (whole, self._repaired(*whole)) if whole is not None else ():
            if cost < best.cost and not packing.left.any() and within_limits(self.problem, packing):
                best = replace(best, cost=cost, packing=packing)
        return best

    def _add_row(self, worth: Floats, least: Floats | None = None) -> None:
        """Ask each bin what it holds at most by these worths of units, of bins that a cheaper packing may have.

        least: G, $/hour; what a bin holds is taken to be as much, at least, which makes the search shorter.
        """
        some = np.flatnonzero(self.usable)
        none, held = np.zeros(len(some)), np.zeros(len(self.usable))
        least = none if least is None else least[some]
        asked = Question(self.problem.requests, self.problem.counts, worth, least, every=False, states=self.work.states)
        held[some] = price(replace(self.bins.some(some), charge=none), asked).most
        self.held.append(held)
        self.worths.append(worth)

    def _counts(self, floor: float, most: float) -> tuple[Floats | None, float]:
        """The cheapest numbers of bins (G) that every row admits and that cost `floor` at least, and the least cost.

        most: $/hour, they must cost less.
        """
        program, bins, groups = LinearProgram(), self.bins, self.groups
        used = program.columns(bins.charge, self.usable if floor else self._undominated())
        surplus = program.columns(np.ones(1))
        rows = program.rows(np.zeros(len(self.held)), np.full(len(self.held), INFINITY))
        program.matrix(rows, used, np.array(self.held).T)
        program.entries(rows, np.repeat(surplus, len(rows)), 1.0)
        roomy = program.rows(np.zeros(len(self.rooms)), np.full(len(self.rooms), INFINITY))
        program.matrix(roomy, used, self.rooms.T)
        rows = np.concatenate([rows, roomy])
        worths = np.concatenate([np.array(self.worths), self.requested])
        for states in self.wholes:
            values = states @ worths.T
            if len(states) > MOST_CHOICES:
                values = values.min(axis=0, keepdims=True)
            chosen, one = program.columns(np.zeros(len(values))), program.rows(np.ones(1), np.ones(1))
            program.entries(np.repeat(one, len(values)), chosen, 1.0)
            program.matrix(rows, chosen, -values)
        loaded = np.flatnonzero(self.surplus)
        row = program.rows(np.full(1, -INFINITY), np.zeros(1))
        program.entries(row, surplus, 1.0)
        program.entries(np.repeat(row, len(loaded)), used[loaded], -self.surplus[loaded])
        for place, limit in enumerate(self.problem.limits):
            takes = np.flatnonzero(groups.takes[:, place])
            row = program.rows(np.full(1, -INFINITY), np.full(1, max(0.0, limit.left)))
            program.entries(np.repeat(row, len(takes)), used[takes], groups.takes[takes, place])
        if floor:
            row = program.rows(np.full(1, floor), np.full(1, INFINITY))
            paid = np.flatnonzero(bins.charge)
            program.entries(np.repeat(row, len(paid)), used[paid], bins.charge[paid])
            program.entries(row, surplus, 1.0)
        solution = program.solve_integers(self.work.branches, surplus, most, quick=True)
        if solution.values is None:
            return None, solution.bound
        counts = np.rint(solution.values[used])
        counts[groups.types :] = groups.available[groups.types :]
        return counts, solution.bound

    def _undominated(self) -> Floats:
        """Return G, how many bins of each group there may be: none of those that another replaces in every row."""
        types, usable = self.groups.types, self.usable.copy()
        rows = np.concatenate([np.array(self.held), self.rooms, self.surplus[None]])[:, :types].T
        some = np.flatnonzero(usable[:types])
        order = some[np.lexsort((-rows[some].sum(axis=1), self.bins.charge[some]))]
        price = self.bins.charge[order]
        kept = order[undominated(rows[order], self.bins.allowed[order], self.groups.takes[order], price, price)]
        usable[np.setdiff1d(some, kept)] = 0.0
        return usable

    def _refill(
        self, counts: Floats, units: Floats, group: Ints, dear: Floats
    ) -> tuple[Floats | None, Floats, Ints, float]:
        """Pack divisible patterns into so many bins (G): None if all units fit, else the worth of units by the duals.

        And the patterns with those that were found, and the $/hour that the load costs beside the bins, units that are
        left out included. dear: D, $/hour of a unit that is left out.
        """
        chosen = np.flatnonzero(counts)
        bins = replace(self.bins.some(chosen), charge=np.zeros(len(chosen)))
        own = np.isin(group, chosen)
        units, group = units[own], group[own]
        worth, cost = dear, np.inf
        for _ in range(self.work.refills):
            cost, worth, charge = self._relaxed(counts, units, group, dear)
            if cost <= NO_WORTH:
                return None, units, group, 0.0
            least = charge[chosen] + NO_WORTH
            asked = Question(
                self.problem.requests, self.problem.counts, worth, least, every=False, states=self.work.states
            )
            priced = price(bins, asked)
            known = set(zip(group.tolist(), map(bytes, units), strict=True))
            found = list(zip(chosen[priced.bins].tolist(), map(bytes, priced.units), strict=True))
            new = [place for place, each in enumerate(found) if each not in known]
            if not new:
                break
            units = np.concatenate([units, priced.units[new]])
            group = np.concatenate([group, chosen[priced.bins[new]]])
        return worth, units, group, cost

    def _relaxed(self, counts: Floats, units: Floats, group: Ints, dear: Floats) -> tuple[float, Floats, Floats]:
        """The linear program over these patterns: its optimum ($/hour), worths of units (D), and of bins (G)."""
        program = LinearProgram()
        load = units @ self.problem.requests[:, self.bins.column]
        surplus = self.bins.slope[group] * np.maximum(0.0, load - self.bins.free[group])
        used = program.columns(surplus)
        missing = program.columns(dear)
        cover = program.rows(np.zeros(len(dear)), np.full(len(dear), INFINITY))
        program.matrix(cover, used, units)
        program.entries(cover, missing, 1.0)
        self._choose_end_states(program, cover)
        available = program.rows(np.full(len(counts), -INFINITY), counts)
        program.entries(available[group], used, 1.0)
        solution = program.solve(presolve=False)
        return solution.objective, np.maximum(solution.duals[cover], 0.0), np.maximum(-solution.duals[available], 0.0)

    def _pack(self, counts: Floats, dear: Floats) -> tuple[Packing, float] | None:
        """Pack units into so many bins (G), and the cost of these, $/hour; None where that is too much work.

        dear: D, $/hour of a unit that is left out.
        """
        problem, bins, rows = self.problem, self.bins, [list(numbers) for numbers in self.groups.numbers]
        opened = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
        place, item = np.nonzero(bins.allowed[opened])
        if len(place) > MOST_PLACES:
            return None
        program = LinearProgram()
        placed = program.columns(np.zeros(len(place)), problem.counts[item])
        missing = program.columns(dear, problem.counts)
        cover = program.rows(np.zeros(len(dear)), np.zeros(len(dear)))
        program.entries(cover[item], placed, 1.0)
        program.entries(cover, missing, 1.0)
        self._choose_end_states(program, cover)
        program.keep_within(placed, place, item, problem.requests, bins.capacity[opened] + SLACK)
        surplus = program.columns(np.ones(len(opened)))
        load = program.rows(np.full(len(opened), -INFINITY), bins.slope[opened] * bins.free[opened])
        paid = bins.slope[opened[place]] * problem.requests[item, bins.column]
        some = np.flatnonzero(paid)
        program.entries(load[place[some]], placed[some], paid[some])
        program.entries(load, surplus, -1.0)
        solution = program.solve_integers(self.work.tries, surplus)
        if solution.values is None:
            return None
        units = np.zeros((len(opened), len(dear)))
        units[place, item] = np.rint(solution.values[placed])
        packed = []
        for each, own in zip(opened.tolist(), units, strict=True):
            existing = each >= self.groups.types
            number = rows[each].pop(0) if existing else rows[each][0]
            if own.any():
                packed.append(Bin(existing, number, own))
        return self._costed(Packing(packed, np.rint(solution.values[missing])))

    def _costed(self, packing: Packing) -> tuple[Packing, float]:
        """The packing with each new bin of the cheapest type that holds its units, and its cost, $/hour."""
        bins, cost = list[Bin](), 0.0
        for one in packing.bins:
            if not one.existing:
                number, paid = self._cheapest(one.units)
                cost += paid
                one = Bin(existing=False, number=number, units=one.units)
            bins.append(one)
        return Packing(bins, packing.left), cost

    def _cheapest(self, units: Floats) -> tuple[int, float]:
        """The number of the cheapest bin type that holds these units (D), and its cost; infinite where none does."""
        bins, types = self.bins, self.groups.types
        load = units @ self.problem.requests
        fits = (bins.capacity[:types] >= load - SLACK).all(axis=1) & bins.allowed[:types][:, units > 0].all(axis=1)
        surplus = bins.slope[:types] * np.maximum(0.0, load[bins.column] - bins.free[:types])
        paid = np.where(fits, bins.charge[:types] + surplus, np.inf)
        best = int(np.argmin(paid))
        return int(self.groups.type_numbers[best]), float(paid[best])

    def _repaired(self, packing: Packing, cost: float) -> tuple[Packing, float]:
        """What is left out in the one bin, a new one or a larger one in place of another, that adds least."""
        left = packing.left
        if not left.any() or not self.groups.types:
            return packing, cost
        added = [self._cheapest(left)[1]]
        for one in packing.bins:
            now = 0.0 if one.existing else self._cheapest(one.units)[1]
            added.append(np.inf if one.existing else self._cheapest(one.units + left)[1] - now)
        best = int(np.argmin(added))
        bins = [one for place, one in enumerate(packing.bins, start=1) if place != best]
        units = left + packing.bins[best - 1].units if best else left
        bins.append(Bin(existing=False, number=self._cheapest(units)[0], units=units))
        return Packing(bins, np.zeros(len(left))), cost + added[best]

    def _choose_end_states(self, program: LinearProgram, cover: Ints) -> None:
        """Let the rows of item types (D) cover one of the end states of each part."""
        for states in self.wholes:
            chosen, one = program.columns(np.zeros(len(states))), program.rows(np.ones(1), np.ones(1))
            program.matrix(cover, chosen, -states.astype(np.float64))
            program.entries(np.repeat(one, len(states)), chosen, 1.0)
