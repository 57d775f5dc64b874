"""Bound and pack a small batch by column generation over fill patterns, where it has too many states to be enumerated.

The linear program chooses how often each pattern is used, and among the end states that rules over domains admit, so
that these are part of the bound. Patterns come from greedy filling by its duals, then from branch and bound
(`pricing`), which also bounds what patterns that were not found could gain: the duals are scaled down until no pattern
is worth more than its bin costs. By weak duality what they are worth is a lower bound, whether or not all is found.

Packings come from dives through the program (`pattern_dive`), whose bins are repacked two by two (`pair_repacking`). A
packing that costs less than the best one known uses no pattern whose reduced cost exceeds the gap between that and the
bound. Where there are few item types the others are searched through (`pattern_search`); where the best is beyond
Provisioners' limits, an integer program chooses among them. What that does not prove, the numbers of bins may
(`bin_counts`): a packing has whole bins, and the program's has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.core.provisioning.optimize.bin_groups import (
    BinGroups,
    find_bins,
    first_worth,
    of_equal_the_cheapest,
    within_limits,
)
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.bin_types import LoadPrices
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.fill import SLACK, FillStrategy, OpenBins, Supply, fill
from controller.core.provisioning.optimize.pair_repacking import PairRepacking
from controller.core.provisioning.optimize.patterns.bin_counts import CLOSE, BinCounts, Work
from controller.core.provisioning.optimize.patterns.pattern_dive import PatternCover, Rest, dives
from controller.core.provisioning.optimize.patterns.pattern_search import Patterns, PatternSearch
from controller.core.provisioning.optimize.patterns.pricing import NO_WORTH, Priced, PricedBins, Question, price
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Floats, Ints

GREEDY_ROUNDS = 30
"""Rounds of column generation with greedy filling at most."""
TOLERANCE = 1e-3
"""Part of a bin's price that a pattern has to gain; the bound is as much too low."""
FEW = 2
"""Fewer new patterns from greedy filling end it."""
DIVES = ((), (1,), (0, 1), (1, 1), (0, 0, 1))
"""Turns of the dives, see `pattern_dive`."""
MOST_STARTS = 2_000
"""The most end states in a search."""


COUNTING = Work()


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits on work.

    items: item types up to which a problem is small; with more, packings are not searched through. rounds: of
    column generation with branch and bound, for small problems and for others. priced: states of the branch and bound
    that finds patterns. patterns: the most in a search. searches: for each, the states of the branch and bound that
    lists its patterns, and the pairs of state and pattern in each step. counting: work on the numbers of bins,
    into which units are packed if there are no more pods than `packed`: of more, few are then proven to be optimal.

    listed: of an integer program among all patterns within the gap, how many these are, its branches, and the states of
    the branch and bound that lists them. thorough: it is solved of every problem that is not proven, and not only where
    limits forbid the cheapest packing. near: part of the bound within which a plan's cost is near enough to it.
    """

    rounds: tuple[int, int] = (5, 3)
    items: int = 16
    priced: int = 200
    patterns: int = 1_500
    searches: tuple[tuple[int, int], ...] = ((2_000, 100_000),)
    counting: Work = COUNTING
    packed: int = 25
    listed: tuple[int, int, int] = (300, 20, 2_000)
    thorough: bool = False
    near: float = 1e-3


USUAL = Effort()


@dataclass(frozen=True, slots=True)
class Searched:
    """least: $/hour, no packing costs less. packing: the best one found, of this cost; None if all cost `most`."""

    least: float
    cost: float
    packing: Packing | None

    @property
    def optimal(self) -> bool:
        """Whether the packing, or the one known before, is proven to be the cheapest."""
        return self.least >= self.cost * (1.0 - CLOSE)


@dataclass(frozen=True, slots=True)
class _Listed:
    """P patterns: units P x D, group P (the bins of each), reduced P ($/hour, the reduced cost).

    missing: $/hour, the least reduced cost of the patterns that are not listed though they were asked for.
    """

    units: Floats
    group: Ints
    reduced: Floats
    missing: float


@dataclass(frozen=True, slots=True)
class _Duals:
    """Scaled so that no pattern gains. worth: D, $/hour of a unit. charge: G, of a bin: what it costs and takes of
    limits, or what the place on an existing node is worth."""

    least: float
    worth: Floats
    charge: Floats


class ColumnGeneration:
    """D item types. wholes: the end states, part by part: S x D units; a whole packing places one of each part.

    most: $/hour, packings must cost less.
    """

    def __init__(
        self,
        problem: BinPackingProblem,
        by_load: LoadPrices,
        wholes: Sequence[Ints],
        most: float,
        effort: Effort = USUAL,
    ) -> None:
        self.problem = problem
        self.effort = effort
        self.few = len(problem.counts) <= effort.items
        self.wholes = wholes
        self.pods = sum(int(states[0].sum()) for states in wholes)
        self.most = most
        self.groups: BinGroups = find_bins(problem, most, by_load.base)
        self.types = self.groups.types
        none, of_types = np.zeros(len(self.groups.price) - self.types), by_load.some(self.groups.type_numbers)
        self.bins = PricedBins(
            self.groups.capacity,
            self.groups.allowed,
            np.concatenate([of_types.base, none]),
            np.concatenate([of_types.slope, none]),
            np.concatenate([of_types.free, none]),
            by_load.column,
        )
        lefts, dear = np.array([limit.left for limit in problem.limits]), 10.0 * max(1.0, most)
        self.everything = Rest(self.groups, wholes, self.groups.available, lefts, self._cost, dear)
        self.units: Floats = np.zeros((0, len(problem.counts)))
        self.group: Ints = np.zeros(0, dtype=np.int64)
        self._known: set[bytes] = set()
        self._cover: PatternCover | None = None
        """The linear program over the first `_covered` patterns."""
        self._covered = 0
        self.duals = _Duals(0.0, np.zeros(len(problem.counts)), self.bins.charge)

    def searched(self) -> Searched:
        """Return the best bound and packing that patterns give."""
        self._generate()
        best = self._dived(Searched(self.duals.least, self.most, None))
        if best.optimal:
            return best
        starts = _product(self.wholes) if self.few and self.duals.worth.any() else None
        if starts is None:
            return best
        near = best.cost
        for states, pairs in self.effort.searches:
            result = self._searched(starts, best, near, states, pairs)
            if result.packing is not None and not within_limits(self.problem, result.packing):
                return self._of_listed_patterns(replace(best, least=max(best.least, result.least)))
            best = result
            if best.optimal:
                return best
            near = best.cost
        return best

    def counted(self, best: Searched) -> Searched:
        """Return the best bound and packing that numbers of bins give, where `best` is what is known."""
        if not self.duals.worth.any():
            return best
        packs = self.few and self.pods <= self.effort.packed
        work = self.effort.counting if packs else replace(self.effort.counting, packings=0)
        counts = BinCounts(self.problem, self.groups, self.bins, self.wholes, work)
        gap = best.cost - self.duals.least
        counted = counts.solved(
            self.duals.worth, self.duals.charge - gap, self.units, self.group, best.cost, best.least
        )
        best = Searched(counted.least, counted.cost, counted.packing or best.packing)
        return self._of_listed_patterns(best) if self.effort.thorough and not best.optimal else best

    def _generate(self) -> None:
        """Generate patterns until the bound is about the program's optimum."""
        problem, groups = self.problem, self.groups
        prices = groups.even_prices(problem.dense)
        worth, charge = first_worth(problem, groups, prices), self.bins.charge
        limit_prices = np.zeros(len(problem.limits))
        exact, optimum, work = 0, np.inf, WorkBudget(np.inf)
        last = self.effort.rounds[0 if self.few else 1]
        for number in range(GREEDY_ROUNDS + last):
            new = 0
            if not exact and number < GREEDY_ROUNDS:
                supply = Supply(problem.units, problem.counts, worth)
                units = fill(OpenBins(groups.capacity, prices, groups.allowed), supply, FillStrategy(), work)
                gain = units @ worth - charge - self._surplus(units, np.arange(len(units)))
                useful = np.flatnonzero((gain > TOLERANCE * self.bins.charge + NO_WORTH) | (number == 0))
                new = self._add(units[useful], useful)
            if exact or new < FEW or number >= GREEDY_ROUNDS:
                exact += 1
                priced = self._price(worth, charge)
                self._bound(worth, charge, limit_prices, priced)
                new += self._add(priced.units, priced.bins)
                if not new or exact == last or self.duals.least >= (1.0 - 2.0 * TOLERANCE) * optimum:
                    return
            optimum, worth, charge, limit_prices = self._relaxed()

    def _add(self, units: Floats, group: Ints) -> int:
        """Add patterns (units P x D, group P); return how many were new."""
        kept = []
        for place, (row, number) in enumerate(zip(units, group.tolist(), strict=True)):
            key = row.tobytes() + number.to_bytes(4, "little")
            if key not in self._known and row.any():
                self._known.add(key)
                kept.append(place)
        self.units = np.concatenate([self.units, units[kept]])
        self.group = np.concatenate([self.group, group[kept]])
        return len(kept)

    def _surplus(self, units: Floats, group: Ints) -> Floats:
        """Return the $/hour of the load of patterns."""
        load = units @ self.problem.requests[:, self.bins.column]
        return np.asarray(self.bins.slope[group] * np.maximum(0.0, load - self.bins.free[group]))

    def _cost(self, units: Floats, group: Ints) -> Floats:
        """Return the $/hour of patterns."""
        return np.asarray(self.bins.charge[group] + self._surplus(units, group))

    def _relaxed(self) -> tuple[float, Floats, Floats, Floats]:
        """Return the linear program's optimum ($/hour), the worth of units (D), the charge for bins (G), and $/hour of
        each unit that they take of a limit, which the charge includes."""
        if self._cover is None:
            self._cover = self.everything.covered(self.units, self.group)
        else:
            self.everything.add(self._cover, self.units[self._covered :], self.group[self._covered :])
        cover, self._covered = self._cover, len(self.units)
        solution = cover.program.solve_again()
        limit_prices = np.maximum(-solution.duals[cover.limited], 0.0)
        charge = self.bins.charge + self.groups.takes @ limit_prices
        charge[self.types :] -= solution.duals[cover.available]
        return solution.objective, np.maximum(solution.duals[cover.cover], 0.0), charge, limit_prices

    def _dived(self, best: Searched) -> Searched:
        """Return the best of `best` and of packings that dives come to, repacked pair by pair."""
        # What bins take of limits has a price, too, where limits bind: units are then worth more than bins cost.
        free = bool((self.duals.charge[: self.types] <= self.bins.charge[: self.types]).all())
        repacking = PairRepacking(self.problem, self.groups, self.bins, self.duals.worth if free else None)
        known: set[tuple[tuple[int, bytes], ...]] = set()
        for dived in dives(self.everything, self.units, self.group, DIVES):
            key = tuple(sorted((one.number, one.units.tobytes()) for one in dived.bins))
            if key in known:
                continue
            known.add(key)
            packing, cost = repacking.repacked(dived)
            if cost < best.cost * (1.0 - CLOSE) and within_limits(self.problem, packing):
                best = replace(best, cost=cost, packing=packing)
            if best.optimal:
                break
        return best

    def _of_listed_patterns(self, best: Searched) -> Searched:
        """Return the better of `best` and what an integer program makes of all patterns within the gap, and its bound.

        Of patterns that are equal and take equally much of limits, one is enough.
        """
        most, branches, states = self.effort.listed
        listed = self._listed(best.cost - self.duals.least, states)
        existing = np.where(listed.group < self.types, -1, listed.group)
        same = np.column_stack([listed.units, self.groups.takes[listed.group], existing])
        near = of_equal_the_cheapest(same, listed.reduced)
        near = near[np.argsort(listed.reduced[near], kind="stable")]
        missing = min(listed.missing, float(listed.reduced[near[most]]) if len(near) > most else np.inf)
        near = near[:most]
        return self._chosen(best, listed.units[near], listed.group[near], branches, missing)

    def _chosen(self, best: Searched, units: Floats, group: Ints, branches: int, missing: float = 0.0) -> Searched:
        """Return the better of `best` and what an integer program makes of patterns (P x D, P), within limits.

        missing: $/hour, the least reduced cost of a pattern that is not among them.
        """
        cover = self.everything.covered(units, group)
        solution = cover.program.solve_integers(branches, cutoff=best.cost)
        least = max(best.least, min(best.cost, solution.bound, self.duals.least + missing))
        if solution.values is None or solution.objective >= best.cost:
            return replace(best, least=least)
        taken = np.repeat(np.arange(len(group)), np.rint(solution.values[cover.used]).astype(np.int64))
        sets, rows = list[Ints](), list[int]()
        for place, numbers in enumerate(self.groups.numbers[self.types :]):
            own = taken[group[taken] == self.types + place]
            sets += list(units[own].astype(np.int64))
            rows += numbers[: len(own)]
        new = taken[group[taken] < self.types]
        sets += list(units[new].astype(np.int64))
        takes = [*self.groups.takes[: len(rows)], *self.groups.takes[group[new]]]
        start = self.everything.chosen(cover, solution.values)
        packing, cost = self._packing(start, sets, rows, np.arange(len(self.problem.counts)), takes)
        fine = cost < best.cost and within_limits(self.problem, packing)
        return Searched(min(least, cost), cost, packing) if fine else replace(best, least=least)

    def _price(self, worth: Floats, charge: Floats) -> Priced:
        """Return the patterns that gain, by these duals."""
        least = TOLERANCE * self.bins.charge
        least[self.types :] = NO_WORTH
        asked = Question(
            self.problem.requests, self.problem.counts, worth, least, every=False, states=self.effort.priced
        )
        return price(replace(self.bins, charge=charge), asked)

    def _bound(self, worth: Floats, charge: Floats, limit_prices: Floats, priced: Priced) -> None:
        """Scale duals down until no pattern gains, and keep them if they prove more."""
        over = np.maximum(priced.most, 0.0)
        excess = over[: self.types] / np.maximum(self.bins.charge[: self.types], NO_WORTH)
        scale = 1.0 / (1.0 + float(excess.max(initial=0.0)))
        worth, taken = scale * worth, scale * (charge + over)[self.types :]
        of_types = (self.bins.charge + scale * self.groups.takes @ limit_prices)[: self.types]
        least = sum(float((states @ worth).min()) for states in self.wholes)
        least -= float(taken @ self.groups.available[self.types :])
        least -= scale * sum(
            dual * max(0.0, limit.left) for dual, limit in zip(limit_prices.tolist(), self.problem.limits, strict=True)
        )
        if least > self.duals.least:
            self.duals = _Duals(least, worth, np.concatenate([of_types, taken]))

    def _searched(self, starts: Ints, best: Searched, near: float, states: int, pairs: int) -> Searched:
        """Search through the patterns that a packing of less than `near` ($/hour) uses."""
        duals, order = self.duals, self._order()
        listed = self._listed(near - duals.least, states)
        new, missing = self._promising(listed)
        on_new = Patterns(listed.units[new][:, order].astype(np.int64), listed.reduced[new])
        rows, on_existing = self._of_existing(listed, order)
        # No start costs less than its units are worth, less what places on existing nodes and limits are worth.
        paid = sum(float((states @ duals.worth).min()) for states in self.wholes) - duals.least
        search = PatternSearch(duals.worth[order], on_new, on_existing, near, pairs)
        result = search.run(starts[:, order], starts @ duals.worth - paid)
        least = max(best.least, min(result.least, duals.least + missing, best.cost))
        if not np.isfinite(result.cost):
            return replace(best, least=least)
        sets = [on_existing[place].units[number] for place, number in enumerate(result.existing)]
        sets += [on_new.units[number] for number in result.new]
        packing, cost = self._packing(starts[result.start][order], sets, rows, order)
        return Searched(min(least, cost), cost, packing) if cost < best.cost else replace(best, least=least)

    def _promising(self, listed: _Listed) -> tuple[Ints, float]:
        """Return the numbers of the patterns of new nodes to search through, each once, with its cheapest bin.

        And the least reduced cost ($/hour) of those that are left out, beside those that are missing in the list.
        """
        new, most = np.flatnonzero(listed.group < self.types), self.effort.patterns
        new = new[of_equal_the_cheapest(listed.units[new], listed.reduced[new])]
        if len(new) <= most:
            return new, listed.missing
        new = new[np.argsort(listed.reduced[new], kind="stable")]
        return new[:most], min(listed.missing, float(listed.reduced[new[most]]))

    def _of_existing(self, listed: _Listed, order: Ints) -> tuple[list[int], list[Patterns]]:
        """Return the existing nodes' rows, and the patterns of each: to hold nothing, and those that are listed.

        order: D, the item types in the order of the patterns' units.
        """
        rows, patterns, nothing = list[int](), list[Patterns](), np.zeros((1, len(order)))
        for place, numbers in enumerate(self.groups.numbers[self.types :]):
            own, taken = listed.units[listed.group == self.types + place], self.duals.charge[self.types + place]
            reduced = np.concatenate([[taken], np.maximum(0.0, taken - own @ self.duals.worth)])
            units = np.concatenate([nothing, own])[:, order].astype(np.int64)
            patterns += [Patterns(units, reduced)] * len(numbers)
            rows += numbers
        return rows, patterns

    def _order(self) -> Ints:
        """Return the item types, those first of which a unit takes the largest part of any bin that lets it in."""
        most = np.maximum(self.groups.capacity.max(axis=0), SLACK)
        return np.argsort(-(self.problem.requests / most).max(axis=1), kind="stable")

    def _listed(self, gap: float, states: int) -> _Listed:
        """List the patterns of at most this reduced cost ($/hour) to which no unit can be added for nothing.

        states: limit of the branch and bound.
        """
        problem, bins, duals = self.problem, self.bins, self.duals
        worth, least = np.maximum(duals.worth, 2.0 * NO_WORTH), np.full(len(duals.charge), -gap)
        asked = Question(problem.requests, problem.counts, worth, least, every=True, states=states)
        priced = price(replace(bins, charge=duals.charge), asked)
        units, group = priced.units, priced.bins
        maximal = np.ones(len(units), dtype=np.bool_)
        free = bins.capacity[group] - units @ problem.requests + SLACK
        for item in range(units.shape[1]):
            more = (units[:, item] < problem.counts[item]) & bins.allowed[group, item] & (bins.slope[group] == 0)
            maximal &= ~(more & (free >= problem.requests[item]).all(axis=1))
        units, group = units[maximal], group[maximal]
        reduced = duals.charge[group] + self._surplus(units, group) - units @ duals.worth
        return _Listed(units, group, np.maximum(reduced, 0.0), -priced.dropped)

    def _packing(
        self, start: Ints, sets: list[Ints], rows: list[int], order: Ints, takes: Sequence[Floats] = ()
    ) -> tuple[Packing, float]:
        """Return a packing of the start state's units, each taken by the first pattern with room for it;
        its cost ($/hour).

        takes: of each pattern, what its bin may take of limits at most; empty: anything.
        """
        left, packed, cost = start.astype(np.int64), list[Bin](), 0.0
        every = np.arange(self.types)
        for place, pattern in enumerate(sets):
            taken = np.minimum(pattern, left)
            left = left - taken
            units = np.zeros(len(order))
            units[order] = taken
            if not taken.any():
                continue
            if place < len(rows):
                packed.append(Bin(existing=True, number=rows[place], units=units))
                continue
            fits = (self.bins.capacity[every] >= units @ self.problem.requests - SLACK).all(axis=1)
            fits &= self.bins.allowed[every][:, units > 0].all(axis=1)
            if takes:
                fits &= (self.groups.takes[every] <= takes[place]).all(axis=1)
            paid = np.where(fits, self._cost(np.broadcast_to(units, (self.types, len(units))), every), np.inf)
            best = int(np.argmin(paid))
            cost += float(paid[best])
            packed.append(Bin(existing=False, number=int(self.groups.type_numbers[best]), units=units))
        return Packing(packed, np.zeros(len(order))), cost


def _product(wholes: Sequence[Ints]) -> Ints | None:
    """Return whole end states, one of each part; None where they are too many."""
    if np.prod([float(len(states)) for states in wholes]) > MOST_STARTS:
        return None
    product = wholes[0]
    for states in wholes[1:]:
        product = (product[:, None, :] + states[None]).reshape(-1, states.shape[1])
    return product
