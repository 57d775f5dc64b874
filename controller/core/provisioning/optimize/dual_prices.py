"""What units and resources are worth: the divisible optimum of what is still to be placed, and offers near to it."""

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
"""Of these for each unit at least so many."""
MANY = 150
"""With more units than this, those alike are taken together in the linear program."""
GRAIN = 0.05
"""How alike: the part of a unit's size that a resource makes up, to this."""
FREE = 1e-6
"""$/hour of all units together where free room would hold them: they are still worth placing there."""
HASTE = 3
"""With more units than `MANY`, bins are taken in so often only, once an optimum was found: others come next time."""
PRESSING = 40
"""Host rules that the linear program is told of."""


class Prices:
    """The divisible optimum of some counts: the worth of units, and for any offer the resource prices nearest to it.

    Only a shortlist of offers is looked at again and again: those that come near to being worth their price.
    """

    def __init__(
        self, stock: BinPackingProblem, counts: Floats, lefts: list[float], *, existing: bool, work: WorkBudget
    ) -> None:
        self.stock = stock
        self.counts = counts.copy()
        self.lefts = list(lefts)
        self.work = work
        self.groups = stock.existing_groups() if existing else []
        self.group_of = {int(row): number for number, rows in enumerate(self.groups) for row in rows}
        columns = np.arange(stock.dense)
        if not stock.pressing:
            stock.pressing.append(LPEstimate(float(self._solve(columns).nodes.sum()), stock.size(self.counts)))
        pressing = self._find_pressing(stock.pressing[-1 if stock.size(self.counts) <= stock.pressing[-1].size else 0])
        columns = np.concatenate([columns, pressing])
        found = self._solve(columns)
        if len(stock.pressing) == 1:
            stock.floor = found.price
        stock.pressing[1:] = [LPEstimate(float(found.nodes.sum()), stock.size(self.counts), pressing)]
        self.found: Cover = found
        self.nodes = max(1.0, float(found.nodes.sum()))
        self.table: Floats = np.zeros((len(found.bins), stock.requests.shape[1]))
        self.table[:, columns] = found.resource_prices
        self.worth: Floats = found.worth
        self.worth_in_gaps: Floats = np.maximum(
            found.worth, FREE * (stock.requests[:, : stock.dense] @ stock.inverse_sum)
        )
        """The same for free room on existing rows, where nothing is worth nothing."""
        self.spared: Floats = np.minimum(np.floor(found.unplaced + 1e-6), self.counts)
        """Units that the limits leave no place for: others get them, by which more are placed."""
        self.cost: Floats = stock.price.copy()
        for limit, dual in zip(stock.limits, found.limit_prices.tolist(), strict=True):
            self.cost += limit.takes * dual
        self.shortlist, self.offer_prices, self.reach = self._near()

    def _find_pressing(self, last: LPEstimate) -> Ints:
        """Host rules of which there is more to place than the nodes to come may take, and those that were such."""
        stock = self.stock
        if not stock.requests.shape[1] > stock.dense or not len(stock.capacity):
            return np.zeros(0, dtype=np.int64)
        nodes = last.nodes * stock.size(self.counts) / max(1e-12, last.size)
        takes = self.counts @ stock.requests[:, stock.dense :]
        pressure = takes / np.maximum(stock.capacity[0, stock.dense :], 1.0)
        pressure[last.columns - stock.dense] += nodes * (takes[last.columns - stock.dense] > 0)
        order = np.argsort(-pressure, kind="stable")[:PRESSING]
        return stock.dense + np.sort(order[pressure[order] > 0.8 * nodes])

    def _solve(self, columns: Ints) -> Cover:
        stock, groups = self.stock, self.groups
        first = len(groups)
        shorter = stock.shortlist
        capacity, allowed, price = stock.capacity[shorter], stock.allowed[shorter], stock.price[shorter]
        if first:
            room = np.stack([stock.room[rows].sum(axis=0) for rows in groups])
            open_to = np.stack([stock.open_to[rows].any(axis=0) for rows in groups])
            capacity, allowed = np.concatenate([room, capacity]), np.concatenate([open_to, allowed])
        ceiling = np.concatenate([np.ones(first), np.full(len(price), np.inf)])
        limits = tuple(
            Limit(np.concatenate([np.zeros(first), limit.takes[shorter]]), left)
            for limit, left in zip(stock.limits, self.lefts, strict=True)
        )
        requests, counts, open_bins, member = self._bundled(stock.requests[:, columns], allowed)
        problem = Covering(
            requests, counts, capacity[:, columns], np.concatenate([np.zeros(first), price]), ceiling, open_bins, limits
        )
        start = None if stock.start is None or first else stock.start
        found = cover(problem, HASTE if member is not None and start is not None else ROUNDS, start)
        if not first:
            stock.start = found.bins[found.nodes > 1e-9]
        self.work.solved(found.amounts.size, int(np.count_nonzero(counts)) * len(columns))
        if member is None:
            return found
        needed = stock.requests[:, columns] @ found.resource_prices.T
        worth = np.where(allowed[found.bins].T, needed, np.inf).min(axis=1, initial=np.inf)
        worth = np.where(np.isfinite(worth), worth, 0.0)
        worth = np.where((worth <= 0) & (self.counts > 0), found.worth[member] * 1e-3, worth)
        return replace(found, worth=worth, unplaced=self._unbundled(found.unplaced, member))

    def _unbundled(self, unplaced: Floats, member: Ints) -> Floats:
        """Units without a place by lot: of those taken together, the largest are the ones left out."""
        size = self.stock.requests[:, : self.stock.dense] @ self.stock.inverse_sum
        rest, found = unplaced.copy(), np.zeros(len(self.counts))
        if unplaced.any():
            for lot in np.argsort(-size, kind="stable").tolist():
                found[lot] = min(rest[member[lot]], self.counts[lot])
                rest[member[lot]] -= found[lot]
        return found

    def _bundled(self, requests: Floats, allowed: Bools) -> tuple[Floats, Floats, Bools, Ints | None]:
        """Items for the linear program: many lots of like direction that may go to the same bins become one."""
        active = np.flatnonzero(self.counts > 0)
        if len(active) <= MANY:
            return requests, self.counts, allowed, None
        scale = requests.max(axis=0)
        direction = requests[:, : self.stock.dense] / np.maximum(scale[: self.stock.dense], 1e-9)
        direction = np.round(direction / np.maximum(direction.sum(axis=1, keepdims=True), 1e-12) / GRAIN)
        keys = np.concatenate([direction, self.stock.kinds[:, None]], axis=1)[active]
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
        """The offers that come nearest to being worth their price, and resource prices (W) for each."""
        stock, shorter = self.stock, self.stock.shortlist
        active = np.flatnonzero(self.counts > 0)
        worth = self.worth[active]
        allowed = stock.allowed[np.ix_(shorter, active)]
        table = self._distinct()
        if not len(table) or not len(shorter):
            return shorter, np.ones((len(shorter), stock.requests.shape[1])), np.ones(len(shorter))
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(worth[:, None] > 1e-12, worth[:, None] / (stock.requests[active] @ table.T), 0.0)
        reach = np.full(len(shorter), np.inf)
        which = np.zeros(len(shorter), dtype=np.int64)
        worth_of = table @ stock.capacity[shorter].T
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
        """The resource prices, those of bins that charge alike once."""
        most = self.stock.capacity.max(axis=0, initial=0.0)
        first = np.unique(np.round(self.table * most, 7), axis=0, return_index=True)[1]
        return self.table[np.sort(first)]

    def of_offer(self, number: int) -> Floats:
        """Resource prices (1 x W) on an offer, of the shortlist or not."""
        where = np.flatnonzero(self.shortlist == number)
        return self.offer_prices[where[:1]] if len(where) else self.offer_prices[:1]

    def of_existing(self, row: int) -> Floats:
        """Resource prices (1 x W) on an existing row."""
        where = np.flatnonzero(self.found.bins == self.group_of.get(row, -1))
        if not len(where):
            return np.ones((1, self.stock.requests.shape[1]))
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
