"""Which offerings a fleet request names for a node, and what the node is then expected to cost.

A spot request that names a single offering fails when that one has no capacity. With `price-capacity-optimized`, EC2
picks the pools with the most spare capacity first and cheap ones among these, so the price of a spot node lies
somewhere among the offerings named, not at the cheapest. On-demand fleets use the lowest price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from controller.core.api.labels import SPOT
from controller.core.cloud import PricedOffering

LONE_POOL_RATE = 0.2 / 730
"""Interruptions an hour of a node whose request named a single pool: 20 % a month, where the highest band of AWS's Spot
Instance Advisor begins. Of k pools EC2 picks the one with most spare capacity. With capacities spread evenly from none
to full, the best of k pools lacks 1 / (k + 1) of it on the mean and a single one half: interruptions are taken to be in
proportion, 2 / (k + 1) of those of a lone pool."""


@dataclass(frozen=True, slots=True)
class Flexibility:
    """How far from the cheapest price a fleet request goes for more offerings."""

    price_spread: float = 0.25
    """Share of the cheapest price, surplus CPU counted in. Offerings beyond it are left out, or EC2 could undo what the
    plan saves; when the cheap ones run out of capacity, the next request names dearer ones."""
    spot_offerings: int = 3
    """Offerings that a spot request names at least, if there are so many within the spread. Where none of them has
    capacity, the same launch names the others at once."""
    interruption_cost: float = 1.0
    """$ that an interruption of a spot node costs: lost work, pods that start again."""

    def named(self, offerings: Sequence[PricedOffering]) -> list[PricedOffering]:
        """Return the offerings that a request names, in the order given: on demand all within the spread.

        Of spot within the spread, the cheapest whose mean price and interruptions are least together, and no fewer than
        `spot_offerings` of them if there are so many.
        """
        if not offerings:
            return []
        most = min(offering.charged for offering in offerings) * (1 + self.price_spread)
        near = [offering for offering in offerings if offering.charged <= most]
        spot = sorted(offering for offering in near if offering.capacity_type == SPOT)
        chosen = set(spot[: self._spot_named([offering.charged for offering in spot])])
        return [offering for offering in near if offering.capacity_type != SPOT or offering in chosen]

    def _spot_named(self, prices: Sequence[float]) -> int:
        """Return how many of the spot offerings within the spread to name. `prices`: theirs, ascending."""
        best, chosen, total = float("inf"), 0, 0.0
        for count, price in enumerate(prices, start=1):
            total += price
            paid = total / count + self.interruption_cost * LONE_POOL_RATE * 2 / (count + 1)
            if count >= min(self.spot_offerings, len(prices)) and paid <= best:
                best, chosen = paid, count
        return chosen

    def expected_price(self, planned: PricedOffering, named: Sequence[PricedOffering]) -> float:
        """Return the $/hour that the node is expected to cost: for spot the mean of the offerings named."""
        return planned.price if planned.capacity_type != SPOT else fmean(offering.price for offering in named)
