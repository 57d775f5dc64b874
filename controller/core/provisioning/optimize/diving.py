"""Pack by column generation and diving, where there are few item types.

A linear program chooses how often each pattern is used; a pattern is what one bin holds. First patterns are the bins of
a known packing, new ones come from greedy filling of all bins by the program's duals. What the program uses whole, else
the pattern that it uses most, becomes part of the packing; the program is solved again over the units that are left,
with new patterns for these, until none is left. This is a dive: a branch and bound that goes down one branch only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.optimize.bin_groups import (
    BinGroups,
    cover_by_patterns,
    find_bins,
    keep_within_limits,
    of_equal_the_cheapest,
    use_existing_once,
)
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Bin, Packing, cheapest_type
from controller.core.provisioning.optimize.contenders import Contenders
from controller.core.provisioning.optimize.fill import SLACK, FillStrategy, OpenBins, Supply, fill
from controller.core.provisioning.optimize.linear_program import WHOLE, LinearProgram
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

MANY_TYPES = 200
"""With more bin types than this, none of which replaces another, only those on the problem's shortlist are used."""
FIRST_ROUNDS, ROUNDS = 12, 3
"""Rounds of column generation at most: before a dive's first bins are chosen, and before each later choice."""
GAIN = 1e-6
"""$/hour, and part of a bin's price, that a new pattern has to gain."""
DEAR = 10.0
"""A unit that is left out costs the program as much as this many times all bins of the known packing."""
BETTER = 1e-6
"""$/hour by which a packing must be cheaper to be better."""
IN_VAIN = 6
"""Diving ends after this many dives in a row without a cheaper packing."""
OVERRUN = 2.0
"""A dive is given up when the work done is this many times the work allowed."""


@dataclass(frozen=True, slots=True)
class _Patterns:
    """P patterns. units: P x D. group: P, the bins of each."""

    units: Floats
    group: Ints

    def __len__(self) -> int:
        return len(self.group)

    def some(self, which: Ints) -> _Patterns:
        """Select these patterns."""
        return _Patterns(self.units[which], self.group[which])

    def __add__(self, other: _Patterns) -> _Patterns:
        return _Patterns(np.concatenate([self.units, other.units]), np.concatenate([self.group, other.group]))


@dataclass(frozen=True, slots=True)
class _Optimum:
    """used: P, how often each pattern is used. worth: D, $/hour of a unit. charge: G, $/hour of a bin and of limits."""

    used: Floats
    worth: Floats
    charge: Floats


class Diving:
    """Packs a problem's units again, dive by dive, each with strategies of greedy filling in another order."""

    def __init__(
        self, problem: BinPackingProblem, start: Packing, strategies: Sequence[FillStrategy], work: WorkBudget
    ) -> None:
        self.problem = problem
        self.strategies = strategies
        self.work = work
        self.best, self.least = start, start.cost(problem)
        self.groups: BinGroups = find_bins(problem, self.least)
        if self.groups.types > MANY_TYPES:
            self.groups = find_bins(problem, self.least, among=problem.shortlist)
        self.prices = self.groups.even_prices(problem.dense)
        self.patterns = self._seen(start.bins)

    def run(self, contenders: Contenders) -> Packing:
        """Dive while the work lasts and is not in vain; return the cheapest packing, the start included.

        `contenders` get the packing of every dive.
        """
        number = in_vain = 0
        last = 0.0
        while self.work.done + last <= self.work.allowed and in_vain < IN_VAIN:
            before = self.work.done
            dive = _Dive(self, number)
            dive.run()
            number, in_vain, last = number + 1, in_vain + 1, self.work.done - before
            packing = dive.packing()
            contenders.add(packing)
            if packing.cost(self.problem) < self.least - BETTER:
                self.best, self.least, in_vain = packing, packing.cost(self.problem), 0
        return self.best

    def _seen(self, bins: Sequence[Bin]) -> _Patterns:
        """Return the patterns of these bins, those of new nodes for the cheapest bin type that holds them."""
        groups, types = self.groups, self.groups.types
        of_row = {row: number for number, rows in enumerate(groups.numbers) if number >= types for row in rows}
        units = np.array([one.units for one in bins]).reshape(len(bins), len(self.problem.counts))
        load = np.minimum(units @ self.problem.requests, self.problem.counts @ self.problem.requests)
        group = np.full(len(bins), -1)
        for place, one in enumerate(bins):
            if one.existing:
                group[place] = of_row[one.number]
                continue
            holds = (groups.capacity[:types] >= load[place] - SLACK).all(axis=1)
            holds &= groups.allowed[:types][:, units[place] > 0].all(axis=1)
            if holds.any():
                group[place] = int(np.argmin(np.where(holds, groups.price[:types], np.inf)))
        return _Patterns(units, group).some(np.flatnonzero(group >= 0))


class _Dive:
    """What one dive has packed, and what is left: units D, bins of each group G, and of each limit."""

    def __init__(self, diving: Diving, number: int) -> None:
        self.diving = diving
        self.problem, self.groups = diving.problem, diving.groups
        self.number = number
        self.left: Floats = self.problem.counts.astype(np.float64)
        self.available: Floats = self.groups.available.copy()
        self.limits_left: Floats = np.array([limit.left for limit in self.problem.limits])
        self.patterns = diving.patterns
        self.packed: list[tuple[int, Floats]] = []

    def run(self) -> None:
        """Pack until no unit is left, or none can be packed, or the work is long over."""
        work = self.diving.work
        used = self._solved(FIRST_ROUNDS)
        # Later dives start with the patterns for all units.
        self.diving.patterns = self.patterns
        while self._pack(used) and self.left.any() and work.done < OVERRUN * work.allowed:
            used = self._solved(ROUNDS)

    def packing(self) -> Packing:
        """Return what is packed, each new node of the cheapest bin type that holds its units."""
        rows = [list(numbers) for numbers in self.groups.numbers]
        bins = list[Bin]()
        for group, units in self.packed:
            if group >= self.groups.types:
                bins.append(Bin(existing=True, number=rows[group].pop(), units=units))
            else:
                number = cheapest_type(self.problem, units, rows[group][0])
                bins.append(Bin(existing=False, number=number, units=units))
        return Packing(bins, self.left)

    def _solved(self, rounds: int) -> Floats:
        """Generate patterns for the units left; return how often each pattern is used (P)."""
        diving, usable = self.diving, np.flatnonzero(self._usable())
        self.patterns = self._trimmed()
        bins = OpenBins(self.groups.capacity[usable], diving.prices[usable], self.groups.allowed[usable])
        least = GAIN * (1.0 + self.groups.price[usable])
        for number in range(rounds):
            optimum = self._optimum()
            strategy = diving.strategies[(self.number + len(self.packed) + number) % len(diving.strategies)]
            units = fill(bins, Supply(self.problem.units, self.left, optimum.worth), strategy, diving.work)
            gaining = np.flatnonzero(units @ optimum.worth - optimum.charge[usable] > least)
            if not len(gaining):
                return optimum.used
            self.patterns += _Patterns(units[gaining], usable[gaining])
        return self._optimum().used

    def _usable(self) -> Bools:
        """Return the groups that have a bin left, within limits."""
        takes = self.groups.takes
        within = ((takes <= self.limits_left) | (takes <= 0)).all(axis=1)
        return np.asarray((self.available > 0) & within)

    def _trimmed(self) -> _Patterns:
        """Return the patterns without units that are packed already; of equal ones the cheapest."""
        units, group = np.minimum(self.patterns.units, self.left), self.patterns.group
        patterns = _Patterns(units, group).some(np.flatnonzero(units.any(axis=1) & self._usable()[group]))
        existing = np.where(patterns.group >= self.groups.types, patterns.group, -1)
        alike = np.concatenate([patterns.units, existing[:, None], self.groups.takes[patterns.group]], axis=1)
        return patterns.some(of_equal_the_cheapest(alike, self.groups.price[patterns.group]))

    def _optimum(self) -> _Optimum:
        """Solve the linear program over the units left, with the patterns at hand."""
        groups, types, units, group = self.groups, self.groups.types, self.patterns.units, self.patterns.group
        items = np.flatnonzero(self.left)
        program, dear = LinearProgram(), DEAR * max(1.0, self.diving.least)
        used, cover = cover_by_patterns(program, units[:, items], groups.price[group], self.left[items], dear)
        available = use_existing_once(program, groups, used, group, self.available)
        limits = keep_within_limits(program, used, groups.takes[group], self.limits_left)
        solution = program.solve(presolve=False)
        self.diving.work.covered(len(self.patterns), len(items))
        worth, charge = np.zeros(len(self.left)), groups.price - groups.takes @ solution.duals[limits]
        worth[items] = np.maximum(solution.duals[cover], 0.0)
        charge[types:] -= solution.duals[available]
        return _Optimum(solution.values[used], worth, charge)

    def _pack(self, used: Floats) -> bool:
        """Pack the patterns that are used whole, else the one that is used most; return whether there is one."""
        takes = self.groups.takes[self.patterns.group]
        whole = np.floor(used + WHOLE)
        if not whole.any() and len(used):
            within = self._usable()[self.patterns.group]
            most = int(np.argmax(np.where(within, used, 0.0)))
            whole[most] = float(within[most] and used[most] > WHOLE)
        for place in np.repeat(np.arange(len(used)), whole.astype(np.int64)).tolist():
            units, group = np.minimum(self.patterns.units[place], self.left), int(self.patterns.group[place])
            if units.any():
                self.packed.append((group, units))
                self.left = self.left - units
                self.available[group] -= 1
                self.limits_left = self.limits_left - takes[place]
        return bool(whole.any())
