"""Pack a small problem optimally, by dynamic programming over the units that are still to be placed.

A state is a number of units of each item type that are still to be placed. States are numbered as a mixed-radix count:
digit d is the number of units of item type d, its weight is `stride[d]`, and the last digit varies fastest. The largest
item type is the first digit, because the fewest patterns contain it.

New nodes: some bin holds a unit of the first item type that a state has, so the cheapest way to place a state is the
cheapest pattern with that item type, and the cheapest way to place what remains. Existing nodes come before the new
ones, one after the other: each takes one of its patterns, or nothing. A pattern may hold more than what remains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.bin_types import LoadPrices
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.fill import SLACK
from controller.core.provisioning.resource_space import Bools, Floats, Ints

StateNumbers = NDArray[np.int32]

MOST_UNITS = 50
"""Pods up to which a batch is small."""
MOST_STATES = 20_000
"""States up to which a problem is packed exactly."""
MOST_STEPS = 6_000_000
"""Pairs of state and pattern up to which a problem is packed exactly: at most a quarter of a second."""


def few_states(problem: BinPackingProblem) -> bool:
    """Return whether the ways to choose units of each item type are so few that they may be enumerated."""
    return bool(np.prod(problem.counts + 1.0) <= MOST_STATES)


Admissible = Callable[[Ints], Bools]
"""Which of N states (N x D units, by item type) are whole packings."""


def pack_exactly(
    problem: BinPackingProblem,
    bin_types: Ints,
    by_load: LoadPrices,
    admissible: Admissible | None = None,
) -> Packing | None:
    """Return the cheapest packing, Provisioners' limits aside; None where it would take more than `MOST_STEPS` steps.

    None, too, where no packing places all units. bin_types: those to choose from. by_load: prices of all bin types by
    what they hold. admissible: with it, the packing places the cheapest state that it admits, and not all units.
    """
    largest = np.max(problem.requests / np.maximum(problem.capacity[bin_types].max(axis=0, initial=0.0), SLACK), axis=1)
    order = np.argsort(-largest, kind="stable")
    states = _States(problem, order)
    bins = problem.capacity[bin_types], problem.price[bin_types], problem.allowed[bin_types]
    new = states.patterns(*bins, by_load.some(bin_types))
    new = _Patterns(new.units, new.price, bin_types[new.bins])
    rows = np.flatnonzero(problem.open_to.any(axis=1))
    if len(rows) * len(states.units) > MOST_STEPS:
        return None
    price, at_no_cost = np.zeros(1), LoadPrices.flat(np.zeros(1))
    existing = [
        states.patterns(problem.room[[row]], price, problem.open_to[[row]], at_no_cost) for row in rows.tolist()
    ]
    program = _Program(states, new, existing)
    if program.steps(every_state=admissible is not None) > MOST_STEPS:
        return None
    program.solve()
    state = len(states.units) - 1
    if admissible is not None:
        by_item = np.empty_like(states.units)
        by_item[:, order] = states.units
        ends = np.flatnonzero(admissible(by_item))
        if not len(ends):
            return None
        state = int(ends[np.argmin(program.whole_costs()[ends])])
    return program.packing(rows.tolist(), state)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """P patterns. units: P x D. price: P, $/hour. bins: P, the bin that each is cheapest in."""

    units: Ints
    price: Floats
    bins: Ints


class _States:
    """S states. order: D, the item type of each digit. units: S x D, by digit. usage: W x S, what the units ask for."""

    def __init__(self, problem: BinPackingProblem, order: Ints) -> None:
        self.order = order
        self.counts: Ints = problem.counts[order].astype(np.int64)
        self.shape = tuple((self.counts + 1).tolist())
        self.units: Ints = np.indices(self.shape).reshape(len(order), -1).T
        self.stride: Ints = np.append(np.cumprod((self.counts + 1)[:0:-1])[::-1], 1).astype(np.int64)
        self.usage: Floats = problem.requests[order].T @ self.units.T

    def patterns(self, capacity: Floats, price: Floats, allowed: Bools, by_load: LoadPrices) -> _Patterns:
        """Return the states that one of B bins holds, and that no more can be added to at the same price.

        capacity: B x W. price: B, of full bins. allowed: B x D, by item type. by_load: prices (B) by what a bin holds.
        """
        # cheapest: S, $/hour of the cheapest bin that holds the state; bins: S, its number.
        cheapest, bins = np.full(len(self.units), np.inf), np.zeros(len(self.units), dtype=np.int64)
        for number in np.argsort(-price, kind="stable").tolist():
            fits = (self.usage <= capacity[number][:, None] + SLACK).all(axis=0)
            fits &= ~(self.units[:, ~allowed[number][self.order]] > 0).any(axis=1)
            cost = by_load.of(number, self.usage)
            better = fits & (cost <= cheapest)
            cheapest = np.where(better, cost, cheapest)
            bins[better] = number
        grid = cheapest.reshape(self.shape)
        kept = np.isfinite(grid)
        for digit in range(grid.ndim):
            fewer, more = _along(digit, slice(None, -1)), _along(digit, slice(1, None))
            kept[fewer] &= grid[more] > grid[fewer]
        kept.flat[0] = False
        states = np.flatnonzero(kept)
        return _Patterns(self.units[states], cheapest[states], bins[states])

    def remaining(self, states: Ints, patterns: Ints, digit: int = 0) -> StateNumbers:
        """Return N x P: the numbers of the states that remain of N states (their numbers) after P patterns (P x D).

        Digits before `digit` count as 0.
        """
        remaining = np.zeros((len(states), len(patterns)), dtype=np.int32)
        for each in range(digit, len(self.stride)):
            units = self.units[states, each].astype(np.int32)[:, None] - patterns[:, each].astype(np.int32)
            remaining += np.maximum(units, 0, out=units) * np.int32(self.stride[each])
        return remaining


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    """Return an index that takes part of one axis and all of those before it."""
    return (*(slice(None),) * axis, part)


class _Program:
    """The costs of all states: on new nodes alone, then with the first existing node, the second, and so on."""

    def __init__(self, states: _States, new: _Patterns, existing: list[_Patterns]) -> None:
        self.states = states
        self.new = new
        self.existing = existing
        self.with_item = [np.flatnonzero(new.units[:, digit]) for digit in range(len(states.counts))]
        """By digit, the patterns of new nodes that hold a unit of its item type."""
        self.costs: list[Floats] = []

    def steps(self, *, every_state: bool) -> int:
        """Return the number of pairs of state and pattern that `solve` goes through,
        and `whole_costs` if every state is asked for."""
        blocks = self.states.counts * self.states.stride
        tables = self.existing if every_state else self.existing[:-1]
        new = sum(int(block) * len(chosen) for block, chosen in zip(blocks, self.with_item, strict=True))
        return new + len(self.states.units) * sum(len(patterns.price) for patterns in tables)

    def solve(self) -> None:
        """Fill the tables of costs; the last existing node needs none, as all units start there."""
        self.costs.append(self._costs_on_new_nodes())
        for patterns in self.existing[:-1]:
            self.costs.append(self._costs_with(patterns))

    def _costs_on_new_nodes(self) -> Floats:
        """Return S costs, $/hour. States whose first digit is d with the value v are `v * stride[d]` and on,
        as many as the stride.

        What remains of them is among the states of lower values or of later digits, so blocks are filled in this order.
        """
        states, costs = self.states, np.zeros(len(self.states.units))
        for digit in range(len(states.counts) - 1, -1, -1):
            stride, chosen = int(states.stride[digit]), self.with_item[digit]
            later = states.remaining(np.arange(stride), self.new.units[chosen], digit + 1)
            for value in range(1, int(states.counts[digit]) + 1):
                own = np.maximum(value - self.new.units[chosen, digit], 0) * stride
                ways = costs[later + own] + self.new.price[chosen]
                costs[value * stride : (value + 1) * stride] = ways.min(axis=1, initial=np.inf)
        return costs

    def _costs_with(self, patterns: _Patterns) -> Floats:
        """Return S costs, $/hour, when one more existing node takes a pattern of its own, or nothing."""
        before = self.costs[-1]
        remaining = self.states.remaining(np.arange(len(before)), patterns.units)
        return np.asarray(np.minimum(before, before[remaining].min(axis=1, initial=np.inf)))

    def whole_costs(self) -> Floats:
        """Return S costs, $/hour, with all existing nodes; `solve` needs it for one state only."""
        return self._costs_with(self.existing[-1]) if self.existing else self.costs[0]

    def packing(self, rows: list[int], state: int) -> Packing | None:
        """Follow the cheapest choices from a state down to none; None if there are none at a finite cost.

        rows: the existing nodes' numbers.
        """
        packed = list[Bin]()
        for place in range(len(self.existing) - 1, -1, -1):
            patterns, costs = self.existing[place], self.costs[place]
            remaining = np.append(self.states.remaining(np.array([state]), patterns.units)[0], state)
            after = int(remaining[np.argmin(costs[remaining])])
            if after != state:
                packed.append(Bin(existing=True, number=rows[place], units=self._taken(state, after)))
            state = after
        if not np.isfinite(self.costs[0][state]):
            return None
        while state:
            chosen = self.with_item[int(np.flatnonzero(self.states.units[state])[0])]
            remaining = self.states.remaining(np.array([state]), self.new.units[chosen])[0]
            best = int(np.argmin(self.costs[0][remaining] + self.new.price[chosen]))
            after, number = int(remaining[best]), int(self.new.bins[chosen[best]])
            packed.append(Bin(existing=False, number=number, units=self._taken(state, after)))
            state = after
        return Packing(packed, np.zeros(len(self.states.order)))

    def _taken(self, state: int, after: int) -> Floats:
        """Return D: units placed on the way from a state to the next, by item type."""
        taken = np.zeros(len(self.states.order))
        taken[self.states.order] = self.states.units[state] - self.states.units[after]
        return taken
