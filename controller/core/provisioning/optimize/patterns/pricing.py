"""Find the patterns that are worth more than their bins cost, by branch and bound in all bins of a kind at once.

A pattern is a number of units of each item type that one bin holds. Item types are taken in order of density; a state
is a bin with some units of those taken so far. What the rest could add is bounded by fractional knapsacks: capacities
and requests are added up with several weights for the resources, and a bin holds at most what each sum admits. States
that cannot come to more than is asked for are dropped, and so are the least promising where there are too many: the
best that these could have come to is part of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from controller.core.provisioning.optimize.fill import SLACK
from controller.core.provisioning.resource_space import Bools, Floats, Ints

BLENDS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Weights of the second resource beside the first, as parts of what all units request."""
NO_WORTH = 1e-9
"""$/hour up to which a unit is worth nothing."""
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class PricedBins:
    """G bins. capacity: G x W. allowed: G x D. charge: G, $/hour of a bin with next to no load.

    slope, free: G, $/hour of each unit of the resource `column` beyond `free`.
    """

    capacity: Floats
    allowed: Bools
    charge: Floats
    slope: Floats
    free: Floats
    column: int

    def some(self, rows: Ints) -> PricedBins:
        """Select these bins."""
        return PricedBins(
            self.capacity[rows],
            self.allowed[rows],
            self.charge[rows],
            self.slope[rows],
            self.free[rows],
            self.column,
        )


@dataclass(frozen=True, slots=True)
class Priced:
    """P patterns: units P x D, and the bin of each. most: G, $/hour, no pattern of a bin gains more.

    dropped: $/hour, no pattern that is missing here, though it gains more than was asked for, gains more than this.
    """

    units: Floats
    bins: Ints
    most: Floats
    dropped: float


@dataclass(frozen=True, slots=True)
class Question:
    """D item types, and the patterns that are asked for: those that gain (worth less charge) more than `least`.

    requests: D x W. counts, worth: D, units and the $/hour of one. least: G, $/hour. every: all such patterns, and not
    the best of each bin. states: how many are kept after each item type, of bins that let in the same ones.
    """

    requests: Floats
    counts: Floats
    worth: Floats
    least: Floats
    every: bool
    states: int


def price(bins: PricedBins, asked: Question) -> Priced:
    """Search all bins for the patterns that are asked for."""
    requests, counts, worth, least = asked.requests, asked.counts, asked.worth, asked.least
    allowed: Bools = np.asarray(bins.allowed & (worth > NO_WORTH))
    units, where, most = [np.zeros((0, len(counts)))], [np.zeros(0, dtype=np.int64)], least.copy()
    dropped = -np.inf
    fits: Bools = np.asarray((requests <= bins.capacity[:, None, :] + SLACK).all(axis=2))
    for chosen in _together(allowed, fits):
        items = np.flatnonzero(allowed[chosen[0]])
        search = _Search(
            bins.some(chosen),
            replace(asked, requests=requests[items], counts=counts[items], worth=worth[items], least=least[chosen]),
        )
        patterns, place = search.run()
        whole = np.zeros((len(patterns), len(counts)))
        whole[:, items] = patterns
        units.append(whole)
        where.append(chosen[place])
        most[chosen] = search.most
        dropped = max(dropped, search.dropped)
    return Priced(np.concatenate(units), np.concatenate(where), most, dropped)


def _together(allowed: Bools, fits: Bools) -> list[Ints]:
    """Return the bins that are searched together: they let in the same item types,
    but for those too large for some of them.

    allowed: G x D. fits: G x D, whether a bin of that size holds a unit. The first of each lets in all of the group's.
    """
    groups = list[Ints]()
    rows = np.argsort(-allowed.sum(axis=1), kind="stable")
    while len(rows):
        first, own = allowed[rows[0]], allowed[rows]
        alike = ~((own & ~first) | (first & ~own & fits[rows])).any(axis=1)
        groups.append(rows[alike])
        rows = rows[~alike]
    return groups


class _Search:
    """A search in bins that let in the same item types as far as they fit (D, all of them here), in order of density.

    tracked: columns of which several item types ask for some; the others bound the units of one of them (`fit`: G x D).
    """

    def __init__(self, bins: PricedBins, asked: Question) -> None:
        requests, counts, worth = asked.requests, asked.counts, asked.worth
        self.every, self.states = asked.every, asked.states
        self.least = asked.least
        self.most = asked.least.copy()
        self.dropped = -np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(requests > 0, (bins.capacity[:, None, :] + SLACK) / requests, np.inf).min(axis=2)
        fit = np.minimum(np.floor(room), counts)
        total = counts @ requests
        shared = (requests > 0).sum(axis=0) > 1
        scarce = (bins.capacity < total - SLACK).any(axis=0)
        self.tracked = np.flatnonzero(shared & scarce)
        share = requests[:, self.tracked] / np.maximum(total[self.tracked], SLACK)
        self.order = np.argsort(-worth / np.maximum(share.sum(axis=1), ROUNDING), kind="stable")
        self.bins, self.worth = bins, worth[self.order]
        self.requests, self.fit = requests[self.order], fit[:, self.order]
        self.weights = _weights(total[self.tracked])
        self.counts = fit.max(axis=0)[self.order]

        # L x D, by sum of resources: item types by density, sizes and worths of all their units.
        size = self.weights @ self.requests[:, self.tracked].T
        by_density = np.argsort(-self.worth / np.maximum(size, ROUNDING), axis=1, kind="stable")
        sizes, worths = np.take_along_axis(size * self.counts, by_density, axis=1), (self.worth * self.counts)
        before = np.zeros((len(size), 1))
        # D + 1 x L x (D + 1): the same, summed up, by the item type from which on units are to be chosen.
        density = np.concatenate([before.astype(np.int64) - 1, by_density], axis=1)
        some = density >= np.arange(len(self.worth) + 1)[:, None, None]
        self.sizes = np.cumsum(np.concatenate([before, sizes], axis=1) * some, axis=2)
        self.worths = np.cumsum(np.concatenate([before, worths[by_density]], axis=1) * some, axis=2)
        self.most_worth = np.append(np.cumsum(worths[::-1])[::-1], 0.0)

    def run(self) -> tuple[Ints, Ints]:
        """Return P patterns (P x D), and the place of each one's bin."""
        place = np.arange(len(self.bins.charge))
        free = self.bins.capacity[:, self.tracked].copy()
        gain = -self.bins.charge.copy()
        load = np.zeros(len(place))
        units = np.zeros((len(place), len(self.worth)), dtype=np.int16)
        asks = self.requests[:, self.tracked]
        cpu = self.requests[:, self.bins.column]
        known = self.least.copy()
        for item in range(len(self.worth) + 1):
            paid = gain - self._surplus(place, load)
            best = np.full(len(self.least), -np.inf)
            np.maximum.at(best, place, paid)
            self.most = np.maximum(self.most, best)
            if not self.every:
                known = np.maximum(known, best)
            reach = paid + self._rest(item, free)
            kept = np.flatnonzero((reach >= known[place] - ROUNDING) & (reach > self.least[place]))
            if len(kept) > self.states:
                ranked = kept[np.argsort(-(reach[kept] - self.least[place[kept]]), kind="stable")]
                kept, dropped = ranked[: self.states], ranked[self.states :]
                np.maximum.at(self.most, place[dropped], reach[dropped])
                self.dropped = max(self.dropped, float(reach[dropped].max()))
            place, free, gain, load, units = place[kept], free[kept], gain[kept], load[kept], units[kept]
            if item == len(self.worth) or not len(kept):
                break
            room = self.fit[place, item]
            for column in np.flatnonzero(asks[item]).tolist():
                room = np.minimum(room, np.floor((free[:, column] + SLACK) / asks[item, column]))
            ways = room.astype(np.int64) + 1
            source = np.repeat(np.arange(len(place)), ways)
            taken = np.arange(len(source)) - np.repeat(np.cumsum(ways) - ways, ways)
            place, free, units = place[source], free[source] - taken[:, None] * asks[item], units[source]
            units[:, item] = taken
            gain, load = gain[source] + taken * self.worth[item], load[source] + taken * cpu[item]
        original = np.empty_like(units)
        original[:, self.order] = units
        return original.astype(np.int64), place

    def _surplus(self, place: Ints, load: Floats) -> Floats:
        """Return the $/hour of each state's load."""
        return np.asarray(self.bins.slope[place] * np.maximum(0.0, load - self.bins.free[place]))

    def _rest(self, item: int, free: Floats) -> Floats:
        """Return the $/hour that units of the item types from this one on could add at most to bins with so much free
        (S x W)."""
        most = np.full(len(free), self.most_worth[item])
        held = self.weights @ free.T + SLACK
        for row, sizes, worths in zip(held, self.sizes[item], self.worths[item], strict=True):
            np.minimum(most, np.interp(row, sizes, worths), out=most)
        return most


def _weights(total: Floats) -> Floats:
    """Return L x W: weights of the resources, of which all units together ask for `total`:
    each alone, and the first two."""
    share = 1.0 / np.maximum(total, SLACK)
    rows = [np.where(np.arange(len(total)) == each, share, 0.0) for each in range(len(total))]
    rows += [rows[0] + blend * rows[1] for blend in BLENDS] if len(rows) > 1 else []
    return np.array(rows).reshape(len(rows), len(total))
