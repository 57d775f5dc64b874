"""Optimal packings of small problems: the set covering program over fill patterns, as in the cutting stock problem.

A pattern is what one bin of a type holds: so many units of each item type. Where item types are few, every pattern that
is worth considering is enumerated, and an integer program chooses how often each is used; its optimum is the cheapest
packing there is. Units may be covered more than once (any part of a pattern is one too), so only maximal patterns count.

The linear relaxation (Gilmore and Gomory's) comes first. A pattern whose reduced cost exceeds the difference between the
best packing known and that bound is part of no better packing; few are left for the integer program. HiGHS's search is
limited by nodes, not by time, so the same problem gives the same packing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.optimize.fill import SLACK, fill
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

MOST_STATES = 40_000
"""Ways to choose units up to which patterns are enumerated."""
MOST_COLUMNS = 20_000
"""Columns of the linear program up to which it is solved."""
SEARCH_NODES = 20
"""Nodes of HiGHS's search for the integer program."""
LEAST_GAIN = 1e-9
"""$/hour by which a packing must be cheaper."""


def optimal_packing(problem: BinPackingProblem, best: Packing, strategies, work: WorkBudget) -> tuple[Packing, bool]:
    """The cheapest packing and True if it is proven; else the best one found. `best` is the best known before."""
    bins = _find_bins(problem, best.cost(problem))
    if not len(bins.price):
        return best, True
    if np.prod(problem.counts + 1.0) <= MOST_STATES:
        columns = _maximal_patterns(problem, bins, _enumerate(problem.counts))
        return _Program(problem, bins, columns).solve(best, work, exact=True)
    columns = _generate(problem, bins, best, strategies, work)
    return _Program(problem, bins, columns).solve(best, work, exact=False)


GENERATED = 30


def _generate(problem, bins, best, strategies, work):
    """Column generation: patterns with negative reduced cost."""
    counts = problem.counts
    # start: patterns of the strategies for the bins, with worth = size share
    K, D = bins.allowed.shape
    kind_of = {number: k for k, ms in enumerate(bins.members) for number in ms if k < bins.types}
    units, kinds = [], []
    seen = set()
    def add(k, u):
        key = (k, u.tobytes())
        if key not in seen and u.any():
            seen.add(key); units.append(u); kinds.append(k)
            return True
        return False
    own = bins.capacity[:, :problem.dense]
    scale = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
    prices = np.zeros_like(bins.capacity); prices[:, :problem.dense] = scale
    # seeds: cheapest bin for each item alone
    share = (scale[:, None, :] * problem.requests[None, :, :problem.dense]).max(axis=2)
    cost = np.where(bins.allowed & (problem.requests[None] <= bins.capacity[:, None] + SLACK).all(axis=2), share * np.maximum(bins.price, 1e-4)[:, None], np.inf)
    worth = np.where(np.isfinite(cost.min(axis=0)), cost.min(axis=0), 0.0)
    for one in best.bins:
        fits = (bins.capacity >= one.units @ problem.requests - SLACK).all(axis=1) & bins.allowed[:, one.units > 0].all(axis=1)
        if fits.any(): add(int(np.argmin(np.where(fits, bins.price, np.inf))), one.units)
    charge = bins.price
    last = None
    vain = 0
    for number in range(GENERATED):
        taken = fill(problem.units, bins.capacity, prices, bins.allowed, counts, worth, strategies[number % len(strategies)], work)
        gain = taken @ worth - charge
        new = 0
        for k in np.argsort(-gain, kind='stable').tolist():
            if last is not None and gain[k] <= 1e-7: break
            new += add(k, taken[k])
        vain = 0 if new else vain + 1
        if vain >= 3: break
        if not new: continue
        program = _Program(problem, bins, _Columns(np.array(units), np.array(kinds)))
        relaxed, rows = program._program(np.arange(len(units)))
        last = relaxed.solve()
        cover, limit, few = rows
        worth = last.duals[cover]
        charge = bins.price - bins.takes @ last.duals[limit]
        charge[bins.types:] -= last.duals[few]
        if 'debug' in __import__('sys').argv: print('  round',number,'new',new,'lp %.4f'%last.objective)
    return _Columns(np.array(units), np.array(kinds))


@dataclass(frozen=True, slots=True)
class _Bins:
    """G kinds of bin: bin types first, then groups of existing nodes that are equal as far as these units go.

    capacity: G x W. price: G, $/hour. allowed: G x D. takes: G x limits. ceiling: G, how many there are.
    members: G, the numbers of the bin type or of the existing nodes.
    """

    capacity: Floats
    price: Floats
    allowed: Bools
    takes: Floats
    ceiling: Floats
    members: tuple[tuple[int, ...], ...]
    types: int

    def existing(self, kind: int) -> bool:
        """Whether a kind is a group of existing nodes."""
        return kind >= self.types


@dataclass(frozen=True, slots=True)
class _Columns:
    """P patterns. units: P x D. bin: P, the kind of bin."""

    units: Floats
    bin: Ints


def _find_bins(problem: BinPackingProblem, most: float) -> _Bins:
    """Bin types that cost less than `most` and that no other dominates, and existing nodes.

    A bin larger than all units together is no better than one that just holds them.
    """
    total = problem.counts @ problem.requests
    capacity = np.minimum(problem.capacity, total)
    takes = np.array([limit.takes for limit in problem.limits]).reshape(len(problem.limits), len(capacity)).T
    useful = np.flatnonzero(problem.allowed.any(axis=1) & (problem.price < most))
    order = useful[np.lexsort((-capacity[useful].sum(axis=1), problem.price[useful]))]
    kept = _undominated(capacity[order], problem.allowed[order], takes[order])
    types = order[kept]
    groups: dict[bytes, list[int]] = defaultdict(list)
    room = np.minimum(problem.room, total)
    for row in np.flatnonzero(problem.open_to.any(axis=1)).tolist():
        groups[room[row].tobytes() + problem.open_to[row].tobytes()].append(row)
    first = np.array([rows[0] for rows in groups.values()], dtype=np.int64)
    return _Bins(
        np.concatenate([capacity[types], room[first]]),
        np.concatenate([problem.price[types], np.zeros(len(first))]),
        np.concatenate([problem.allowed[types], problem.open_to[first]]),
        np.concatenate([takes[types], np.zeros((len(first), takes.shape[1]))]),
        np.concatenate([np.full(len(types), INFINITY), [float(len(rows)) for rows in groups.values()]]),
        (*((number,) for number in types.tolist()), *map(tuple, groups.values())),
        len(types),
    )


def _undominated(capacity: Floats, allowed: Bools, takes: Floats) -> list[int]:
    """Of bins in order of price, those that no earlier one replaces: as large, as open, and no more of any limit."""
    kept: list[int] = []
    for number in range(len(capacity)):
        others = np.array(kept, dtype=np.int64)
        better = (capacity[others] >= capacity[number]).all(axis=1) & (takes[others] <= takes[number]).all(axis=1)
        better &= (allowed[others] >= allowed[number]).all(axis=1)
        if not better.any():
            kept.append(number)
    return kept


def _enumerate(counts: Floats) -> Ints:
    """S x D: every choice of up to `counts` units. The last item type varies fastest."""
    return np.indices((counts + 1).astype(np.int64)).reshape(len(counts), -1).T


def _maximal_patterns(problem: BinPackingProblem, bins: _Bins, units: Ints) -> _Columns:
    """For every kind of bin the patterns that nothing can be added to."""
    counts = problem.counts.astype(np.int64)
    usage = units @ problem.requests
    steps = np.concatenate([np.cumprod((counts + 1)[:0:-1])[::-1], [1]]).astype(np.int64)
    place = np.arange(len(units))
    found, kinds = [], []
    for kind in range(len(bins.price)):
        fits = (usage <= bins.capacity[kind] + SLACK).all(axis=1)
        fits &= ~(units[:, ~bins.allowed[kind]] > 0).any(axis=1)
        maximal = fits.copy()
        maximal[0] = False
        for item, step in enumerate(steps.tolist()):
            more = np.flatnonzero(fits & (units[:, item] < counts[item]))
            maximal[more[fits[place[more] + step]]] = False
        picked = np.flatnonzero(maximal)
        found.append(units[picked])
        kinds.append(np.full(len(picked), kind, dtype=np.int64))
    return _Columns(np.concatenate(found).astype(np.float64), np.concatenate(kinds))


class _Program:
    """The covering program over columns."""

    def __init__(self, problem: BinPackingProblem, bins: _Bins, columns: _Columns) -> None:
        self.problem, self.bins, self.columns = problem, bins, columns
        self.price = bins.price[columns.bin]
        self.penalty = 10.0 * float(bins.price.max(initial=1.0))

    def solve(self, best: Packing, work: WorkBudget, exact) -> tuple[Packing, bool]:
        import time
        t0=time.process_time()
        relaxed, rows = self._program(np.arange(len(self.price)))
        answer = relaxed.solve()
        t1=time.process_time()
        known = sum(float(self.problem.price[b.number]) for b in best.bins if not b.standing) + self.penalty * float(best.left.sum())
        if known <= answer.objective + LEAST_GAIN:
            return best, exact
        reduced = self._reduced_costs(answer.duals, rows)
        fine = np.flatnonzero(reduced <= known - answer.objective)
        whole, _ = self._program(fine)
        chosen = whole.solve_integers(SEARCH_NODES)
        t2=time.process_time()
        import sys
        if 'debug' in sys.argv: print('cols',len(self.price),'kinds',len(self.bins.price),'lp',round(answer.objective,4),'known',round(known,4),'fine',len(fine),'mip',round(chosen.objective,4),round(chosen.bound,4),'t %.3f %.3f'%(t1-t0,t2-t1))
        if not chosen.found or chosen.objective >= known - LEAST_GAIN:
            return best, exact and chosen.bound >= known - 1e-6
        return self._packing(fine, np.rint(chosen.values[: len(fine)])), exact and chosen.objective <= chosen.bound + 1e-6

    def _program(self, which):
        bins, columns, counts = self.bins, self.columns, self.problem.counts
        program = LinearProgram()
        used = program.columns(self.price[which], bins.ceiling[columns.bin[which]])
        left = program.columns(np.full(len(counts), self.penalty), counts)
        cover = program.rows(counts, np.full(len(counts), INFINITY))
        pattern, item = np.nonzero(columns.units[which])
        program.entries(cover[item], used[pattern], columns.units[which][pattern, item])
        program.entries(cover, left, 1.0)
        lefts = np.array([limit.left for limit in self.problem.limits])
        limit = program.rows(np.full(len(lefts), -INFINITY), np.maximum(lefts, 0.0))
        takes = bins.takes[columns.bin[which]]
        pattern, number = np.nonzero(takes)
        program.entries(limit[number], used[pattern], takes[pattern, number])
        types = bins.types
        few = program.rows(np.full(len(bins.price) - types, -INFINITY), bins.ceiling[types:])
        pattern = np.flatnonzero(columns.bin[which] >= types)
        program.entries(few[columns.bin[which][pattern] - types], used[pattern], 1.0)
        return program, (cover, limit, few)

    def _reduced_costs(self, duals, rows):
        cover, limit, few = rows
        bins, columns = self.bins, self.columns
        paid = np.concatenate([np.zeros(bins.types), duals[few]])
        return self.price - columns.units @ duals[cover] - bins.takes[columns.bin] @ duals[limit] - paid[columns.bin]

    def _packing(self, which, times):
        left, packed = self.problem.counts.copy(), []
        members = [list(m) for m in self.bins.members]
        for place in np.flatnonzero(times).tolist():
            kind = int(self.columns.bin[which[place]])
            for _ in range(int(times[place])):
                units = np.minimum(self.columns.units[which[place]], left)
                existing = self.bins.existing(kind)
                number = members[kind].pop(0) if existing else members[kind][0]
                if units.any():
                    left -= units
                    packed.append(Bin(existing, number, units))
        return Packing(packed, left)
