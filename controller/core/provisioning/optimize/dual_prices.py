"""Dual prices: the worth of a unit of each item type, and the price of a unit of each resource in a bin.

They are the duals of the linear program (`covering`) over the units still to be placed, with resource prices for the
bin types that come closest to being used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem, LPEstimate
from controller.core.provisioning.optimize.covering import ROUNDS, Cover, Covering, Limit, cover, worth_bounds
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

NEAR = 60
"""The most bin types on the shortlist of one optimum, beside those for each item type."""
EACH = 4
"""At least this many of them for each item type."""
MANY = 150
"""With more item types than this, similar ones are merged in the linear program."""
GRAIN = 0.05
"""Item types are similar if each resource's share of a unit's size is equal when rounded to this."""
FREE = 1e-6
"""$/hour that all units together are worth at least on free room of existing nodes."""
MERGED_ROUNDS = 3
"""Rounds of column generation where item types are merged and an earlier optimum gives the first columns."""
MOST_HOST_RULES = 40
"""Host rules that are columns of the linear program at most."""
BINDING = 0.8
"""A host rule is a column if its units need more than this part of the nodes that the program is expected to use."""
MOST_EQUAL_UNITS = 20_000
"""Of more equal units the remainder in the last bin is too little to matter: their bound is linear."""
PARTS = 1e-6
"""Parts of a unit that count as one more, so that rounding never makes the bound too high."""


NO_ROWS: Final[Ints] = np.zeros(0, dtype=np.int64)


class Prices:
    """The linear program's optimum for `counts` (D units), as prices.

    worth: D, $/hour of one more unit. worth_in_gaps: D, the same on existing nodes, where every unit is worth
    something. spared: D, units that the program leaves out because of limits; to be set aside, so that more of the
    others are placed. cost: B, $/hour of a bin type with what it takes of limits. nodes: nodes of the optimum.
    shortlist: K bin types whose best filling comes closest to being worth their cost, nearest first;
    bin_type_prices: K x W, $/hour of a unit of resource there; reach: K, a bound on the worth ($/hour) that each holds.
    """

    def __init__(
        self, problem: BinPackingProblem, counts: Floats, lefts: list[float], work: WorkBudget, existing: Ints = NO_ROWS
    ) -> None:
        """lefts: what is left of each limit. existing: rows of the existing nodes that take units, too."""
        self.problem = problem
        self.counts = counts.copy()
        self.lefts = list(lefts)
        self.work = work
        self.groups = problem.existing_groups(existing) if len(existing) else []
        self.group_of = {int(row): number for number, rows in enumerate(self.groups) for row in rows}
        self.optimum, columns = self._optimum()
        optimum = self.optimum
        self.nodes = max(1.0, float(optimum.nodes.sum()))
        self.table: Floats = np.zeros((len(optimum.bins), problem.requests.shape[1]))
        """Resource prices of each bin of the optimum (over W columns)."""
        self.table[:, columns] = optimum.resource_prices
        self.worth: Floats = optimum.worth
        self.worth_in_gaps: Floats = np.maximum(optimum.worth, FREE * problem.sizes)
        self.spared: Floats = np.minimum(np.floor(optimum.unplaced + 1e-6), self.counts)
        self.cost: Floats = problem.price.copy()
        for limit, dual in zip(problem.limits, optimum.limit_prices.tolist(), strict=True):
            self.cost += limit.takes * dual
        self.shortlist, self.bin_type_prices, self.reach = self._near()

    def _optimum(self) -> tuple[Cover, Ints]:
        """Solve the program over resources and the host rules expected to bind; the optimum and its columns.

        The expectation comes from an earlier optimum of the same problem, the first time from one without host rules.
        """
        problem, estimates = self.problem, self.problem.lp_estimates
        size = problem.size(self.counts)
        resources = np.arange(problem.dense)
        if not estimates:
            estimates.append(LPEstimate(float(self._solve(resources).nodes.sum()), size))
        rules = self._binding_rules(estimates[-1 if size <= estimates[-1].size else 0])
        columns = np.concatenate([resources, rules])
        optimum = self._solve(columns)
        if len(estimates) == 1:
            problem.lp_bound = max(optimum.price, uniform_bound(problem))
        estimates[1:] = [LPEstimate(float(optimum.nodes.sum()), size, rules)]
        return optimum, columns

    def _binding_rules(self, last: LPEstimate) -> Ints:
        """Return the columns of host rules that need most of the expected nodes, or were columns last time."""
        problem = self.problem
        if not problem.requests.shape[1] > problem.dense or not len(problem.capacity):
            return np.zeros(0, dtype=np.int64)
        nodes = last.nodes * problem.size(self.counts) / max(1e-12, last.size)
        needed = problem.nodes_by_host_rule(self.counts)
        before = last.columns - problem.dense
        needed[before] += nodes * (needed[before] > 0)
        order = np.argsort(-needed, kind="stable")[:MOST_HOST_RULES]
        return problem.dense + np.sort(order[needed[order] > BINDING * nodes])

    def _solve(self, columns: Ints) -> Cover:
        """Solve the program over these columns: groups of existing nodes (one bin each), then the shortlist."""
        problem, groups = self.problem, self.groups
        first = len(groups)
        shorter = problem.shortlist
        capacity, allowed, price = problem.capacity[shorter], problem.allowed[shorter], problem.price[shorter]
        if first:
            room = np.stack([problem.room[rows].sum(axis=0) for rows in groups])
            open_to = np.stack([problem.open_to[rows].any(axis=0) for rows in groups])
            capacity, allowed = np.concatenate([room, capacity]), np.concatenate([open_to, allowed])
        requests, counts, open_bins, merged = self._merged(problem.requests[:, columns], allowed)
        program = Covering(
            requests=requests,
            counts=counts,
            capacity=capacity[:, columns],
            price=np.concatenate([np.zeros(first), price]),
            ceiling=np.concatenate([np.ones(first), np.full(len(price), np.inf)]),
            allowed=open_bins,
            limits=tuple(
                Limit(np.concatenate([np.zeros(first), limit.takes[shorter]]), left)
                for limit, left in zip(problem.limits, self.lefts, strict=True)
            ),
        )
        start = None if first else problem.start
        optimum = cover(program, MERGED_ROUNDS if merged is not None and start is not None else ROUNDS, start)
        if not first:
            problem.start = optimum.bins[optimum.nodes > 1e-9]
        self.work.solved(optimum.amounts.size, int(np.count_nonzero(counts)) * len(columns))
        if merged is None:
            return optimum

        # Worth of each item type: what its request costs in the cheapest bin of the program that lets it in.
        cost = problem.requests[:, columns] @ optimum.resource_prices.T
        worth = np.where(allowed[optimum.bins].T, cost, np.inf).min(axis=1, initial=np.inf)
        worth = np.where(np.isfinite(worth), worth, 0.0)
        worth = np.where((worth <= 0) & (self.counts > 0), optimum.worth[merged] * 1e-3, worth)
        return replace(optimum, worth=worth, unplaced=self._split(optimum.unplaced, merged))

    def _split(self, unplaced: Floats, merged: Ints) -> Floats:
        """Return D: units left out, from those of merged items; of each the largest units are left out first."""
        rest, split = unplaced.copy(), np.zeros(len(self.counts))
        if unplaced.any():
            for item_type in np.argsort(-self.problem.sizes, kind="stable").tolist():
                split[item_type] = min(rest[merged[item_type]], self.counts[item_type])
                rest[merged[item_type]] -= split[item_type]
        return split

    def _merged(self, requests: Floats, allowed: Bools) -> tuple[Floats, Floats, Bools, Ints | None]:
        """Merge similar item types that the same bins let in, if there are many, so that the program stays small.

        requests: D x columns. allowed: bins x D. Returns the same for M merged items with their counts, and D numbers
        of the items that item types are merged into (None: nothing is merged). An item's request is the mean of its
        units.
        """
        active = np.flatnonzero(self.counts > 0)
        if len(active) <= MANY:
            return requests, self.counts, allowed, None
        scale = requests.max(axis=0)
        direction = requests[:, : self.problem.dense] / np.maximum(scale[: self.problem.dense], 1e-9)
        direction = np.round(direction / np.maximum(direction.sum(axis=1, keepdims=True), 1e-12) / GRAIN)
        keys = np.concatenate([direction, self.problem.kinds[:, None]], axis=1)[active]
        _, code = np.unique(keys, axis=0, return_inverse=True)
        code = code.reshape(-1).astype(np.int64)
        items = int(code.max()) + 1
        summed = np.zeros((items, requests.shape[1]))
        np.add.at(summed, code, requests[active] * self.counts[active, None])
        let_in = np.ones((items, len(allowed)), dtype=np.bool_)
        np.logical_and.at(let_in, code, allowed[:, active].T)
        units: Floats = np.bincount(code, weights=self.counts[active]).astype(np.float64)
        merged = np.zeros(len(self.counts), dtype=np.int64)
        merged[active] = code
        return summed / units[:, None], units, np.ascontiguousarray(let_in.T), merged

    def _near(self) -> tuple[Ints, Floats, Floats]:
        """Return the shortlist of this optimum, with resource prices and reach (see the class)."""
        problem, shorter = self.problem, self.problem.shortlist
        active = np.flatnonzero(self.counts > 0)
        allowed = problem.allowed[np.ix_(shorter, active)]
        table = self._distinct()
        if not len(table) or not len(shorter):
            return shorter, np.ones((len(shorter), problem.requests.shape[1])), np.ones(len(shorter))
        reach, which = worth_bounds(
            self.worth[active], problem.requests[active] @ table.T, problem.capacity[shorter] @ table.T, allowed
        )
        ratio = reach / self.cost[shorter]
        # Bin types by active item types: ratio, -1 where the type is not let in; `own`: the best for each item type.
        near = np.where(allowed, ratio[:, None], -1.0)
        best = np.argsort(-near, axis=0, kind="stable")[:EACH]
        own = np.unique(best[np.take_along_axis(near, best, axis=0) > 0])
        order = np.union1d(np.argsort(-ratio, kind="stable")[:NEAR], own)
        order = order[np.argsort(-ratio[order], kind="stable")]
        return shorter[order], table[which[order]], reach[order]

    def _distinct(self) -> Floats:
        """Return the distinct rows of resource prices."""
        most = self.problem.capacity.max(axis=0, initial=0.0)
        first = np.unique(np.round(self.table * most, 7), axis=0, return_index=True)[1]
        return self.table[np.sort(first)]

    def of_bin_type(self, number: int) -> Floats:
        """Return the resource prices (1 x W) in a bin type; those of the nearest one if it is not on the shortlist."""
        where = np.flatnonzero(self.shortlist == number)
        return self.bin_type_prices[where[:1]] if len(where) else self.bin_type_prices[:1]

    def of_existing(self, row: int) -> Floats:
        """Return the resource prices (1 x W) in an existing node; 1 each if the program had no bin for it."""
        where = np.flatnonzero(self.optimum.bins == self.group_of.get(row, -1))
        if not len(where):
            return np.ones((1, self.problem.requests.shape[1]))
        return self.table[where]

    def existing_plan(self) -> dict[int, Floats]:
        """Return for each existing node the units (D) that the optimum puts on its group;
        nodes of a group share one array."""
        plan: dict[int, Floats] = {}
        if len(self.optimum.amounts) != len(self.counts):
            return plan
        for place, number in enumerate(self.optimum.bins.tolist()):
            if number < len(self.groups):
                most = np.ceil(self.optimum.amounts[:, place] - 1e-6)
                plan.update(dict.fromkeys(self.groups[number].tolist(), most))
        return plan


def uniform_bound(problem: BinPackingProblem) -> float:
    """Return the $/hour that no packing of all units costs less than; 0 where the units are not all of one item type.

    The linear program lets bins be filled with parts of units. Of equal units a bin holds a known whole number, and
    what is left is the covering knapsack: choose bins that hold N units together, for least money.
    """
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
    held: Ints = np.floor((capacity[:, takes] / request[takes]).min(axis=1) + PARTS).astype(np.int64)
    return held


def _cheapest_cover(units: int, held: Ints, price: Floats) -> float:
    """Return the least price of bins, as many of each type as it takes, that hold so many units.
    held, price: by bin type."""
    sizes, of_size = np.unique(np.minimum(held, units), return_inverse=True)
    cheapest = np.full(len(sizes), np.inf)
    np.minimum.at(cheapest, of_size, price)
    if units > MOST_EQUAL_UNITS:
        return float(units * (cheapest / sizes).min())
    least = np.zeros(units + 1)
    for number in range(1, units + 1):
        least[number] = (cheapest + least[np.maximum(0, number - sizes)]).min()
    return float(least[units])
