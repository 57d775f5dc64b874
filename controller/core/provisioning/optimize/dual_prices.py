"""Dual prices: what a unit of each item type is worth, and what a unit of each resource costs in a bin.

They come from the linear program over what is still to be placed (`covering`), with the bin types close to being used.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem, LPEstimate
from controller.core.provisioning.optimize.covering import ROUNDS, Cover, Covering, Limit, cover
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

NEAR = 60
"""Offers that are looked at between two optima."""
EACH = 4
"""At least this many of them for each item type."""
MANY = 150
"""With more item types than this, similar ones are merged in the linear program."""
GRAIN = 0.05
"""Similar: each resource's share of the unit's size is equal when rounded to this."""
FREE = 1e-6
"""$/hour that all units together are worth at least on free room of existing nodes."""
HASTE = 3
"""Rounds of taking in bins, with more item types than `MANY` and a start from an earlier optimum."""
PRESSING = 40
"""The most host rules that are columns of the linear program."""


class Prices:
    """The linear program's optimum for some counts: worth per item type, and resource prices for any bin.

    `shortlist` are the bin types whose best filling comes closest to being worth their cost.
    """

    def __init__(
        self, problem: BinPackingProblem, counts: Floats, lefts: list[float], *, existing: bool, work: WorkBudget
    ) -> None:
        self.problem = problem
        self.counts = counts.copy()
        self.lefts = list(lefts)
        self.work = work
        self.groups = problem.existing_groups() if existing else []
        self.group_of = {int(row): number for number, rows in enumerate(self.groups) for row in rows}
        columns = np.arange(problem.dense)
        if not problem.lp_estimates:
            problem.lp_estimates.append(LPEstimate(float(self._solve(columns).nodes.sum()), problem.size(self.counts)))
        lp_estimates = self._find_binding_rules(
            problem.lp_estimates[-1 if problem.size(self.counts) <= problem.lp_estimates[-1].size else 0]
        )
        columns = np.concatenate([columns, lp_estimates])
        found = self._solve(columns)
        if len(problem.lp_estimates) == 1:
            problem.lp_bound = found.price
        problem.lp_estimates[1:] = [LPEstimate(float(found.nodes.sum()), problem.size(self.counts), lp_estimates)]
        self.found: Cover = found
        self.nodes = max(1.0, float(found.nodes.sum()))
        self.table: Floats = np.zeros((len(found.bins), problem.requests.shape[1]))
        self.table[:, columns] = found.resource_prices
        self.worth: Floats = found.worth
        self.worth_in_gaps: Floats = np.maximum(
            found.worth, FREE * (problem.requests[:, : problem.dense] @ problem.inverse_sum)
        )
        """D: the same on existing rows, where every unit is worth something."""
        self.spared: Floats = np.minimum(np.floor(found.unplaced + 1e-6), self.counts)
        """D: units that the program leaves out for limits; set aside, so that more of the others are placed."""
        self.cost: Floats = problem.price.copy()
        for limit, dual in zip(problem.limits, found.limit_prices.tolist(), strict=True):
            self.cost += limit.takes * dual
        self.shortlist, self.bin_type_prices, self.reach = self._near()

    def _find_binding_rules(self, last: LPEstimate) -> Ints:
        """Columns of host rules that need more nodes than the estimate has, or were columns last time."""
        problem = self.problem
        if not problem.requests.shape[1] > problem.dense or not len(problem.capacity):
            return np.zeros(0, dtype=np.int64)
        nodes = last.nodes * problem.size(self.counts) / max(1e-12, last.size)
        takes = self.counts @ problem.requests[:, problem.dense :]
        pressure = takes / np.maximum(problem.capacity[0, problem.dense :], 1.0)
        pressure[last.columns - problem.dense] += nodes * (takes[last.columns - problem.dense] > 0)
        order = np.argsort(-pressure, kind="stable")[:PRESSING]
        return problem.dense + np.sort(order[pressure[order] > 0.8 * nodes])

    def _solve(self, columns: Ints) -> Cover:
        problem, groups = self.problem, self.groups
        first = len(groups)
        shorter = problem.shortlist
        capacity, allowed, price = problem.capacity[shorter], problem.allowed[shorter], problem.price[shorter]
        if first:
            room = np.stack([problem.room[rows].sum(axis=0) for rows in groups])
            open_to = np.stack([problem.open_to[rows].any(axis=0) for rows in groups])
            capacity, allowed = np.concatenate([room, capacity]), np.concatenate([open_to, allowed])
        ceiling = np.concatenate([np.ones(first), np.full(len(price), np.inf)])
        limits = tuple(
            Limit(np.concatenate([np.zeros(first), limit.takes[shorter]]), left)
            for limit, left in zip(problem.limits, self.lefts, strict=True)
        )
        requests, counts, open_bins, member = self._bundled(problem.requests[:, columns], allowed)
        program = Covering(
            requests, counts, capacity[:, columns], np.concatenate([np.zeros(first), price]), ceiling, open_bins, limits
        )
        start = None if problem.start is None or first else problem.start
        found = cover(program, HASTE if member is not None and start is not None else ROUNDS, start)
        if not first:
            problem.start = found.bins[found.nodes > 1e-9]
        self.work.solved(found.amounts.size, int(np.count_nonzero(counts)) * len(columns))
        if member is None:
            return found
        needed = problem.requests[:, columns] @ found.resource_prices.T
        worth = np.where(allowed[found.bins].T, needed, np.inf).min(axis=1, initial=np.inf)
        worth = np.where(np.isfinite(worth), worth, 0.0)
        worth = np.where((worth <= 0) & (self.counts > 0), found.worth[member] * 1e-3, worth)
        return replace(found, worth=worth, unplaced=self._unbundled(found.unplaced, member))

    def _unbundled(self, unplaced: Floats, member: Ints) -> Floats:
        """D: units left out, from those of merged items: the largest of each are left out first."""
        size = self.problem.requests[:, : self.problem.dense] @ self.problem.inverse_sum
        rest, found = unplaced.copy(), np.zeros(len(self.counts))
        if unplaced.any():
            for item_type in np.argsort(-size, kind="stable").tolist():
                found[item_type] = min(rest[member[item_type]], self.counts[item_type])
                rest[member[item_type]] -= found[item_type]
        return found

    def _bundled(self, requests: Floats, allowed: Bools) -> tuple[Floats, Floats, Bools, Ints | None]:
        """Merge many item types for the linear program: similar ones that the same bins let in become one item."""
        active = np.flatnonzero(self.counts > 0)
        if len(active) <= MANY:
            return requests, self.counts, allowed, None
        scale = requests.max(axis=0)
        direction = requests[:, : self.problem.dense] / np.maximum(scale[: self.problem.dense], 1e-9)
        direction = np.round(direction / np.maximum(direction.sum(axis=1, keepdims=True), 1e-12) / GRAIN)
        keys = np.concatenate([direction, self.problem.kinds[:, None]], axis=1)[active]
        _, code = np.unique(keys, axis=0, return_inverse=True)
        code = code.reshape(-1).astype(np.int64)
        total = int(code.max()) + 1
        summed = np.zeros((total, requests.shape[1]))
        np.add.at(summed, code, requests[active] * self.counts[active, None])
        both = np.ones((total, len(allowed)), dtype=np.bool_)
        np.logical_and.at(both, code, allowed[:, active].T)
        units: Floats = np.bincount(code, weights=self.counts[active]).astype(np.float64)
        member = np.zeros(len(self.counts), dtype=np.int64)
        member[active] = code
        return summed / units[:, None], units, np.ascontiguousarray(both.T), member

    def _near(self) -> tuple[Ints, Floats, Floats]:
        """The shortlist, resource prices (W) for each of it, and an upper bound on the worth each can hold."""
        problem, shorter = self.problem, self.problem.shortlist
        active = np.flatnonzero(self.counts > 0)
        worth = self.worth[active]
        allowed = problem.allowed[np.ix_(shorter, active)]
        table = self._distinct()
        if not len(table) or not len(shorter):
            return shorter, np.ones((len(shorter), problem.requests.shape[1])), np.ones(len(shorter))
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(worth[:, None] > 1e-12, worth[:, None] / (problem.requests[active] @ table.T), 0.0)
        reach = np.full(len(shorter), np.inf)
        which = np.zeros(len(shorter), dtype=np.int64)
        worth_of = table @ problem.capacity[shorter].T
        for k in range(len(table)):
            scale = np.where(allowed, needed[:, k], 0.0).max(axis=1, initial=0.0)
            with np.errstate(invalid="ignore"):
                here = np.nan_to_num(scale * worth_of[k], nan=np.inf)
            which[here < reach] = k
            reach = np.minimum(reach, here)
        ratio = reach / self.cost[shorter]
        near = np.where(allowed, ratio[:, None], -1.0)
        best = np.argsort(-near, axis=0, kind="stable")[:EACH]
        own = np.unique(best[np.take_along_axis(near, best, axis=0) > 0])
        order = np.union1d(np.argsort(-ratio, kind="stable")[:NEAR], own)
        order = order[np.argsort(-ratio[order], kind="stable")]
        return shorter[order], table[which[order]], reach[order]

    def _distinct(self) -> Floats:
        """The distinct rows of resource prices."""
        most = self.problem.capacity.max(axis=0, initial=0.0)
        first = np.unique(np.round(self.table * most, 7), axis=0, return_index=True)[1]
        return self.table[np.sort(first)]

    def of_bin_type(self, number: int) -> Floats:
        """Resource prices (1 x W) on a bin type, of the shortlist or not."""
        where = np.flatnonzero(self.shortlist == number)
        return self.bin_type_prices[where[:1]] if len(where) else self.bin_type_prices[:1]

    def of_existing(self, row: int) -> Floats:
        """Resource prices (1 x W) on an existing row."""
        where = np.flatnonzero(self.found.bins == self.group_of.get(row, -1))
        if not len(where):
            return np.ones((1, self.problem.requests.shape[1]))
        return self.table[where]

    def existing_plan(self) -> dict[int, Floats]:
        """Per existing row, how many units (D) the optimum puts on it and those like it, shared by all of them."""
        found: dict[int, Floats] = {}
        if len(self.found.amounts) != len(self.counts):
            return found
        for place, number in enumerate(self.found.bins.tolist()):
            if number < len(self.groups):
                most = np.ceil(self.found.amounts[:, place] - 1e-6)
                found.update(dict.fromkeys(self.groups[number].tolist(), most))
        return found
