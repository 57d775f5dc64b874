"""Local search by ruin and recreate: empty some bins, pack their units again, and keep what is cheaper.

A bin's waste is its price less the worth of its units, by the dual prices of the linear program over all units; bins
with more waste are emptied more often. The emptied units first fill gaps in the bins that stay, then new bins, by
worths that are perturbed each round. The incumbent may cost slightly more than the best packing, to leave local optima;
the best packing is returned. A fixed quasi-random sequence takes the place of random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import LOST, Bin, Builder, Packing
from controller.core.provisioning.optimize.contenders import Contenders
from controller.core.provisioning.optimize.dual_prices import Prices
from controller.core.provisioning.optimize.fill import FillStrategy, OpenBins, Supply, fill
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

PARTNERS = (2, 4, 1, 6, 3, 8)
"""Bins emptied beside the first one, round by round in turn."""
IN_VAIN = 10
"""The search ends after this many rounds per bin without a better packing."""
WORSE = 0.002
"""Part of its price by which the incumbent may cost more than the best packing."""
PERTURBATION = 0.2
"""Width of the perturbation of worths."""
GAPS = 6
"""Bins that stay and are topped up with emptied units, per round."""
BETTER = 1e-6
"""$/hour by which a packing must be cheaper to be better."""


@dataclass(frozen=True, slots=True)
class _Neighbourhood:
    """The N bins of the incumbent as arrays, from which a round chooses those to empty.

    waste: N, square root of each bin's waste in $/hour. holds: N x D, whether the bin has units of the item type.
    free: N x W, capacity left. allowed: N x D, whether the bin lets the item type in.
    """

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
        self.lefts = [limit.left for limit in problem.limits]
        self.prices = Prices(problem, problem.counts, self.lefts, work, np.arange(len(problem.room)))
        self.incumbent = Packing(start.bins, start.left.copy())
        self.neighbourhood = self._tabulate()
        self._spend(start.bins, 1.0)

    def run(self, contenders: Contenders | None = None) -> Packing:
        """Search until the work is done, rounds are in vain, or the linear program's bound is reached.

        `contenders` get every incumbent.
        """
        best = self.incumbent
        least = cost = best.cost(self.problem)
        most = least + WORSE * (least - LOST * float(best.left.sum()))
        number = in_vain = 0
        while not self.work.over and in_vain < IN_VAIN * len(self.incumbent.bins) and cost > self.problem.lp_bound:
            victims = self._victims(number, PARTNERS[number % len(PARTNERS)])
            cost = self._round(number, victims, cost, most)
            number, in_vain = number + 1, in_vain + 1
            if contenders is not None:
                contenders.add(self.incumbent)
            if cost < least - BETTER:
                best, least, in_vain = self.incumbent, cost, 0
                most = least + WORSE * (least - LOST * float(best.left.sum()))
        return best

    def _tabulate(self) -> _Neighbourhood:
        problem, bins = self.problem, self.incumbent.bins
        units = np.array([one.units for one in bins]).reshape(len(bins), len(problem.counts))
        room = [problem.room[one.number] if one.existing else problem.capacity[one.number] for one in bins]
        allowed = [problem.open_to[one.number] if one.existing else problem.allowed[one.number] for one in bins]
        free = np.array(room).reshape(len(bins), problem.requests.shape[1]) - units @ problem.requests
        worth = (units @ self.prices.worth).tolist()
        # A new node wastes its price less the worth of its units; an existing one the worth of its room.
        waste = [
            np.maximum(0.0, free[place]) @ self.prices.of_existing(one.number)[0]
            if one.existing
            else self.prices.cost[one.number] - worth[place]
            for place, one in enumerate(bins)
        ]
        return _Neighbourhood(
            waste=np.sqrt(np.maximum(waste, BETTER)),
            holds=units > 0,
            free=free,
            allowed=np.array(allowed, dtype=np.bool_).reshape(units.shape),
        )

    def _spend(self, bins: Sequence[Bin], sign: float) -> None:
        """Subtract what these bins take of limits (sign -1: give back)."""
        for place, limit in enumerate(self.problem.limits):
            self.lefts[place] -= sign * sum(float(limit.takes[one.number]) for one in bins if not one.existing)

    def _victims(self, number: int, partners: int) -> Ints:
        """Choose bins to empty: one, and others that can exchange units with it; more waste, more often."""
        around = self.neighbourhood
        self.work.searched(around.holds.shape[1], len(around.holds))
        first = int(np.argmax(around.waste * _chance(len(around.waste), 2 * number)))
        fine = around.allowed[:, around.holds[first]].any(axis=1)
        fine |= (around.holds & around.allowed[first]).any(axis=1)
        fine[first] = False
        score = np.where(fine, around.waste * _chance(len(around.waste), 2 * number + 1), -1.0)
        order = np.argsort(-score, kind="stable")[:partners]
        return np.concatenate([[first], order[fine[order]]])

    def _round(self, number: int, victims: Ints, cost: float, most: float) -> float:
        """Empty the victims and pack their units again; return the cost of the new incumbent.

        cost: of the incumbent, which stays if the new packing would cost more than `most`.
        """
        strategy, prices = self.strategies[number % len(self.strategies)], copy(self.prices)
        factor = 1.0 + PERTURBATION * (_chance(len(prices.worth), number) - 0.5)
        prices.worth, prices.worth_in_gaps = prices.worth * factor, prices.worth_in_gaps * factor
        bins = self.incumbent.bins
        ruined = Packing([bins[place] for place in victims.tolist()], self.incumbent.left)
        counts = np.sum([one.units for one in ruined.bins], axis=0) + ruined.left
        self._spend(ruined.bins, -1.0)
        builder = Builder(self.problem, counts, self.lefts, self.work)
        existing = np.array([one.number for one in ruined.bins if one.existing], dtype=int)
        builder.fill_existing(prices, strategy, existing)
        grown = self._fill_gaps(builder, np.setdiff1d(np.arange(len(bins)), victims), prices, strategy)
        builder.open_until(0.0, prices, strategy)
        recreated = builder.packing()
        new_cost = cost - ruined.cost(self.problem) + recreated.cost(self.problem)
        if new_cost > most:
            self._spend(ruined.bins, 1.0)
            return cost
        self._spend(recreated.bins, 1.0)
        gone = set(victims.tolist())
        staying = [grown.get(place, one) for place, one in enumerate(bins) if place not in gone]
        self.incumbent = Packing([*staying, *recreated.bins], recreated.left)
        self.neighbourhood = self._tabulate()
        return new_cost

    def _fill_gaps(self, builder: Builder, staying: Ints, worths: Prices, strategy: FillStrategy) -> dict[int, Bin]:
        """Put units into bins that stay (N places); return these bins as they then are, by place."""
        problem, grown = self.problem, dict[int, Bin]()
        active = np.flatnonzero(builder.counts > 0)
        if not len(staying) or not len(active):
            return grown
        self.work.searched(len(active), len(staying))

        # Bins that stay by the A active item types: room in units, and the most worth ($/hour) of one type there.
        free, allowed = self.neighbourhood.free[staying], self.neighbourhood.allowed[np.ix_(staying, active)]
        items = problem.units.some(active)
        room = np.floor(items.room(items.padded(free), np.broadcast_to(builder.counts[active], allowed.shape)))
        most = (np.where(allowed, np.maximum(room, 0.0), 0.0) * worths.worth[active]).max(axis=1)
        for place in np.argsort(-most, kind="stable")[:GAPS].tolist():
            if most[place] <= 0:
                break
            one = self.incumbent.bins[int(staying[place])]
            prices = self.prices.of_existing(one.number) if one.existing else self.prices.of_bin_type(one.number)
            gap = OpenBins(np.maximum(free[[place]], 0.0), prices, allowed[[place]])
            taken = fill(gap, Supply(items, builder.counts[active], worths.worth[active]), strategy, self.work)[0]
            if taken.any():
                units = one.units.copy()
                units[active] += taken
                builder.counts[active] -= taken
                grown[int(staying[place])] = Bin(one.existing, one.number, units)
        return grown


def _chance(count: int, number: int) -> Floats:
    """Return quasi-random numbers in [0, 1): a Kronecker sequence with two irrational steps."""
    drawn: Floats = np.mod((np.arange(count) + 1) * 0.6180339887498949 + number * 0.7548776662466927, 1.0)
    return drawn
