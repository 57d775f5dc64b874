"""Local search by ruin and recreate: empty some bins, pack what they held anew, and keep what is cheaper.

A bin's waste is its price less the worth of what it holds, by the dual prices of the linear program over all units;
bins with more waste are emptied more often. Emptied units first fill gaps in the bins that stay, then new bins, by
worths that are perturbed each round. The search goes on from packings slightly dearer than the best as well, to leave
local optima; the best one is returned. A fixed quasi-random sequence takes the place of random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import LOST, Bin, Builder, Packing
from controller.core.provisioning.optimize.dual_prices import Prices
from controller.core.provisioning.optimize.fill import FillStrategy, fill
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

PARTNERS = (2, 4, 1, 6, 3, 8)
"""Bins emptied beside the first one, in the rounds in turn."""
IN_VAIN = 10
"""The search ends after this many rounds per bin without a better packing."""
WORSE = 0.002
"""The search goes on from packings dearer than the best by at most this part of its price."""
OFF = 0.2
"""Width of the perturbation of worths."""
GAPS = 6
"""Bins that stay and are topped up with emptied units, per round."""
BETTER = 1e-6
"""$/hour by which a packing must be cheaper."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A bin in the search. waste: $/hour."""

    bin: Bin
    waste: float


@dataclass(frozen=True, slots=True)
class _Table:
    """The N bins in the search. waste: N, the root of theirs. holds: N x D. free: N x W. allowed: N x D."""

    waste: Floats
    holds: Bools
    free: Floats
    allowed: Bools


class Search:
    """Improves a packing of a problem's units."""

    def __init__(
        self, problem: BinPackingProblem, start: Packing, strategies: Sequence[FillStrategy], work: WorkBudget
    ) -> None:
        self.problem = problem
        self.strategies = strategies
        self.work = work
        lefts = [limit.left for limit in problem.limits]
        existing = bool(len(problem.room)) and bool(problem.open_to.any())
        self.prices = Prices(problem, problem.counts, lefts, existing=existing, work=work)
        self.left = start.left.copy()
        self.held = [self._hold(one) for one in start.bins]
        self.table = self._tabulated()
        self.lefts = lefts
        self._spend(start.bins, 1.0)

    def run(self) -> Packing:
        """The best packing found."""
        best = self._packing()
        least = cost = best.cost(self.problem)
        most = least + WORSE * (least - LOST * float(best.left.sum()))
        number = in_vain = 0
        while not self.work.over and in_vain < IN_VAIN * len(self.held) and cost > self.problem.lp_bound:
            victims = self._victims(number, PARTNERS[number % len(PARTNERS)])
            cost = self._round(number, victims, cost, most)
            number, in_vain = number + 1, in_vain + 1
            if cost < least - BETTER:
                best, least, in_vain = self._packing(), cost, 0
                most = least + WORSE * (least - LOST * float(best.left.sum()))
        return best

    def _tabulated(self) -> _Table:
        problem, bins = self.problem, [one.bin for one in self.held]
        units = np.array([one.units for one in bins]).reshape(len(bins), len(problem.counts))
        room = [problem.room[one.number] if one.existing else problem.capacity[one.number] for one in bins]
        lets_in = [problem.open_to[one.number] if one.existing else problem.allowed[one.number] for one in bins]
        return _Table(
            waste=np.sqrt(np.maximum([one.waste for one in self.held], BETTER)),
            holds=units > 0,
            free=np.array(room).reshape(len(bins), problem.requests.shape[1]) - units @ problem.requests,
            allowed=np.array(lets_in, dtype=np.bool_).reshape(units.shape),
        )

    def _packing(self) -> Packing:
        return Packing([one.bin for one in self.held], self.left)

    def _hold(self, one: Bin) -> _Held:
        price = 0.0 if one.existing else float(self.prices.cost[one.number])
        worth = float(one.units @ self.prices.worth)
        return _Held(one, price - worth if not one.existing else self._idle(one))

    def _idle(self, one: Bin) -> float:
        """$/hour that an existing row's free room would be worth."""
        prices = self.prices.of_existing(one.number)[0]
        return float(np.maximum(0.0, self.problem.room[one.number] - one.units @ self.problem.requests) @ prices)

    def _spend(self, bins: Sequence[Bin], sign: float) -> None:
        for place, limit in enumerate(self.problem.limits):
            self.lefts[place] -= sign * sum(float(limit.takes[one.number]) for one in bins if not one.existing)

    def _victims(self, number: int, partners: int) -> Ints:
        """The bins to empty: one, and others that can exchange units with it; more waste, more often."""
        waste, holds, allowed = self.table.waste, self.table.holds, self.table.allowed
        self.work.searched(holds.shape[1], len(holds))
        first = int(np.argmax(waste * _chance(len(waste), 2 * number)))
        fine = allowed[:, holds[first]].any(axis=1) | (holds & allowed[first]).any(axis=1)
        fine[first] = False
        order = np.argsort(-np.where(fine, waste * _chance(len(waste), 2 * number + 1), -1.0), kind="stable")[:partners]
        return np.concatenate([[first], order[fine[order]]])

    def _round(self, number: int, victims: Ints, cost: float, most: float) -> float:
        """Empty the victims and pack anew; the cost of all bins. Nothing changes if that exceeds `most`."""
        strategy, prices = self.strategies[number % len(self.strategies)], copy(self.prices)
        off = 1.0 + OFF * (_chance(len(prices.worth), number) - 0.5)
        prices.worth, prices.worth_in_gaps = prices.worth * off, prices.worth_in_gaps * off
        emptied = [self.held[place].bin for place in victims.tolist()]
        counts = np.sum([one.units for one in emptied], axis=0) + self.left
        self._spend(emptied, -1.0)
        builder = Builder(self.problem, counts, self.lefts, self.work)
        builder.fill_existing(prices, strategy, np.array([one.number for one in emptied if one.existing], dtype=int))
        grown = self._fill_gaps(builder, np.setdiff1d(np.arange(len(self.held)), victims), prices, strategy)
        builder.open(strategy, prices)
        packed = builder.packing()
        found = cost - self._cost(emptied, self.left) + self._cost(packed.bins, packed.left)
        if found > most:
            self._spend(emptied, 1.0)
            return cost
        for place, one in grown.items():
            self.held[place] = self._hold(one)
        self.left = packed.left
        self._spend(packed.bins, 1.0)
        gone = set(victims.tolist())
        self.held = [one for place, one in enumerate(self.held) if place not in gone]
        self.held.extend(self._hold(one) for one in packed.bins)
        self.table = self._tabulated()
        return found

    def _cost(self, bins: Sequence[Bin], left: Floats) -> float:
        return sum(float(self.problem.price[one.number]) for one in bins if not one.existing) + LOST * float(left.sum())

    def _fill_gaps(self, builder: Builder, staying: Ints, worths: Prices, strategy: FillStrategy) -> dict[int, Bin]:
        """Units that go into bins that stay: the bins as they then are, by their place."""
        problem, grown = self.problem, dict[int, Bin]()
        active = np.flatnonzero(builder.counts > 0)
        if not len(staying) or not len(active):
            return grown
        self.work.searched(len(active), len(staying))
        free, allowed = self.table.free[staying], self.table.allowed[np.ix_(staying, active)]
        some = problem.units.some(active)
        room = np.floor(some.room(some.padded(free), np.broadcast_to(builder.counts[active], allowed.shape)))
        gain = np.where(allowed, np.maximum(room, 0.0), 0.0) * worths.worth[active]
        most = gain.max(axis=1)
        for place in np.argsort(-most, kind="stable")[:GAPS].tolist():
            if most[place] <= 0:
                break
            one = self.held[int(staying[place])].bin
            prices = self.prices.of_existing(one.number) if one.existing else self.prices.of_bin_type(one.number)
            left = builder.counts[active]
            taken = fill(
                problem.units.some(active),
                np.maximum(free[[place]], 0.0),
                prices,
                allowed[[place]],
                left,
                worths.worth[active],
                strategy,
                self.work,
            )[0]
            if taken.any():
                units = one.units.copy()
                units[active] += taken
                builder.counts[active] -= taken
                grown[int(staying[place])] = Bin(one.existing, one.number, units)
        return grown


def _chance(count: int, number: int) -> Floats:
    """Quasi-random numbers in [0, 1): a Kronecker sequence with two irrational steps."""
    drawn: Floats = np.mod((np.arange(count) + 1) * 0.6180339887498949 + number * 0.7548776662466927, 1.0)
    return drawn
