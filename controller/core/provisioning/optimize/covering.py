"""The covering linear program: the least price at which bins cover items, both taken as divisible; with its duals.

Items are pods that every rule treats alike. Bins are what they can go into: bin types (any number of them, at a price)
and existing nodes (a given number, free). The duals are the worth of one more pod of an item, and the price of a unit
of each resource in each bin.

Columns are generated: the program starts with the bins that look best, and takes in more until the duals prove that no
other bin could help. If that ends early, or the solver rounds badly, the duals are scaled down until they are feasible:
by weak duality their objective is a lower bound all the same, and it is the price that is answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram
from controller.core.provisioning.resource_space import Bools, Floats, Ints

ROUNDS = 12
"""Rounds of column generation at most."""
TAKEN_IN = 8
"""Bins taken in per round."""
TOLERANCE = 1e-7
"""Part of its cost by which the worth of a bin's content must exceed it for the bin to be taken in."""
NO_WORTH = 1e-12
"""$/hour up to which worth and cost count as zero."""
TINY = 1e-9
"""Least divisor of capacities and limits."""


@dataclass(frozen=True, slots=True)
class Coupling:
    """A rule over topology domains: how many pods of `items` each domain may get.

    domain: the domain of each bin, or -1. existing: running pods per domain. With `skew` (topology spread): at most the
    least domain's count plus `skew`, running pods counted. Without (anti-affinity): at most `most` per domain.
    """

    items: Ints
    domain: Ints
    existing: Floats
    skew: float | None = None
    most: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True)
class Limit:
    """A Provisioner's limit on one resource. takes: B, what a bin takes of it. left: what all bins may take."""

    takes: Floats
    left: float


@dataclass(frozen=True, slots=True)
class Covering:
    """D items and B bins over W resources (host rules are resources too).

    requests: D x W. counts: D pods. capacity: B x W. price: B, $/hour. ceiling: B, how many there are. allowed: B x D.
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
    """An optimum over K of the bins. price: $/hour of the pods placed.

    Primal: bins, the numbers of the K bins; nodes: K, how many of each; amounts: D x K pods in them; unplaced: D, pods
    for which no bin or limit leaves room. Duals, $/hour: worth: D, of one more pod; resource_prices: K x W, of a unit
    of a resource; limit_prices: of a unit of each limit.
    """

    price: float
    bins: Ints
    nodes: Floats
    amounts: Floats
    unplaced: Floats
    worth: Floats
    resource_prices: Floats
    limit_prices: Floats


def cover(problem: Covering, rounds: int = ROUNDS, start: Ints | None = None) -> Cover:
    """Solve the program. Items that no bin takes count as unplaced. `start`: bins that are likely to matter."""
    return _ColumnGeneration(problem).solve(rounds, start)


def largest_shares(requests: Floats, capacity: Floats) -> Floats:
    """Return B x D: the largest share of any resource of a bin (capacity B x W) that a unit (requests D x W) takes."""
    shares = np.zeros((len(capacity), len(requests)))
    with np.errstate(divide="ignore"):
        inverse = np.where(capacity > 0, 1.0 / capacity, np.inf)
    for column in np.flatnonzero((requests > 0).any(axis=0)).tolist():
        asking = np.flatnonzero(requests[:, column] > 0)
        part = inverse[:, column, None] * requests[asking, column]
        shares[:, asking] = np.maximum(shares[:, asking], part)
    return shares


def worth_bounds(
    worth: Floats, asked: Floats, held: Floats, kinds: Bools, kind_of: Ints | None = None
) -> tuple[Floats, Ints]:
    """Bound the worth of what each of B bins can hold; return the bounds, and of P vectors of prices the one used.

    A vector of prices, scaled until every item that the bin lets in costs at least its worth, bounds the bin's content
    by what its capacity costs.

    worth: D, $/hour of a unit. asked: D x P, $/hour of a unit's request at each vector's prices. held: B x P, $/hour of
    the bin's capacity. kinds: ways of letting items in (x D), and kind_of: the way of each bin (None: its own).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = np.where(worth[:, None] > NO_WORTH, worth[:, None] / asked, 0.0)
    bounds: Floats = np.full(len(held), np.inf)
    which = np.zeros(len(held), dtype=np.int64)
    for vector in range(held.shape[1]):
        scale = np.where(kinds, scales[:, vector], 0.0).max(axis=1, initial=0.0)
        with np.errstate(invalid="ignore"):
            bound = (scale if kind_of is None else scale[kind_of]) * held[:, vector]
            lower = bound < bounds
        which[lower] = vector
        bounds[lower] = bound[lower]
    return bounds, which


class _ColumnGeneration:
    """Solves the program over few bins, and takes in more of them by their reduced costs.

    items: places of the items that are wanted and have a bin. kinds: bins let items in in few ways: kinds x items, and
    kind_of: B, the kind of each bin. domain: B, a number for the bin's domains in all couplings together.
    """

    def __init__(self, problem: Covering) -> None:
        self.problem = problem
        self.items = np.flatnonzero(problem.allowed.any(axis=0) & (problem.counts > 0))
        bits = np.packbits(problem.allowed[:, self.items], axis=1)
        _, first, kind = np.unique(bits, axis=0, return_index=True, return_inverse=True)
        self.kinds: Bools = problem.allowed[np.ix_(first, self.items)]
        self.kind_of: Ints = kind.reshape(-1)
        self.domain = _joint_domains(problem)
        priced = problem.price[np.isfinite(problem.price)]
        self.penalty = 100.0 * float(priced.max(initial=1.0))
        """$/hour of a pod left out: more than any bin costs, so that all that can be placed is."""
        self.chosen: set[int] = set()

    def solve(self, rounds: int, start: Ints | None) -> Cover:
        """Generate columns for at most so many rounds."""
        problem = self.problem
        if not len(self.items):
            return Cover(
                price=0.0,
                bins=np.zeros(0, dtype=np.int64),
                nodes=np.zeros(0),
                amounts=np.zeros((len(problem.counts), 0)),
                unplaced=problem.counts.copy(),
                worth=np.zeros(len(problem.counts)),
                resource_prices=np.zeros((0, problem.requests.shape[1])),
                limit_prices=np.zeros(len(problem.limits)),
            )
        if start is not None:
            self.chosen.update(start.tolist())
        if start is None or not problem.allowed[np.ix_(start, self.items)].any(axis=0).all():
            self._start()
        for _ in range(rounds):
            program = _Program(problem, self.items, np.array(sorted(self.chosen)), self.penalty, self.domain)
            optimum, worth_at = program.solve()
            ratio = self._ratios(optimum, worth_at)
            ratio_outside = np.where(np.isin(np.arange(len(ratio)), optimum.bins), 0.0, ratio)
            wanted = np.flatnonzero(ratio_outside > 1.0 + TOLERANCE)
            if not len(wanted):
                break
            self.chosen.update(wanted[np.argsort(-ratio[wanted], kind="stable")[:TAKEN_IN]].tolist())
        return self._feasible(optimum, float(ratio.max(initial=1.0)))

    def _start(self) -> None:
        """Choose free bins, and for each item the bin where its share costs least, in every joint domain."""
        problem = self.problem
        self.chosen.update(np.flatnonzero((problem.price <= 0) & problem.allowed.any(axis=1)).tolist())
        shares = largest_shares(problem.requests[self.items], problem.capacity)
        with np.errstate(invalid="ignore"):
            costs = np.where(problem.allowed[:, self.items], shares * problem.price[:, None], np.inf)
        for domain in range(int(self.domain.max(initial=0)) + 1):
            rows = np.flatnonzero(self.domain == domain)
            if len(rows):
                best = rows[np.argmin(costs[rows], axis=0)]
                self.chosen.update(best[np.isfinite(costs[best, np.arange(len(self.items))])].tolist())

    def _ratios(self, optimum: Cover, worth_at: Floats) -> Floats:
        """Return B: a bound on the worth of what a bin can hold, over its cost, limits counted.

        0 for bins of which there are few: they are all in the program. worth_at: items x joint domains, $/hour.
        """
        problem, prices = self.problem, optimum.resource_prices
        asked, held = problem.requests[self.items] @ prices.T, problem.capacity @ prices.T
        cost = problem.price.copy()
        for limit, dual in zip(problem.limits, optimum.limit_prices.tolist(), strict=True):
            cost += limit.takes * dual
        worth = np.full(len(cost), np.inf)
        for domain in range(worth_at.shape[1]):
            rows = np.flatnonzero(self.domain == domain)
            worth[rows] = worth_bounds(worth_at[:, domain], asked, held[rows], self.kinds, self.kind_of[rows])[0]
        free_ratio = np.where(worth > NO_WORTH, np.inf, 0.0)
        ratio = np.where(cost > NO_WORTH, worth / np.maximum(cost, NO_WORTH), free_ratio)
        return np.asarray(np.where(np.isfinite(problem.ceiling), 0.0, ratio), dtype=np.float64)

    def _feasible(self, optimum: Cover, ratio: float) -> Cover:
        """Scale the objective down to that of feasible duals, none of whose reduced costs is negative."""
        spent = sum(
            max(0.0, limit.left) * dual for limit, dual in zip(self.problem.limits, optimum.limit_prices, strict=True)
        )
        price = (optimum.price + spent) / max(1.0, ratio) - spent - self.penalty * float(optimum.unplaced.sum())
        return self._over_all_items(replace(optimum, price=max(0.0, price)))

    def _over_all_items(self, optimum: Cover) -> Cover:
        """Return the optimum with arrays over all D items; those without a bin are unplaced."""
        count = len(self.problem.counts)
        worth, unplaced, amounts = np.zeros(count), self.problem.counts.copy(), np.zeros((count, len(optimum.bins)))
        worth[self.items], unplaced[self.items], amounts[self.items] = optimum.worth, optimum.unplaced, optimum.amounts
        return replace(optimum, worth=worth, unplaced=unplaced, amounts=amounts)


class _Program:
    """The linear program over D items and K of the bins.

    Columns: nodes (K), pods left out (D), and amounts: pods of an item in a bin, one column per pair that is allowed,
    P in all. at, of: P, the place of the pair's bin and item. Rows: covering (D), capacity (per bin and resource),
    limits, couplings (per domain). Rows are scaled by their capacity or limit, as HiGHS needs numbers of like size.
    """

    def __init__(self, problem: Covering, items: Ints, bins: Ints, penalty: float, domain: Ints) -> None:
        self.problem, self.items, self.bins, self.domain = problem, items, bins, domain
        counts = problem.counts[items]
        self.lp = LinearProgram()
        self.nodes = self.lp.columns(problem.price[bins], problem.ceiling[bins])
        self.left = self.lp.columns(np.full(len(items), penalty), counts)
        self.at, self.of = np.nonzero(problem.allowed[np.ix_(bins, items)])
        self.amounts = self.lp.columns(np.zeros(len(self.at)))
        self.covering = self.lp.rows(counts, counts)
        self.lp.entries(self.covering[self.of], self.amounts, 1.0)
        self.lp.entries(self.covering, self.left, 1.0)
        self.capacity = self._add_capacities()
        self.limit_scales = np.array(
            [max(TINY, abs(limit.left), float(limit.takes[bins].max(initial=0.0))) for limit in problem.limits]
        )
        self.limits = self._add_limits()
        self.couplings = [self._add_coupling(coupling) for coupling in problem.couplings]

    def _add_capacities(self) -> Ints:
        """Add rows "requests of the pods in the bins <= capacity of the nodes";
        K x W numbers, -1 where nothing is asked."""
        problem = self.problem
        asked = problem.requests[self.items[self.of]]
        numbers = np.full((len(self.bins), problem.requests.shape[1]), -1, dtype=np.int64)
        for column in range(problem.requests.shape[1]):
            using = np.flatnonzero(asked[:, column] > 0)
            bins = np.unique(self.at[using])
            capacity = problem.capacity[self.bins[bins], column]
            scale = np.maximum(capacity, TINY)
            rows = self.lp.rows(np.full(len(bins), -INFINITY), np.zeros(len(bins)))
            numbers[bins, column] = rows
            self.lp.entries(rows, self.nodes[bins], np.where(capacity > 0, -1.0, 0.0))
            position = np.searchsorted(bins, self.at[using])
            self.lp.entries(rows[position], self.amounts[using], asked[using, column] / scale[position])
        return numbers

    def _add_limits(self) -> Ints:
        """Add a row per limit: "what the nodes take <= what is left"."""
        left = np.array([max(0.0, limit.left) for limit in self.problem.limits])
        rows = self.lp.rows(np.full(len(left), -INFINITY), left / self.limit_scales)
        for row, limit, scale in zip(rows, self.problem.limits, self.limit_scales, strict=True):
            takes = limit.takes[self.bins]
            used = np.flatnonzero(takes > 0)
            self.lp.entries(np.repeat(row, len(used)), self.nodes[used], takes[used] / scale)
        return rows

    def _add_coupling(self, coupling: Coupling) -> Ints:
        """Add rows for a coupling; return their numbers, rows x domains.

        Without skew: "pods in the domain <= most". With skew, and a column `least` for the least domain's count:
        "pods in the domain <= least + skew" and "pods in the domain >= least", running pods counted. A domain that
        violates the skew already keeps its pods, and gets no more.
        """
        domains = len(coupling.existing)
        domain = coupling.domain[self.bins][self.at]
        using = np.flatnonzero(np.isin(self.items, coupling.items)[self.of] & (domain >= 0))
        upper = coupling.most
        if coupling.skew is not None:
            slack = np.maximum(0.0, coupling.existing - coupling.existing.min() - coupling.skew)
            upper = coupling.skew - coupling.existing + slack
            least = np.repeat(self.lp.columns(np.zeros(1)), domains)
        ceiling = self.lp.rows(np.full(domains, -INFINITY), upper)
        self.lp.entries(ceiling[domain[using]], self.amounts[using], 1.0)
        if coupling.skew is None:
            return ceiling[None, :]
        self.lp.entries(ceiling, least, -1.0)
        floor = self.lp.rows(-coupling.existing, np.full(domains, INFINITY))
        self.lp.entries(floor[domain[using]], self.amounts[using], 1.0)
        self.lp.entries(floor, least, -1.0)
        return np.stack([ceiling, floor])

    def solve(self) -> tuple[Cover, Floats]:
        """Return the optimum, with the objective as its price; and worth by joint domain (see `_worth_at`)."""
        solution = self.lp.solve()
        problem, duals = self.problem, solution.duals
        amounts = np.zeros((len(self.items), len(self.bins)))
        amounts[self.of, self.at] = solution.values[self.amounts]
        prices = np.where(self.capacity >= 0, -duals[np.maximum(self.capacity, 0)], 0.0)
        worth = duals[self.covering]
        optimum = Cover(
            price=solution.objective,
            bins=self.bins,
            nodes=solution.values[self.nodes],
            amounts=amounts,
            unplaced=solution.values[self.left],
            worth=worth,
            resource_prices=np.maximum(prices, 0.0) / np.maximum(problem.capacity[self.bins], TINY),
            limit_prices=np.maximum(0.0, -duals[self.limits]) / self.limit_scales,
        )
        return optimum, self._worth_at(worth, duals)

    def _worth_at(self, worth: Floats, duals: Floats) -> Floats:
        """Return D x joint domains: $/hour of one more pod there, the duals of its couplings counted."""
        domains = int(self.domain.max(initial=0)) + 1
        table = np.repeat(worth[:, None], domains, axis=1)
        for coupling, rows in zip(self.problem.couplings, self.couplings, strict=True):
            member = np.isin(self.items, coupling.items)
            for number in range(domains):
                domain = int(coupling.domain[int(np.flatnonzero(self.domain == number)[0])])
                if domain >= 0:
                    table[member, number] += float(duals[rows[:, domain]].sum())
        return table


def _joint_domains(problem: Covering) -> Ints:
    """Return B: a number for the bin's domains in all couplings together."""
    distinct = {coupling.domain.tobytes(): coupling.domain for coupling in problem.couplings}
    if not distinct:
        return np.zeros(len(problem.price), dtype=np.int64)
    return np.unique(np.stack(list(distinct.values()), axis=1), axis=0, return_inverse=True)[1].reshape(-1)
