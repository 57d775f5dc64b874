"""Local search: a few bins that waste most are emptied, and what they held is packed anew, if that is cheaper.

What a bin wastes is its price less the worth of what it holds, by the divisible optimum of all units. What was taken
out first fills gaps of the bins that stay, then new ones; a round that is no cheaper is taken back. Every bin is tried
with other partners and another way of filling, until no try helps or the work allowed is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.refine_build import LOST, Bin, Builder, Packing
from controller.core.provisioning.refine_fill import Taste, fill
from controller.core.provisioning.refine_prices import Prices, Work
from controller.core.provisioning.refine_stock import Stock
from controller.core.provisioning.resources import Bools, Floats, Ints

PARTNERS = (1, 2, 4)
"""How many bins are emptied beside the first one: try after try."""
IN_VAIN = 30
"""The search ends when so many rounds one after the other did not help."""
GAPS = 6
"""Bins that stay and have room for emptied units: so many are filled up first."""
BETTER = 1e-6
"""$/hour by which a round must be cheaper."""


@dataclass(slots=True)
class _Held:
    """A bin in the search. tries: rounds that began with it and did not help. waste: $/hour."""

    bin: Bin
    waste: float
    tries: int = 0


class Search:
    """Improves a packing of a stock's units."""

    def __init__(self, stock: Stock, start: Packing, tastes: Sequence[Taste], work: Work) -> None:
        self.stock = stock
        self.tastes = tastes
        self.work = work
        lefts = [limit.left for limit in stock.limits]
        standing = bool(len(stock.room)) and bool(stock.open_to.any())
        self.prices = Prices(stock, stock.counts, lefts, standing=standing, work=work)
        self.left = start.left.copy()
        self.held = [self._hold(one) for one in start.bins]
        self.lefts = lefts
        self._spend(start.bins, 1.0)

    def run(self) -> Packing:
        """The best packing found."""
        in_vain = 0
        while not self.work.over and in_vain < IN_VAIN:
            waiting = [number for number, one in enumerate(self.held) if one.tries < len(PARTNERS) and one.waste > 0]
            if not waiting:
                break
            first = min(waiting, key=lambda number: (self.held[number].tries, -self.held[number].waste, number))
            tries = self.held[first].tries
            self.held[first].tries += 1
            helped = self._round(self._victims(first, PARTNERS[tries]), self.tastes[tries % len(self.tastes)])
            in_vain = 0 if helped else in_vain + 1
        return Packing([one.bin for one in self.held], self.left)

    def _hold(self, one: Bin) -> _Held:
        price = 0.0 if one.standing else float(self.prices.cost[one.number])
        worth = float(one.units @ self.prices.worth)
        return _Held(one, price - worth if not one.standing else self._idle(one))

    def _idle(self, one: Bin) -> float:
        """$/hour that an existing row's free room would be worth."""
        prices = self.prices.of_standing(one.number)[0]
        return float(np.maximum(0.0, self.stock.room[one.number] - one.units @ self.stock.requests) @ prices)

    def _spend(self, bins: Sequence[Bin], sign: float) -> None:
        for place, limit in enumerate(self.stock.limits):
            self.lefts[place] -= sign * sum(float(limit.takes[one.number]) for one in bins if not one.standing)

    def _victims(self, first: int, partners: int) -> Ints:
        """The first bin, and those that waste most of the ones that could hold something of it or lend it something."""
        mine = self.held[first].bin.units > 0
        own = self._allowed([self.held[first].bin])[0]
        numbers = np.array([number for number in range(len(self.held)) if number != first], dtype=np.int64)
        if not len(numbers):
            return np.array([first])
        allowed = self._allowed([self.held[number].bin for number in numbers.tolist()])
        holds = np.stack([self.held[number].bin.units > 0 for number in numbers.tolist()])
        fine = allowed[:, mine].any(axis=1) | (holds & own).any(axis=1)
        waste = np.array([self.held[number].waste for number in numbers.tolist()])
        order = np.argsort(-np.where(fine, waste, -np.inf), kind="stable")[:partners]
        return np.concatenate([[first], numbers[order[fine[order]]]])

    def _allowed(self, bins: Sequence[Bin]) -> Bools:
        stock = self.stock
        return np.stack([stock.open_to[one.number] if one.standing else stock.allowed[one.number] for one in bins])

    def _round(self, victims: Ints, taste: Taste) -> bool:
        """Empty the victims and pack anew; False, and all as it was, if that is no cheaper."""
        emptied = [self.held[number].bin for number in victims.tolist()]
        before = self._cost(emptied, self.left)
        counts = np.sum([one.units for one in emptied], axis=0) + self.left
        self._spend(emptied, -1.0)
        builder = Builder(self.stock, counts, self.lefts, self.work)
        builder.fill_standing(self.prices, taste, np.array([one.number for one in emptied if one.standing], dtype=int))
        staying = np.setdiff1d(np.arange(len(self.held)), victims)
        grown = self._fill_gaps(builder, staying, taste)
        builder.open(taste, self.prices)
        packed = builder.packing()
        if self._cost(packed.bins, packed.left) > before - BETTER:
            self._spend(emptied, 1.0)
            return False
        for number, one in grown.items():
            self.held[number] = self._hold(one)
        self.left = packed.left
        self._spend(packed.bins, 1.0)
        gone = set(victims.tolist())
        self.held = [one for number, one in enumerate(self.held) if number not in gone]
        self.held.extend(self._hold(one) for one in packed.bins)
        return True

    def _cost(self, bins: Sequence[Bin], left: Floats) -> float:
        return sum(float(self.stock.price[one.number]) for one in bins if not one.standing) + LOST * float(left.sum())

    def _fill_gaps(self, builder: Builder, staying: Ints, taste: Taste) -> dict[int, Bin]:
        """Units that go into bins that stay: the bins as they then are, by their place."""
        stock, grown = self.stock, dict[int, Bin]()
        active = np.flatnonzero(builder.counts > 0)
        if not len(staying) or not len(active):
            return grown
        bins = [self.held[number].bin for number in staying.tolist()]
        whole = np.stack([stock.room[one.number] if one.standing else stock.capacity[one.number] for one in bins])
        free = whole - np.stack([one.units for one in bins]) @ stock.requests
        allowed = self._allowed(bins)[:, active]
        room = stock.units.some(active).room(free, np.broadcast_to(builder.counts[active], allowed.shape))
        gain = np.where(allowed, np.maximum(room, 0.0), 0.0) * self.prices.worth[active]
        self.work.filled(len(active), len(bins), 1.0)
        most = gain.max(axis=1)
        for place in np.argsort(-most, kind="stable")[:GAPS].tolist():
            if most[place] <= 0:
                break
            one = bins[place]
            prices = self.prices.of_standing(one.number) if one.standing else self.prices.of_offer(one.number)
            left = builder.counts[active]
            taken = fill(
                stock.units.some(active),
                np.maximum(free[[place]], 0.0),
                prices,
                allowed[[place]],
                left,
                self.prices.worth[active],
                taste,
            )[0]
            if taken.any():
                units = one.units.copy()
                units[active] += taken
                builder.counts[active] -= taken
                grown[int(staying[place])] = Bin(one.standing, one.number, units)
        return grown
