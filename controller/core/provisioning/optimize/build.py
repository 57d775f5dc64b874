"""Building a packing from nothing: nodes there are first, then the node that is worth most for its price, and again.

The divisible optimum of what is left says what pods and resources are worth; it is asked again when a good part of the
worth is placed.
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
"""Offers that are filled in thought for each node to open."""
LATE, FEW = 0.75, 3
"""A build that spent this part of the work it may do fills so many only: it had better come to an end."""
PROBE = 0.15
"""How much work a build will take is told from what it did, once it spent this part of what it may."""
EARLY = 0.67
"""And until this part of all work is spent: a search with less has little to show."""
TAIL = 2.0
"""What is still to place takes so many times the work of what is placed: small units are left to the last."""
CALM = 0.3
"""Units whose host rules need less than this part of the nodes to come are in no hurry."""
REFRESH = 0.6
"""The divisible optimum is asked again once no more than this part of the worth is left."""
FIRST = 1e6
"""How much more those who depend on limits appeal, where they may go at all."""
MODEST = 1.5
"""Where a host rule needs most of the nodes to come, none costs more than an even part of what is left, times this."""
PRESSED = 0.7
"""Most: this part of the nodes to come."""
LOST = 1e6
"""What a unit left out counts for among prices: more than any node."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A row filled: an existing row's number, or an offer's, and its units (D)."""

    existing: bool
    number: int
    units: Floats


@dataclass(slots=True)
class Packing:
    """Bins, and what found no place (D)."""

    bins: list[Bin] = field(default_factory=list)
    left: Floats = field(default_factory=lambda: np.zeros(0))

    def cost(self, stock: BinPackingProblem) -> float:
        """The objective: prices of new nodes, their own cost included, and far more for each unit left out."""
        return sum(float(stock.price[b.number]) for b in self.bins if not b.existing) + LOST * float(self.left.sum())


def first_packing(stock: BinPackingProblem) -> Packing:
    """The first plan itself, each node in the cheapest offer of its own type that lets its units in.

    Units of a node that no single offer stands for (they settle its open labels together) count as left out.
    """
    table, packed, left = stock.packer.table, list[Bin](), stock.counts.copy()
    for row, held in sorted(stock.stands.items()):
        units = np.zeros(len(left))
        for lot, count in held:
            units[lot] += count
        left -= units
        number = row
        if row >= table.existing:
            fine = stock.allowed[:, units > 0].all(axis=1) & (stock.offers.option == table.option[row])
            if not fine.any():
                left += units
                continue
            number = int(np.argmin(np.where(fine, stock.price, np.inf)))
        packed.append(Bin(row < table.existing, number, units))
    return Packing(packed, left)


class Pace:
    """Looks after the work of a build, and gives it up once it takes too much, early where that can be told."""

    def __init__(self, work: WorkBudget, most: float) -> None:
        self.work, self.most = work, most
        self.start = self.since = work.done
        self.size = 0.0
        self.given_up = False

    def opens(self, size: float) -> None:
        """From here on new nodes are opened for so much (`Stock.size`)."""
        self.since, self.size = self.work.done, size

    @property
    def candidates(self) -> int:
        """How many offers to fill in thought for the next node."""
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
    """Packs counts of a stock's units; `lefts` is what is left of each limit, `most` the work that it may do."""

    def __init__(
        self, stock: BinPackingProblem, counts: Floats, lefts: list[float], work: WorkBudget, most: float = math.inf
    ) -> None:
        self.stock = stock
        self.counts = counts.copy()
        self.lefts = list(lefts)
        self.work = work
        self.pace = Pace(work, most)
        self.bins: list[Bin] = []
        self._retyped: dict[int, int] = {}

    def build(self, taste: FillStrategy, kept: Iterable[Bin] = ()) -> Packing | None:
        """All that can be placed, on existing rows and on new ones, beside new nodes that are kept as they are.

        None where that takes more work than it may.
        """
        stock = self.stock
        for one in kept:
            self._commit(False, one.number, one.units, 1)
        if len(stock.room) and stock.open_to.any():
            prices = Prices(stock, self.counts, self.lefts, existing=True, work=self.work)
            self.fill_existing(prices, taste, np.arange(len(stock.room)))
        if self.pace.goes_on():
            self.pace.opens(stock.size(self.counts))
            self.open(taste)
        return None if self.pace.given_up else self.packing()

    def packing(self) -> Packing:
        """What is packed by now, each bin in the cheapest offer that holds it."""
        return Packing([self._cheapest(one) for one in self.bins], self.counts)

    def open(self, taste: FillStrategy, prices: Prices | None = None) -> None:
        """New nodes for what is left. With `prices` given, these are kept to the end."""
        if prices is not None:
            self._open_until(0.0, prices, taste)
            return
        while self.counts.any():
            prices = Prices(self.stock, self.counts, self.lefts, existing=False, work=self.work)
            before = float(self.counts.sum())
            self.counts -= prices.spared
            self._open_until(REFRESH * float(self.counts @ prices.worth), prices, taste)
            self.counts += prices.spared
            if self.pace.given_up:
                return
            if float(self.counts.sum()) == before:
                self._open_until(0.0, prices, taste)
                return

    def _open_until(self, goal: float, prices: Prices, taste: FillStrategy) -> None:
        """New nodes until the worth of what is left is below the goal ($/hour), or no more can be opened."""
        while self.counts.any() and float(self.counts @ prices.worth) >= goal:
            if not self._open_one(prices, taste, self.stock.dependent) and not self._open_one(prices, taste):
                return
            if not self.pace.goes_on(self.stock.size(self.counts)):
                return

    def fill_existing(self, prices: Prices, taste: FillStrategy, rows: Ints) -> None:
        """Fill these existing rows in turn: with what the optimum puts there, then with what still fits."""
        filled = np.zeros((len(rows), len(self.counts)))
        planned = prices.existing_plan()
        for most in (planned, None):
            for place, row in enumerate(rows.tolist()):
                counts = self.counts if most is None else np.minimum(self.counts, most.get(row, self.counts))
                taken = self._fill_row(row, filled[place], counts, prices, taste)
                filled[place] += taken
                self.counts -= taken
                if most is not None and row in most:
                    most[row] -= taken
                if not self.pace.goes_on():
                    return
        for place, row in enumerate(rows.tolist()):
            if filled[place].any():
                self.bins.append(Bin(True, row, filled[place]))

    def _fill_row(self, row: int, filled: Floats, counts: Floats, prices: Prices, taste: FillStrategy) -> Floats:
        """What of these counts (D) goes into an existing row beside what is in it."""
        stock = self.stock
        active = np.flatnonzero((counts > 0) & stock.open_to[row])
        if not len(active):
            return np.zeros(len(counts))
        taken = fill(
            stock.units.some(active),
            np.maximum(stock.room[[row]] - filled @ stock.requests, 0.0),
            prices.of_existing(row),
            np.ones((1, len(active)), dtype=np.bool_),
            counts[active],
            prices.worth_in_gaps[active],
            taste,
            self.work,
        )
        return self._whole(active, taken[0])

    def _whole(self, active: Ints, taken: Floats) -> Floats:
        whole = np.zeros(len(self.counts))
        whole[active] = taken
        return whole

    def _cheapest(self, one: Bin) -> Bin:
        """The same units in the cheapest offer that holds them and takes no more of any limit."""
        stock = self.stock
        if one.existing:
            return one
        known = self._retyped.get(id(one.units))
        if known is None:
            used = one.units > 0
            holds = (stock.capacity >= one.units @ stock.requests - SLACK).all(axis=1)
            holds &= stock.allowed[:, used].all(axis=1)
            for limit in stock.limits:
                holds &= limit.takes <= limit.takes[one.number]
            known = self._retyped[id(one.units)] = int(np.argmin(np.where(holds, stock.price, np.inf)))
        return Bin(False, known, one.units)

    def _commit(self, existing: bool, number: int, units: Floats, copies: int) -> None:
        self.bins.extend(Bin(existing, number, units) for _ in range(copies))
        self.counts -= units * copies
        if not existing:
            for place, limit in enumerate(self.stock.limits):
                self.lefts[place] -= float(limit.takes[number]) * copies

    def _open_one(self, prices: Prices, taste: FillStrategy, focus: Bools | None = None) -> bool:
        """Open the offer that gets the most worth for its price, as often as it can be filled alike.

        With `focus`, one for these units, which go in before all others.
        """
        stock = self.stock
        active = np.flatnonzero(self.counts > 0)
        wanted = active if focus is None else active[focus[active]]
        offers, resource_prices = self._candidates(prices, active, wanted)
        if not len(offers):
            return False
        allowed = stock.allowed[np.ix_(offers, active)]
        let_in = allowed.any(axis=0)
        active, allowed = active[let_in], allowed[:, let_in]
        urgency = 1.0 + taste.urge * np.maximum(0.0, self._pressure(prices)[active] - CALM)
        if focus is not None:
            urgency[focus[active]] *= FIRST
        taken = fill(
            stock.units.some(active),
            stock.capacity[offers],
            resource_prices,
            allowed,
            self.counts[active],
            prices.worth[active] * urgency,
            taste,
            self.work,
        )
        ratio = (taken @ prices.worth[active]) / prices.cost[offers]
        best = int(np.argmax(ratio))
        if not taken[best].any():
            return False
        number, whole = int(offers[best]), self._whole(active, taken[best])
        self._commit(False, number, whole, self._copies(number, whole))
        return True

    def _pressure(self, prices: Prices) -> Floats:
        """Per unit, how many nodes its host rules need over how many are yet to come."""
        takes = self.stock.requests[:, self.stock.dense :]
        if not takes.shape[1]:
            return np.zeros(len(self.counts))
        needed = self._needed()
        return np.asarray(np.where(takes > 0, needed, 0.0).max(axis=1) / max(1.0, self._coming(prices)))

    def _needed(self) -> Floats:
        """Per host rule, how many nodes what is left of its units needs."""
        stock = self.stock
        if not len(stock.capacity):
            return np.zeros(stock.requests.shape[1] - stock.dense)
        return np.asarray(
            (self.counts @ stock.requests[:, stock.dense :]) / np.maximum(stock.capacity[0, stock.dense :], 1.0)
        )

    def _coming(self, prices: Prices) -> float:
        """About how many nodes are yet to come: the divisible optimum's, by the worth of what is left."""
        before = float(prices.counts @ prices.worth)
        return prices.nodes * float(self.counts @ prices.worth) / max(1e-12, before)

    def _copies(self, number: int, units: Floats) -> int:
        used = units > 0
        copies = int(np.min(self.counts[used] // units[used]))
        for limit, left in zip(self.stock.limits, self.lefts, strict=True):
            if limit.takes[number] > 0:
                copies = min(copies, int(left // limit.takes[number]))
        return max(1, copies)

    def _modest(self, prices: Prices, offers: Ints) -> Bools:
        """Offers that leave enough for the nodes that a host rule needs anyhow; all, where no rule needs so many."""
        needed = float(self._needed().max(initial=0.0))
        if needed <= PRESSED * self._coming(prices):
            return np.ones(len(offers), dtype=np.bool_)
        return np.asarray(prices.cost[offers] <= MODEST * float(self.counts @ prices.worth) / needed)

    def _within_limits(self) -> Bools:
        fine = np.ones(len(self.stock.price), dtype=np.bool_)
        for limit, left in zip(self.stock.limits, self.lefts, strict=True):
            fine &= (limit.takes <= left) | (limit.takes <= 0)
        return fine

    def _candidates(self, prices: Prices, active: Ints, wanted: Ints) -> tuple[Ints, Floats]:
        """The offers of the shortlist that can take something wanted, those that could be worth most first."""
        stock, offers = self.stock, prices.shortlist
        self.work.ranked(len(active), len(offers))
        allowed = stock.allowed[np.ix_(offers, active)]
        fine = self._within_limits()[offers] & stock.allowed[np.ix_(offers, wanted)].any(axis=1)
        usable = np.flatnonzero(fine & self._modest(prices, offers))
        if not len(usable):
            usable = np.flatnonzero(fine)
        rest = allowed[usable] @ (self.counts[active] * prices.worth[active])
        ratio = np.minimum(prices.reach[usable], rest) / prices.cost[offers[usable]]
        order = np.argsort(-ratio, kind="stable")[: self.pace.candidates]
        picked = usable[order]
        return offers[picked], prices.offer_prices[picked]
