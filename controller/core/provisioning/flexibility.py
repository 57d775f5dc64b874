"""Which offerings a fleet request names for a node, and what the node is then expected to cost.

A spot request that names a single offering fails when that one has no capacity. With `price-capacity-optimized`, EC2
picks the pools with the most spare capacity first and cheap ones among these, so the price of a spot node lies
somewhere among the offerings named, not at the cheapest. On-demand fleets use the lowest price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.core.api.labels import SPOT
from controller.core.cloud import PricedOffering


@dataclass(frozen=True, slots=True)
class Flexibility:
    """How far from the cheapest price a fleet request goes for more offerings."""

    price_spread: float = 0.25
    """Share of the cheapest price, surplus CPU counted in. Offerings beyond it are left out, or EC2 could undo what the
    plan saves; when the cheap ones run out of capacity, the next request names dearer ones."""
    spot_offerings: int = 5
    """Offerings that a spot request names if they exist within twice the spread. 5 is the number of instance types
    below which Karpenter v0.27 warns of a narrow choice."""

    def named(self, offerings: Sequence[PricedOffering]) -> list[PricedOffering]:
        """The offerings that a request names, in the order given: those within the spread, and for spot the next ones
        up to twice the spread until there are `spot_offerings`."""
        if not offerings:
            return []
        cheapest = min(offering.charged for offering in offerings)
        limit = cheapest * (1 + self.price_spread)
        spot = sorted(offering.charged for offering in offerings if offering.capacity_type == SPOT)
        if spot and self.spot_offerings > 1:
            last = spot[min(self.spot_offerings, len(spot)) - 1]
            limit = max(limit, min(last, cheapest * (1 + 2 * self.price_spread)))
        return [offering for offering in offerings if offering.charged <= limit]

    def expected_price(self, planned: PricedOffering, alternatives: Sequence[PricedOffering]) -> float:
        """$/hour that the node is expected to cost: on demand the planned price, for spot the mean of those named.

        Alternatives of the other capacity type do not count: they are requested only when these have no capacity.
        """
        if planned.capacity_type != SPOT:
            return planned.price
        named = self.named((planned, *(o for o in alternatives if o.capacity_type == SPOT)))
        return sum(offering.price for offering in named) / len(named)
