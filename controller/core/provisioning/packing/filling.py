"""Filling: new nodes are opened one kind after the other, each filled with the pods that make it worth its price.

The dual prices say what each pod is worth. A few offerings are filled in thought with the pods that are left, and the
one that gets the most worth for its price is opened, as many times over as there are pods for the same filling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.packing.pricing import Candidates, Prices, candidates, dual_prices, promising
from controller.core.provisioning.resource_space import Bools, Floats, Ints

FILLED_AT_MOST = 1500
"""Items up to which filling pays: beyond, most nodes hold few pods, and class by class is as good and faster."""
ASCENT_ROUNDS = 150


def fill(packer: Packer, items: Sequence[Item]) -> None:
    """Place what can be placed, if the packer's style is to fill; what is left stays in each item's `count`."""
    options, catalog = packer.options, packer.catalog
    if not packer.style.filled or len(items) > FILLED_AT_MOST or not len(catalog):
        return
    packer.fill_existing(items)
    waiting = [item for item in items if item.count]
    offered = candidates(catalog, waiting, options.node_cost_per_hour, packer.premium) if waiting else None
    if offered is None or not len(offered.option):
        return
    requests = np.array([item.request for item in waiting])
    offered = promising(offered, requests)
    counts = np.array([float(item.count) for item in waiting])
    prices = dual_prices(offered, requests, counts, ASCENT_ROUNDS)
    Filler(packer, waiting, offered, prices).run()


@dataclass(frozen=True, slots=True)
class Filling:
    """What one node of a candidate would hold: units by item, and their worth over the node's price."""

    candidate: int
    units: Ints
    ratio: float


class Filler:
    """Opens rows for the items of one packing round."""

    def __init__(self, packer: Packer, items: Sequence[Item], offered: Candidates, prices: Prices) -> None:
        self.packer = packer
        self.items = items
        self.offered = offered
        self.prices = prices
        self.requests: Floats = np.array([item.request for item in items])
        self.left: Floats = np.array([float(item.count) for item in items])
        caps = [min((packer.hosts.empty_cap(r) for r in d.rules), default=np.inf) for d in items]
        self.caps: Floats = np.array(caps)
        self.worth: Floats = np.where(np.isfinite(prices.values), prices.values, 0.0)
        self._signatures: Ints = np.array([item.mask.signature for item in items], dtype=np.int64)
        self._rivals = self._find_rivals()
        self.exclusive: Bools = np.array([packer.limited_only(item) for item in items], dtype=np.bool_)
        self._banned: Bools = np.zeros(len(offered.option), dtype=np.bool_)

    def _find_rivals(self) -> dict[int, Ints]:
        """For each item with host rules, the items of the same groups: one of them a node is enough here."""
        members: dict[int, list[int]] = {}
        for number, item in enumerate(self.items):
            for rule in item.rules:
                members.setdefault(rule.group.index, []).append(number)
        found = {}
        for number, item in enumerate(self.items):
            if item.rules:
                together = {other for rule in item.rules for other in members[rule.group.index]} - {number}
                found[number] = np.array(sorted(together), dtype=np.int64)
        return found

    def run(self) -> None:
        """Open and fill rows until no item can be placed so."""
        restricted = np.isfinite(self.prices.charges).sum(axis=1)
        order = sorted(range(len(self.items)), key=lambda n: self._turn(n, int(restricted[n])))
        for seed in order:
            while self.left[seed] > 0 and self.caps[seed] >= 1 and restricted[seed]:
                filling = self._best(seed)
                if filling is None or not self._open(filling):
                    break

    def _turn(self, number: int, choices: int) -> tuple[bool, int, int, float, int]:
        """Who depends on limits goes first, the oldest, then the small before the large; then who has the least choice,
        large first."""
        exclusive, size = bool(self.exclusive[number]), self.items[number].size
        waited = self.items[number].waited if exclusive else 0
        first = choices if self.packer.style.choosy_first else 0
        return (not exclusive, -waited, first, size if exclusive else -size, number)

    def _best(self, seed: int) -> Filling | None:
        """The filling with the most worth for its price, of the candidates that look best for the seed."""
        charges = np.where(self._banned, np.inf, self.prices.charges[seed])
        looks = charges * self._waste(charges)
        best: Filling | None = None
        for candidate in np.argsort(looks, kind="stable")[: self.packer.style.tries].tolist():
            if not np.isfinite(charges[candidate]):
                break
            filling = self._fill(seed, candidate)
            if best is None or filling.ratio > best.ratio + 1e-12:
                best = filling
        return best

    def _waste(self, charges: Floats) -> Floats:
        """How much dearer a candidate gets because too little is left to fill it; 1 where there is plenty."""
        usable = np.isfinite(charges)
        rest = np.zeros(len(charges))
        rest[usable] = (self.left * self.worth) @ self.offered.allowed[:, usable]
        return np.where(rest < self.offered.price, self.offered.price / np.maximum(rest, 1e-12), 1.0)

    def _fill(self, seed: int, candidate: int) -> Filling:
        """Fill one node: the seed first, then whatever is worth most for the scarcest of what is left."""
        free = self.offered.allocatable[candidate].copy()
        units = np.zeros(len(self.left))
        eligible = np.flatnonzero((self.left > 0) & np.isfinite(self.prices.charges[:, candidate]) & (self.caps >= 1))
        requests, worth = self.requests[eligible], self.worth[eligible]
        room = np.minimum(self.left, self.caps)[eligible]
        place = int(np.searchsorted(eligible, seed))
        first_in = self.exclusive[eligible] if self.exclusive[seed] else None
        signature = int(self.packer.signatures.base[self.offered.option[candidate]])
        first = True
        while True:
            if not first:
                with np.errstate(divide="ignore", invalid="ignore"):
                    shares = np.where(requests > 0, requests / free, 0.0).max(axis=1)
                density = np.where((room >= 1) & (shares <= 1.0), worth / np.maximum(shares, 1e-12), -1.0)
                if first_in is not None:
                    density = np.where(first_in & (density >= 0), density + 1e12, density)
                place = int(density.argmax())
                if density[place] < 0:
                    break
            asked = requests[place] > 0
            fit = np.floor((free[asked] / requests[place][asked]).min()) if asked.any() else room[place]
            amount = min(room[place], max(1.0, fit // self.packer.style.portions), fit)
            free -= amount * requests[place]
            units[eligible[place]] += amount
            room[place] -= amount
            self._bar_others(int(eligible[place]), eligible, room)
            signature = self._settle(signature, int(eligible[place]), eligible, room)
            first = False
        ratio = float(units @ self.worth) / float(self.offered.price[candidate])
        return Filling(candidate, units.astype(np.int64), ratio)

    def _bar_others(self, number: int, eligible: Ints, room: Floats) -> None:
        """Items that share a host rule with one that is in do not join it here."""
        rivals = self._rivals.get(number)
        if rivals is not None and len(rivals):
            room[np.isin(eligible, rivals)] = 0

    def _settle(self, signature: int, number: int, eligible: Ints, room: Floats) -> int:
        """The node's open labels once the item is in; items that want other values do not join it."""
        wanted = int(self._signatures[number])
        if not wanted:
            return signature
        merge = self.packer.signatures.merge
        settled = merge(signature, wanted)
        for other in np.unique(self._signatures[eligible]).tolist():
            if merge(settled, other) < 0:
                room[self._signatures[eligible] == other] = 0
        return settled

    def _open(self, filling: Filling) -> bool:
        """Open the filled row, as often as it can be filled alike and limits allow; False when they do not."""
        packer, candidate = self.packer, filling.candidate
        option = int(self.offered.option[candidate])
        pool = int(packer.catalog.pool_of[option])
        used = np.flatnonzero(filling.units)
        copies = int(np.floor(self.left[used] / filling.units[used]).min())
        allowed = packer.limits.copies(pool, option)
        if allowed is not None and allowed < copies:
            copies = allowed
            self._banned[self.offered.option == option] |= allowed <= copies
        if copies < 1:
            self._banned[self.offered.option == option] = True
            return bool((~self._banned).any())
        first = packer.open_blank(option, copies)
        rows = np.arange(first, first + copies)
        for number in used.tolist():
            packer.place(self.items[number], rows, np.full(copies, float(filling.units[number])))
            self.left[number] -= copies * filling.units[number]
        return True
