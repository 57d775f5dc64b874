"""Build a packing greedily: fill existing nodes, then open one new node after the other.

The linear program over the units not placed yet gives dual prices: the worth of a unit of each item type and the price
of each resource. Every new node is of the bin type that can be filled with the most worth for its price. The program is
solved again once a good part of the worth is placed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.dual_prices import Prices
from controller.core.provisioning.optimize.fill import SLACK, FillStrategy, OpenBins, Supply, fill
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.resource_space import Bools, Floats, Ints

CANDIDATES, LATE_CANDIDATES = 12, 3
"""Bin types that are filled tentatively for each node to open, and how many late in a build."""
LATE = 0.75
"""Part of a build's work budget after which it is late."""
PROJECT_FROM = 0.15
"""Part of a build's work budget that opening new nodes has taken when its total work is first projected."""
PROJECT_UNTIL = 0.67
"""Part of all work after which it is not projected any more: the rest would be of little use to local search."""
TAIL = 2.0
"""Work per size of the units left, relative to those placed: small units come last and take more."""
CALM = 0.3
"""Units are not urgent if their host rules need less than this part of the nodes still to open."""
REFRESH = 0.6
"""The linear program is solved again once no more than this part of the worth is left."""
FIRST = 1e6
"""Factor on the worth of units that can only go to nodes under limits, where a node is opened for them."""
HOST_BOUND = 0.7
"""Host rules decide the number of nodes if one of them needs more than this part of the nodes still to open."""
MODEST = 1.5
"""Where host rules decide the number of nodes, each may cost this many times an even share of the worth left."""
MOST_PARTS, FEWEST_OF_A_PART = 24, 12
"""Parts in which existing nodes are filled, each by new prices, and nodes of a part at least."""
FOR_PRICES = 0.25
"""Part of all work that the prices of those parts may take."""
GOLDEN_RATIO = 0.6180339887498949
LOST = 1e6
"""$/hour that a unit left out costs in the objective: more than any node."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A filled bin. number: the row of an existing node, else the number of a bin type. units: D."""

    existing: bool
    number: int
    units: Floats


@dataclass(slots=True)
class Packing:
    """Filled bins, and the units left out (D)."""

    bins: list[Bin] = field(default_factory=list)
    left: Floats = field(default_factory=lambda: np.zeros(0))

    def cost(self, problem: BinPackingProblem) -> float:
        """Return the objective: the costs of new nodes, and `LOST` per unit left out."""
        return sum(float(problem.price[b.number]) for b in self.bins if not b.existing) + LOST * float(self.left.sum())


def first_packing(problem: BinPackingProblem) -> Packing:
    """Return the first plan, each new node as the cheapest bin type of its node option that lets its units in.

    If no single bin type stands for a new node (its units settle its open labels together), they count as left out.
    """
    table, bins, left = problem.packer.table, list[Bin](), problem.counts.copy()
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
        bins.append(Bin(row < table.existing, number, units))
    return Packing(bins, left)


class Pace:
    """Watch the work of one build: give it up once it exceeds its budget, or is projected to."""

    def __init__(self, work: WorkBudget, most: float) -> None:
        """`most`: the work budget of the build."""
        self.work, self.most = work, most
        self.start = self.opening_since = work.done
        self.size = 0.0
        self.given_up = False

    def start_opening(self, size: float) -> None:
        """Note that new nodes are opened from now on, for units of this total size."""
        self.opening_since, self.size = self.work.done, size

    @property
    def candidates(self) -> int:
        """Bin types to fill tentatively for the next node."""
        return LATE_CANDIDATES if self.work.done - self.start >= LATE * self.most else CANDIDATES

    def goes_on(self, size: float | None = None) -> bool:
        """Return whether the build may go on. `size`: of the units still to place, while new nodes are being opened.

        Late in the whole budget a build that is within its own is not stopped: local search could do little anyway.
        """
        projected, opening = self.work.done - self.start, self.work.done - self.opening_since
        if (
            size is not None
            and opening >= PROJECT_FROM * self.most
            and self.work.done < PROJECT_UNTIL * self.work.allowed
        ):
            projected += TAIL * opening * size / max(1e-12, self.size - size)
        self.given_up = self.given_up or projected >= self.most
        return not self.given_up


class Builder:
    """Packs units of a problem's item types into bins.

    counts: D units not placed yet. lefts: what is left of each of the problem's limits.
    """

    def __init__(
        self, problem: BinPackingProblem, counts: Floats, lefts: list[float], work: WorkBudget, most: float = math.inf
    ) -> None:
        """`most`: work after which a build is given up."""
        self.problem = problem
        self.counts = counts.copy()
        self.lefts = list(lefts)
        self.work = work
        self.pace = Pace(work, most)
        self.bins: list[Bin] = []

    def build(self, strategy: FillStrategy, kept: Iterable[Bin] = ()) -> Packing | None:
        """Place all that can be placed, on existing and on new nodes; `kept` are new nodes to keep as they are.

        None: given up, see `Pace`.
        """
        problem = self.problem
        for one in kept:
            self._add_new(one.number, one.units, 1)
        if len(problem.room) and problem.open_to.any():
            self._fill_all_existing(strategy)
        if self.pace.goes_on():
            self.pace.start_opening(problem.size(self.counts))
            self._open_all(strategy)
        return None if self.pace.given_up else self.packing()

    def packing(self) -> Packing:
        """Return the bins so far, new ones in the cheapest bin type that holds their units."""
        # Copies of a node share one array of units, and so the search for their bin type.
        types = {id(one.units): one for one in self.bins if not one.existing}
        cheapest = {key: cheapest_type(self.problem, one.units, one.number) for key, one in types.items()}
        bins = [one if one.existing else Bin(False, cheapest[id(one.units)], one.units) for one in self.bins]
        return Packing(bins, self.counts)

    def _fill_all_existing(self, strategy: FillStrategy) -> None:
        """Fill the existing nodes part by part, each by prices for all that is left, on it and on those after it."""
        rows = _mixed(len(self.problem.room))
        place, parts = 0, max(1, min(MOST_PARTS, len(rows) // FEWEST_OF_A_PART))
        while place < len(rows) and self.counts.any() and self.pace.goes_on():
            before = self.work.done
            prices = Prices(self.problem, self.counts, self.lefts, self.work, rows[place:])
            if not place:
                parts = max(1, int(min(parts, FOR_PRICES * self.work.allowed / max(1e-9, self.work.done - before))))
            part = np.sort(rows[place : place + math.ceil(len(rows) / parts)])
            self.fill_existing(prices, strategy, part)
            place += len(part)

    def _open_all(self, strategy: FillStrategy) -> None:
        """Open new nodes for all units left, by prices that are renewed as the worth left shrinks."""
        while self.counts.any():
            prices = Prices(self.problem, self.counts, self.lefts, self.work)
            before = float(self.counts.sum())
            self.counts -= prices.spared
            self.open_until(REFRESH * float(self.counts @ prices.worth), prices, strategy)
            self.counts += prices.spared
            if self.pace.given_up:
                return
            if float(self.counts.sum()) == before:
                self.open_until(0.0, prices, strategy)
                return

    def open_until(self, goal: float, prices: Prices, strategy: FillStrategy) -> None:
        """Open new nodes until the worth of the units left is below the goal ($/hour), or none can be opened."""
        while self.counts.any() and float(self.counts @ prices.worth) >= goal:
            if not self._open_one(prices, strategy, self.problem.dependent) and not self._open_one(prices, strategy):
                return
            if not self.pace.goes_on(self.problem.size(self.counts)):
                return

    def fill_existing(self, prices: Prices, strategy: FillStrategy, rows: Ints) -> None:
        """Fill these existing nodes in turn: first with what the optimum puts there, then with what still fits."""
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
        """Fill an existing node beside the units already in it (`filled`) with some of `counts`; D units taken."""
        problem, taken = self.problem, np.zeros(len(counts))
        active = np.flatnonzero((counts > 0) & problem.open_to[row])
        if len(active):
            free = np.maximum(problem.room[[row]] - filled @ problem.requests, 0.0)
            bins = OpenBins(free, prices.of_existing(row), np.ones((1, len(active)), dtype=np.bool_))
            supply = Supply(problem.units.some(active), counts[active], prices.worth_in_gaps[active])
            taken[active] = fill(bins, supply, strategy, self.work)[0]
        return taken

    def _add_new(self, number: int, units: Floats, copies: int) -> None:
        """Add equal new nodes of a bin type with these units (D) each."""
        self.bins.extend(Bin(False, number, units) for _ in range(copies))
        self.counts -= units * copies
        for place, limit in enumerate(self.problem.limits):
            self.lefts[place] -= float(limit.takes[number]) * copies

    def _open_one(self, prices: Prices, strategy: FillStrategy, focus: Bools | None = None) -> bool:
        """Open the bin type that gets the most worth for its price, as often as it can be filled with the same units.

        focus: D flags; one of these units must fit, and they go in before all others. False: no bin type takes any.
        """
        problem = self.problem
        active = np.flatnonzero(self.counts > 0)
        wanted = active if focus is None else active[focus[active]]
        bin_types, resource_prices = self._candidates(prices, active, wanted)
        if not len(bin_types):
            return False

        # K candidates by the A item types with units left that some candidate lets in.
        allowed = problem.allowed[bin_types[:, None], active]
        let_in = allowed.any(axis=0)
        active, allowed = active[let_in], allowed[:, let_in]

        # A factors on the worth ($/hour) by which units are chosen; the candidates are judged by the worth itself.
        urgency = 1.0 + strategy.urge * np.maximum(0.0, self._pressure(prices)[active] - CALM)
        if focus is not None:
            urgency[focus[active]] *= FIRST
        bins = OpenBins(problem.capacity[bin_types], resource_prices, allowed)
        supply = Supply(problem.units.some(active), self.counts[active], prices.worth[active] * urgency)
        taken = fill(bins, supply, strategy, self.work)
        ratio = (taken @ prices.worth[active]) / prices.cost[bin_types]
        best = int(np.argmax(ratio))
        if not taken[best].any():
            return False
        number, units = int(bin_types[best]), np.zeros(len(self.counts))
        units[active] = taken[best]
        self._add_new(number, units, self._copies(number, units))
        return True

    def _pressure(self, prices: Prices) -> Floats:
        """Return D: nodes that the units of a host rule need, over the nodes still to open;
        the largest of its rules."""
        takes = self.problem.requests[:, self.problem.dense :]
        if not takes.shape[1]:
            return np.zeros(len(self.counts))
        needed = self.problem.nodes_by_host_rule(self.counts)
        return np.asarray(np.where(takes > 0, needed, 0.0).max(axis=1) / max(1.0, self._nodes_to_open(prices)))

    def _nodes_to_open(self, prices: Prices) -> float:
        """Estimate the nodes still to open: those of the linear program, scaled by the part of the worth left."""
        before = float(prices.counts @ prices.worth)
        return prices.nodes * float(self.counts @ prices.worth) / max(1e-12, before)

    def _copies(self, number: int, units: Floats) -> int:
        """Return how many nodes of the bin type can be filled with these units (D) and are within limits,
        one at least."""
        used = units > 0
        copies = int(np.min(self.counts[used] // units[used]))
        for limit, left in zip(self.problem.limits, self.lefts, strict=True):
            if limit.takes[number] > 0:
                copies = min(copies, int(left // limit.takes[number]))
        return max(1, copies)

    def _modest(self, prices: Prices, bin_types: Ints) -> Bools:
        """Return which of these bin types are cheap enough where a host rule decides the number of nodes; else all."""
        needed = float(self.problem.nodes_by_host_rule(self.counts).max(initial=0.0))
        if needed <= HOST_BOUND * self._nodes_to_open(prices):
            return np.ones(len(bin_types), dtype=np.bool_)
        return np.asarray(prices.cost[bin_types] <= MODEST * float(self.counts @ prices.worth) / needed)

    def _within_limits(self, bin_types: Ints) -> Bools:
        """Return which of these bin types the limits allow one more node of."""
        fine = np.ones(len(bin_types), dtype=np.bool_)
        for limit, left in zip(self.problem.limits, self.lefts, strict=True):
            takes = limit.takes[bin_types]
            fine &= (takes <= left) | (takes <= 0)
        return fine

    def _candidates(self, prices: Prices, active: Ints, wanted: Ints) -> tuple[Ints, Floats]:
        """Return the K bin types most promising for the units left, and their resource prices (K x W).

        active: item types with units left. wanted: those of which a candidate must let some in. Bin types are ranked by
        a bound on the worth that they can hold, over their cost.
        """
        problem, bin_types = self.problem, prices.shortlist
        self.work.ranked(len(active), len(bin_types))
        allowed = problem.allowed[bin_types[:, None], active]
        fine = self._within_limits(bin_types) & problem.allowed[bin_types[:, None], wanted].any(axis=1)
        usable = np.flatnonzero(fine & self._modest(prices, bin_types))
        if not len(usable):
            usable = np.flatnonzero(fine)
        rest = allowed[usable] @ (self.counts[active] * prices.worth[active])
        ratio = np.minimum(prices.reach[usable], rest) / prices.cost[bin_types[usable]]
        picked = usable[np.argsort(-ratio, kind="stable")[: self.pace.candidates]]
        return bin_types[picked], prices.bin_type_prices[picked]


def cheapest_type(problem: BinPackingProblem, units: Floats, number: int) -> int:
    """Return the cheapest bin type that holds these units (D) and takes no more of any limit than bin type `number`."""
    holds = (problem.capacity >= units @ problem.requests - SLACK).all(axis=1)
    holds &= problem.allowed[:, units > 0].all(axis=1)
    for limit in problem.limits:
        holds &= limit.takes <= limit.takes[number]
    return int(np.argmin(np.where(holds, problem.price, np.inf)))


def _mixed(count: int) -> Ints:
    """Return the numbers below `count` in a fixed order in which any stretch is a sample of them all."""
    return np.argsort(np.arange(count) * GOLDEN_RATIO % 1.0, kind="stable")
