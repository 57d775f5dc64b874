"""The least price at which bins can cover items, pods and nodes taken as divisible: a linear program with its duals.

Items are pods alike to every rule, bins are what they can go into: bin types (any number of them, at a price) and nodes
that exist (one each, free). The duals say what placing one more pod is worth, and what a unit of each resource is
worth in each bin.

Only few of the bins matter: the program starts with those that look best, and takes in more until the duals prove that
no other could help. Stopped early, or rounded badly, the duals still give a bound: they are scaled down until they are
feasible, and their objective is what is answered (weak duality).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram, LinearSolution
from controller.core.provisioning.resource_space import Bools, Floats, Ints

ROUNDS = 12
"""How often bins are taken in before the duals are taken as they are."""
TAKEN_IN = 8
"""Bins taken in at once."""
TOLERANCE = 1e-7


@dataclass(frozen=True, slots=True)
class Coupling:
    """A rule over domains of bins: how many pods of `items` each domain may get.

    domain: per bin, or -1. With `skew`: at most the least domain's count and `skew`, counting what stands (`standing`
    per domain). Without: at most `most` per domain.
    """

    items: Ints
    domain: Ints
    existing: Floats
    skew: float | None = None
    most: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True)
class Limit:
    """What all bins together may take of a Provisioner's limited resource."""

    takes: Floats
    left: float


@dataclass(frozen=True, slots=True)
class Covering:
    """D items and B bins over R resources (host rules are resources too).

    requests: D x R. counts: D. capacity: B x R. price: B. ceiling: B, how many there are. allowed: B x D.
    """

    requests: Floats
    counts: Floats
    capacity: Floats
    price: Floats
    ceiling: Floats
    allowed: Bools
    limits: tuple[Limit, ...] = ()
    couplings: tuple[Coupling, ...] = ()


@dataclass(frozen=True, slots=True)
class Cover:
    """An answer. price: $/hour, of `placed` pods. worth: D, $/hour of one more pod. bins: which were in the program.

    amounts: D x K pods in each of these bins; nodes: K; resource_prices: K x R, $/hour of a unit of a resource there.
    unplaced: D, pods for which the limits leave no place.
    """

    price: float
    worth: Floats
    bins: Ints
    amounts: Floats
    nodes: Floats
    resource_prices: Floats
    unplaced: Floats
    limit_prices: Floats


def cover(problem: Covering, rounds: int = ROUNDS, start: Ints | None = None) -> Cover:
    """The least price. Items that no bin takes count as unplaced. `start`: bins that are likely to matter."""
    return _Solver(problem).solve(rounds, start)


class _Solver:
    def __init__(self, problem: Covering) -> None:
        self.problem = problem
        self.reachable = problem.allowed.any(axis=0)
        self.items = np.flatnonzero(self.reachable & (problem.counts > 0))
        bits = np.packbits(problem.allowed[:, self.items], axis=1)
        _, first, kind = np.unique(bits, axis=0, return_index=True, return_inverse=True)
        self.kinds: Bools = problem.allowed[np.ix_(first, self.items)]
        self.kind_of: Ints = kind.reshape(-1)
        """Bins let in items in few ways: kinds x items, and the kind of each bin."""
        self.domain = _joint_domains(problem)
        priced = problem.price[np.isfinite(problem.price)]
        self.penalty = 100.0 * float(priced.max(initial=1.0))
        """Of a pod left out: dearer than any node, so that all that can be placed is."""
        self.chosen: list[int] = []
        self._known: set[int] = set()

    def _take_in(self, bins: Ints) -> None:
        for one in bins.tolist():
            if one not in self._known:
                self._known.add(one)
                self.chosen.append(one)

    def _start(self) -> None:
        """For each item the bin where its share costs least; for each domain of a coupling apart; and what is free."""
        problem = self.problem
        self._take_in(np.flatnonzero((problem.price <= 0) & problem.allowed.any(axis=1)))
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(problem.capacity > 0, 1.0 / problem.capacity, np.inf)
            shares = np.zeros((len(problem.price), len(self.items)))
            for column in range(problem.requests.shape[1]):
                asked = problem.requests[self.items, column]
                if asked.any():
                    part = np.where(asked > 0, inverse[:, column, None] * asked, 0.0)
                    np.maximum(shares, part, out=shares)
        with np.errstate(invalid="ignore"):
            scores = np.where(problem.allowed[:, self.items], shares * problem.price[:, None], np.inf)
        for domain in range(int(self.domain.max(initial=0)) + 1):
            rows = np.flatnonzero(self.domain == domain)
            if len(rows) and len(self.items):
                best = rows[np.argmin(scores[rows], axis=0)]
                self._take_in(np.unique(best[np.isfinite(scores[best, np.arange(len(self.items))])]))

    def solve(self, rounds: int, start: Ints | None) -> Cover:
        if not len(self.items):
            return self._nothing()
        if start is not None:
            self._take_in(start)
        if start is None or not self.problem.allowed[np.ix_(start, self.items)].any(axis=0).all():
            self._start()
        for _ in range(rounds):
            program = _Program(self.problem, self.items, np.array(sorted(self.chosen)), self.penalty, self.domain)
            answer = program.solve()
            ratio = self._ratios(answer)
            wanted = np.flatnonzero(ratio > 1.0 + TOLERANCE)
            wanted = wanted[[one not in self._known for one in wanted.tolist()]]
            if not len(wanted):
                break
            self._take_in(wanted[np.argsort(-ratio[wanted], kind="stable")[:TAKEN_IN]])
        return self._answer(answer, float(ratio.max(initial=1.0)))

    def _ratios(self, answer: _Answer) -> Floats:
        """Per bin, an upper bound on the worth of what it can hold, over what it costs.

        Resource prices of any bin in the program, scaled until they cover every item's worth, bound what this bin's
        capacity is worth.
        """
        problem = self.problem
        worth = answer.worth_at  # D x domains
        prices = answer.resource_prices
        reqw = problem.requests[self.items] @ prices.T
        cost = problem.price.copy()
        for limit, dual in zip(problem.limits, answer.limit_prices.tolist(), strict=True):
            cost += limit.takes * dual
        capw = problem.capacity @ prices.T
        best = np.full(len(cost), np.inf)
        for domain in range(worth.shape[1]):
            rows = np.flatnonzero(self.domain == domain)
            if not len(rows):
                continue
            value = worth[:, domain]
            with np.errstate(divide="ignore", invalid="ignore"):
                needs = np.where(value[:, None] > 1e-12, value[:, None] / reqw, 0.0)
            for k in range(prices.shape[0]):
                scale = np.where(self.kinds, needs[:, k], 0.0).max(axis=1, initial=0.0)[self.kind_of[rows]]
                with np.errstate(invalid="ignore"):
                    reach = scale * capw[rows, k]
                best[rows] = np.fmin(best[rows], np.where(np.isnan(reach), np.inf, reach))
        finite = np.isfinite(problem.ceiling)
        out = np.where(cost > 1e-12, best / np.maximum(cost, 1e-12), np.where(best > 1e-12, np.inf, 0.0))
        out[finite] = 0.0  # bins of which there are few are all in the program
        return np.asarray(out, dtype=np.float64)

    def _answer(self, answer: _Answer, ratio: float) -> Cover:
        count = len(self.problem.counts)
        worth, unplaced = np.zeros(count), self.problem.counts.copy()
        worth[self.items] = answer.worth
        unplaced[self.items] = answer.unplaced
        amounts = np.zeros((count, len(answer.bins)))
        amounts[self.items] = answer.amounts
        missed = float(answer.unplaced.sum())
        spent = sum(
            max(0.0, one.left) * dual for one, dual in zip(self.problem.limits, answer.limit_prices, strict=True)
        )
        price = (answer.objective + spent) / max(1.0, ratio) - spent - self.penalty * missed
        return Cover(
            max(0.0, price),
            worth,
            answer.bins,
            amounts,
            answer.nodes,
            answer.resource_prices,
            unplaced,
            answer.limit_prices,
        )

    def _nothing(self) -> Cover:
        counts, resources = self.problem.requests.shape
        return Cover(
            0.0,
            np.zeros(counts),
            np.zeros(0, dtype=np.int64),
            np.zeros((counts, 0)),
            np.zeros(0),
            np.zeros((0, resources)),
            self.problem.counts.copy(),
            np.zeros(len(self.problem.limits)),
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    objective: float
    bins: Ints
    worth: Floats
    worth_at: Floats
    amounts: Floats
    nodes: Floats
    resource_prices: Floats
    unplaced: Floats
    limit_prices: Floats


class _Program:
    """The linear program over some of the bins."""

    def __init__(self, problem: Covering, items: Ints, bins: Ints, penalty: float, domain: Ints) -> None:
        self.problem, self.items, self.bins, self.domain = problem, items, bins, domain
        self.lp = LinearProgram()
        self.nodes = self.lp.columns(problem.price[bins], problem.ceiling[bins])
        self.left = self.lp.columns(np.full(len(items), penalty), problem.counts[items])
        self.at, self.of = np.nonzero(problem.allowed[np.ix_(bins, items)])
        self.amounts = self.lp.columns(np.zeros(len(self.at)))
        counts = problem.counts[items]
        self.covering = self.lp.rows(counts, counts)
        self.lp.entries(self.covering[self.of], self.amounts, 1.0)
        self.lp.entries(self.covering, self.left, 1.0)
        self.capacity = self._capacity_rows()
        self.limits = self._limit_rows()
        self.couplings = self._coupling_rows()

    def _capacity_rows(self) -> Ints:
        """K x R rows; -1 where nothing in the bin asks for the resource."""
        problem = self.problem
        asked = problem.requests[self.items[self.of]]
        numbers = np.full((len(self.bins), problem.requests.shape[1]), -1, dtype=np.int64)
        for column in range(problem.requests.shape[1]):
            using = np.flatnonzero(asked[:, column] > 0)
            bins = np.unique(self.at[using])
            scale = np.maximum(problem.capacity[self.bins[bins], column], 1e-9)
            rows = self.lp.rows(np.full(len(bins), -INFINITY), np.zeros(len(bins)))
            numbers[bins, column] = rows
            self.lp.entries(rows, self.nodes[bins], np.where(problem.capacity[self.bins[bins], column] > 0, -1.0, 0.0))
            position = np.searchsorted(bins, self.at[using])
            self.lp.entries(rows[position], self.amounts[using], asked[using, column] / scale[position])
        return numbers

    def _limit_rows(self) -> Ints:
        numbers = []
        for limit in self.problem.limits:
            takes = limit.takes[self.bins]
            scale = max(1e-9, abs(limit.left), float(takes.max(initial=0.0)))
            row = self.lp.rows(np.array([-INFINITY]), np.array([max(0.0, limit.left) / scale]))
            used = np.flatnonzero(takes > 0)
            self.lp.entries(np.repeat(row, len(used)), self.nodes[used], takes[used] / scale)
            numbers.append(int(row[0]))
        return np.array(numbers, dtype=np.int64)

    def _coupling_rows(self) -> list[Ints]:
        """Rows of each coupling by domain."""
        problem = self.problem
        rows_of = []
        for coupling in problem.couplings:
            member = np.isin(self.items, coupling.items)
            domains = len(coupling.existing)
            domain = coupling.domain[self.bins][self.at]
            using = np.flatnonzero(member[self.of] & (domain >= 0))
            if coupling.skew is None:
                rows = self.lp.rows(np.full(domains, -INFINITY), coupling.most)
                self.lp.entries(rows[domain[using]], self.amounts[using], 1.0)
            else:
                slack = np.maximum(0.0, coupling.existing - coupling.existing.min() - coupling.skew)
                least = self.lp.columns(np.zeros(1))
                rows = self.lp.rows(np.full(domains, -INFINITY), coupling.skew - coupling.existing + slack)
                self.lp.entries(rows[domain[using]], self.amounts[using], 1.0)
                self.lp.entries(rows, np.repeat(least, domains), -1.0)
                floor = self.lp.rows(-coupling.existing, np.full(domains, INFINITY))
                self.lp.entries(floor[domain[using]], self.amounts[using], 1.0)
                self.lp.entries(floor, np.repeat(least, domains), -1.0)
                rows = np.stack([rows, floor])
            rows_of.append(np.atleast_2d(rows))
        return rows_of

    def solve(self) -> _Answer:
        solution: LinearSolution = self.lp.solve()
        problem, duals = self.problem, solution.duals
        amounts = np.zeros((len(self.items), len(self.bins)))
        amounts[self.of, self.at] = solution.values[self.amounts]
        prices = np.where(self.capacity >= 0, -duals[np.maximum(self.capacity, 0)], 0.0)
        prices = np.maximum(prices, 0.0) / np.maximum(problem.capacity[self.bins], 1e-9)
        worth = duals[self.covering]
        scale = np.array(
            [max(1e-9, abs(one.left), float(one.takes[self.bins].max(initial=0.0))) for one in problem.limits]
        )
        limits = np.maximum(0.0, -duals[self.limits]) / scale if len(problem.limits) else np.zeros(0)
        return _Answer(
            solution.objective,
            self.bins,
            worth,
            self._worth_at(worth, duals),
            amounts,
            solution.values[self.nodes],
            np.asarray(prices),
            solution.values[self.left],
            limits,
        )

    def _worth_at(self, worth: Floats, duals: Floats) -> Floats:
        """items x tuples of domains: what an item is worth there, its couplings' duals counted."""
        count = int(self.domain.max(initial=0)) + 1
        table = np.repeat(worth[:, None], count, axis=1)
        for coupling, rows in zip(self.problem.couplings, self.couplings, strict=True):
            member = np.isin(self.items, coupling.items)
            for number in range(count):
                where = int(np.flatnonzero(self.domain == number)[0])
                domain = int(coupling.domain[where])
                if domain >= 0:
                    table[member, number] += float(duals[rows[:, domain]].sum())
        return table


def _joint_domains(problem: Covering) -> Ints:
    """Per bin, a number for its domains in all the couplings together."""
    distinct = {coupling.domain.tobytes(): coupling.domain for coupling in problem.couplings}
    if not distinct:
        return np.zeros(len(problem.price), dtype=np.int64)
    return np.unique(np.stack(list(distinct.values()), axis=1), axis=0, return_inverse=True)[1].reshape(-1)
