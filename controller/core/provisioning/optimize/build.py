"""Build a packing from nothing: fill existing nodes, then open one new node after the other.

The linear program over what is left gives dual prices: the worth of a unit of each item type and the price of each
resource. Every new node is of the bin type whose filling has the most worth for its price. The program is solved again
once a good part of the worth is placed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.dual_prices import Prices
from controller.core.provisioning.optimize.fill import SLACK, FillStrategy, fill
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

CANDIDATES = 12
"""Bin types that are filled tentatively for each node to open."""
LATE, FEW = 0.75, 3
"""After `LATE` of its work budget a build fills only `FEW` candidates per node."""
PROBE = 0.15
"""A build's total work is extrapolated once it spent this part of its budget."""
EARLY = 0.67
"""And only until this part of all work is spent: less than the rest is of little use to local search."""
TAIL = 2.0
"""Work for what is left, relative to what is placed, by size: small units come last and take more."""
CALM = 0.3
"""Units are not urgent if their host rules need less than this part of the nodes still to open."""
REFRESH = 0.6
"""The linear program is solved again once no more than this part of the worth is left."""
FIRST = 1e6
"""Factor on the worth of units that depend on limits, wherever they may go."""
MODEST = 1.5
"""Where a host rule needs most of the nodes to open, each may cost this many times an even share of what is left."""
PRESSED = 0.7
"""What "most" means above."""
LOST = 1e6
"""$/hour that a unit left out costs in the objective: more than any node."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A filled bin. number: of the existing row or of the bin type. units: D."""

    existing: bool
    number: int
    units: Floats


@dataclass(slots=True)
class Packing:
    """Filled bins, and the units left out (D)."""

    bins: list[Bin] = field(default_factory=list)
    left: Floats = field(default_factory=lambda: np.zeros(0))

    def cost(self, problem: BinPackingProblem) -> float:
        """The objective: prices of new nodes, their own cost included, and far more for each unit left out."""
        return sum(float(problem.price[b.number]) for b in self.bins if not b.existing) + LOST * float(self.left.sum())


def first_packing(problem: BinPackingProblem) -> Packing:
    """The first plan itself, each node in the cheapest bin type of its own type that lets its units in.

    Units of a node that no single bin type stands for (they settle its open labels together) count as left out.
    """
    table, packed, left = problem.packer.table, list[Bin](), problem.counts.copy()
    for row, held in sorted(problem.first_plan.items()):
        units = np.zeros(len(left))
        for item_type, count in held:
            units[item_type] += count
        left -= units
        number = row
        if row >= table.existing:
            fine = problem.allowed[:, units > 0].all(axis=1) & (problem.bin_types.option == table.option[row])
            if not fine.any():
                left += units
                continue
            number = int(np.argmin(np.where(fine, problem.price, np.inf)))
        packed.append(Bin(row < table.existing, number, units))
    return Packing(packed, left)


class Pace:
    """The work of one build: it is given up once it exceeds its budget, or as soon as it will."""

    def __init__(self, work: WorkBudget, most: float) -> None:
        self.work, self.most = work, most
        self.start = self.since = work.done
        self.size = 0.0
        self.given_up = False

    def opens(self, size: float) -> None:
        """Note that new nodes are opened from here on, for units of this size."""
        self.since, self.size = self.work.done, size

    @property
    def candidates(self) -> int:
        """Bin types to fill tentatively for the next node."""
        return FEW if self.work.done - self.start >= LATE * self.most else CANDIDATES

    def goes_on(self, size: float | None = None) -> bool:
        """Whether the build may go on; where new nodes are being opened, with so much still to place.

        Once little work is left for anything else, it goes on to its end.
        """
        will = spent = self.work.done - self.start
        if size is not None and spent >= PROBE * self.most and self.work.done < EARLY * self.work.allowed:
            will += TAIL * (self.work.done - self.since) * size / max(1e-12, self.size - size)
        self.given_up = self.given_up or will >= self.most
        return not self.given_up


class Builder:
    """Packs `counts` (D) of a problem's units. lefts: what is left of each limit. most: the work it may do."""

    def __init__(
        self, problem: BinPackingProblem, counts: Floats, lefts: list[float], work: WorkBudget, most: float = math.inf
    ) -> None:
        self.problem = problem
        self.counts = counts.copy()
        self.lefts = list(lefts)
        self.work = work
        self.pace = Pace(work, most)
        self.bins: list[Bin] = []
        self._retyped: dict[int, int] = {}

    def build(self, strategy: FillStrategy, kept: Iterable[Bin] = ()) -> Packing | None:
        """All that can be placed, on existing rows and on new ones, beside new nodes that are kept as they are.

        None where that takes more work than it may.
        """
        problem = self.problem
        for one in kept:
            self._commit(False, one.number, one.units, 1)
        if len(problem.room) and problem.open_to.any():
            prices = Prices(problem, self.counts, self.lefts, existing=True, work=self.work)
            self.fill_existing(prices, strategy, np.arange(len(problem.room)))
        if self.pace.goes_on():
            self.pace.opens(problem.size(self.counts))
            self.open(strategy)
        return None if self.pace.given_up else self.packing()

    def packing(self) -> Packing:
        """What is packed by now, each bin in the cheapest bin type that holds it."""
        return Packing([self._cheapest(one) for one in self.bins], self.counts)

    def open(self, strategy: FillStrategy, prices: Prices | None = None) -> None:
        """Open new nodes for what is left; by `prices` to the end if given, else by prices that are renewed."""
        if prices is not None:
            self._open_until(0.0, prices, strategy)
            return
        while self.counts.any():
            prices = Prices(self.problem, self.counts, self.lefts, existing=False, work=self.work)
            before = float(self.counts.sum())
            self.counts -= prices.spared
            self._open_until(REFRESH * float(self.counts @ prices.worth), prices, strategy)
            self.counts += prices.spared
            if self.pace.given_up:
                return
            if float(self.counts.sum()) == before:
                self._open_until(0.0, prices, strategy)
                return

    def _open_until(self, goal: float, prices: Prices, strategy: FillStrategy) -> None:
        """Open new nodes until the worth of what is left is below the goal ($/hour), or none can be opened."""
        while self.counts.any() and float(self.counts @ prices.worth) >= goal:
            if not self._open_one(prices, strategy, self.problem.dependent) and not self._open_one(prices, strategy):
                return
            if not self.pace.goes_on(self.problem.size(self.counts)):
                return

    def fill_existing(self, prices: Prices, strategy: FillStrategy, rows: Ints) -> None:
        """Fill these existing rows in turn: with what the optimum puts there, then with what still fits."""
        filled = np.zeros((len(rows), len(self.counts)))
        planned = prices.existing_plan()
        for most in (planned, None):
            for place, row in enumerate(rows.tolist()):
                counts = self.counts if most is None else np.minimum(self.counts, most.get(row, self.counts))
                taken = self._fill_row(row, filled[place], counts, prices, strategy)
                filled[place] += taken
                self.counts -= taken
                if most is not None and row in most:
                    most[row] -= taken
                if not self.pace.goes_on():
                    return
        for place, row in enumerate(rows.tolist()):
            if filled[place].any():
                self.bins.append(Bin(True, row, filled[place]))

    def _fill_row(self, row: int, filled: Floats, counts: Floats, prices: Prices, strategy: FillStrategy) -> Floats:
        """What of these counts (D) goes into an existing row beside what is in it."""
        problem = self.problem
        active = np.flatnonzero((counts > 0) & problem.open_to[row])
        if not len(active):
            return np.zeros(len(counts))
        taken = fill(
            problem.units.some(active),
            np.maximum(problem.room[[row]] - filled @ problem.requests, 0.0),
            prices.of_existing(row),
            np.ones((1, len(active)), dtype=np.bool_),
            counts[active],
            prices.worth_in_gaps[active],
            strategy,
            self.work,
        )
        return self._whole(active, taken[0])

    def _whole(self, active: Ints, taken: Floats) -> Floats:
        whole = np.zeros(len(self.counts))
        whole[active] = taken
        return whole

    def _cheapest(self, one: Bin) -> Bin:
        """The same units in the cheapest bin type that holds them and takes no more of any limit."""
        problem = self.problem
        if one.existing:
            return one
        known = self._retyped.get(id(one.units))
        if known is None:
            used = one.units > 0
            holds = (problem.capacity >= one.units @ problem.requests - SLACK).all(axis=1)
            holds &= problem.allowed[:, used].all(axis=1)
            for limit in problem.limits:
                holds &= limit.takes <= limit.takes[one.number]
            known = self._retyped[id(one.units)] = int(np.argmin(np.where(holds, problem.price, np.inf)))
        return Bin(False, known, one.units)

    def _commit(self, existing: bool, number: int, units: Floats, copies: int) -> None:
        self.bins.extend(Bin(existing, number, units) for _ in range(copies))
        self.counts -= units * copies
        if not existing:
            for place, limit in enumerate(self.problem.limits):
                self.lefts[place] -= float(limit.takes[number]) * copies

    def _open_one(self, prices: Prices, strategy: FillStrategy, focus: Bools | None = None) -> bool:
        """Open the bin type that gets the most worth for its price, as often as it can be filled alike.

        With `focus`, one for these units, which go in before all others.
        """
        problem = self.problem
        active = np.flatnonzero(self.counts > 0)
        wanted = active if focus is None else active[focus[active]]
        bin_types, resource_prices = self._candidates(prices, active, wanted)
        if not len(bin_types):
            return False
        allowed = problem.allowed[np.ix_(bin_types, active)]
        let_in = allowed.any(axis=0)
        active, allowed = active[let_in], allowed[:, let_in]
        urgency = 1.0 + strategy.urge * np.maximum(0.0, self._pressure(prices)[active] - CALM)
        if focus is not None:
            urgency[focus[active]] *= FIRST
        taken = fill(
            problem.units.some(active),
            problem.capacity[bin_types],
            resource_prices,
            allowed,
            self.counts[active],
            prices.worth[active] * urgency,
            strategy,
            self.work,
        )
        ratio = (taken @ prices.worth[active]) / prices.cost[bin_types]
        best = int(np.argmax(ratio))
        if not taken[best].any():
            return False
        number, whole = int(bin_types[best]), self._whole(active, taken[best])
        self._commit(False, number, whole, self._copies(number, whole))
        return True

    def _pressure(self, prices: Prices) -> Floats:
        """D: nodes that the unit's host rules need, over nodes still to open."""
        takes = self.problem.requests[:, self.problem.dense :]
        if not takes.shape[1]:
            return np.zeros(len(self.counts))
        needed = self._needed()
        return np.asarray(np.where(takes > 0, needed, 0.0).max(axis=1) / max(1.0, self._coming(prices)))

    def _needed(self) -> Floats:
        """Per host rule, how many nodes what is left of its units needs."""
        problem = self.problem
        if not len(problem.capacity):
            return np.zeros(problem.requests.shape[1] - problem.dense)
        return np.asarray(
            (self.counts @ problem.requests[:, problem.dense :]) / np.maximum(problem.capacity[0, problem.dense :], 1.0)
        )

    def _coming(self, prices: Prices) -> float:
        """An estimate of the nodes still to open: those of the linear program, scaled by the worth that is left."""
        before = float(prices.counts @ prices.worth)
        return prices.nodes * float(self.counts @ prices.worth) / max(1e-12, before)

    def _copies(self, number: int, units: Floats) -> int:
        used = units > 0
        copies = int(np.min(self.counts[used] // units[used]))
        for limit, left in zip(self.problem.limits, self.lefts, strict=True):
            if limit.takes[number] > 0:
                copies = min(copies, int(left // limit.takes[number]))
        return max(1, copies)

    def _modest(self, prices: Prices, bin_types: Ints) -> Bools:
        """Bin types cheap enough where a host rule needs most of the nodes to open; all where none does."""
        needed = float(self._needed().max(initial=0.0))
        if needed <= PRESSED * self._coming(prices):
            return np.ones(len(bin_types), dtype=np.bool_)
        return np.asarray(prices.cost[bin_types] <= MODEST * float(self.counts @ prices.worth) / needed)

    def _within_limits(self) -> Bools:
        fine = np.ones(len(self.problem.price), dtype=np.bool_)
        for limit, left in zip(self.problem.limits, self.lefts, strict=True):
            fine &= (limit.takes <= left) | (limit.takes <= 0)
        return fine

    def _candidates(self, prices: Prices, active: Ints, wanted: Ints) -> tuple[Ints, Floats]:
        """Candidates and their resource prices: bin types that can hold something wanted, by worth over cost."""
        problem, bin_types = self.problem, prices.shortlist
        self.work.ranked(len(active), len(bin_types))
        allowed = problem.allowed[np.ix_(bin_types, active)]
        fine = self._within_limits()[bin_types] & problem.allowed[np.ix_(bin_types, wanted)].any(axis=1)
        usable = np.flatnonzero(fine & self._modest(prices, bin_types))
        if not len(usable):
            usable = np.flatnonzero(fine)
        rest = allowed[usable] @ (self.counts[active] * prices.worth[active])
        ratio = np.minimum(prices.reach[usable], rest) / prices.cost[bin_types[usable]]
        order = np.argsort(-ratio, kind="stable")[: self.pace.candidates]
        picked = usable[order]
        return bin_types[picked], prices.bin_type_prices[picked]
