"""How many offerings a node keeps, and what it is then expected to cost.

A spot node that names one offering waits when that one is out of capacity, and dies with it. EC2 picks from what a
fleet names by `price-capacity-optimized`: pools with capacity to spare first, cheap ones among these. So the price of a
spot node is somewhere among those that are sent, not the cheapest; on-item fleets take the lowest price.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.api.labels import SPOT
from controller.core.cloud import PricedOffering

PRICE_SPREAD = 0.25
"""Default: offerings that cost more than the cheapest by over this share are not sent along, lest EC2 undo what the
plan saves; when the cheap ones have no capacity, dearer ones are the cheapest left."""
SPOT_OFFERINGS = 5
"""Default: so many offerings a spot fleet names where it can, up to twice the spread (the number of types below which
Karpenter v0.27 warns that spot has a narrow choice)."""


def within_spread(offerings: Sequence[PricedOffering], spread: float, spot_offerings: int = 1) -> list[PricedOffering]:
    """Of offerings that would do, those that a fleet is asked for: near the cheapest in price, in their order.

    Spot takes in the next cheapest beyond `spread` (a share of the cheapest price), but none beyond twice that, until
    there are `spot_offerings`.
    """
    if not offerings:
        return []
    cheapest = min(offering.price for offering in offerings)
    limit = cheapest * (1 + spread)
    spot = sorted(offering.price for offering in offerings if offering.capacity_type == SPOT)
    if spot and spot_offerings > 1:
        limit = max(limit, min(spot[min(spot_offerings, len(spot)) - 1], cheapest * (1 + 2 * spread)))
    return [o for o in offerings if o.price <= limit]


def expected_price(
    planned: PricedOffering, alternatives: Sequence[PricedOffering], spread: float, spot_offerings: int
) -> float:
    """$ an hour that the node is expected to cost: the mean of what a spot fleet is asked for; on item the cheapest.

    Only offerings of the planned capacity type count: others are asked for when these have no capacity.
    """
    if planned.capacity_type != SPOT:
        return planned.price
    alike = (planned, *(o for o in alternatives if o.capacity_type == SPOT))
    asked = within_spread(alike, spread, spot_offerings)
    return sum(offering.price for offering in asked) / len(asked)


def runner_up(planned: PricedOffering, alternatives: Sequence[PricedOffering]) -> PricedOffering | None:
    """The first of the alternatives (cheapest first) that is of another type or capacity type; None: there is none."""
    mine = (planned.instance_type, planned.capacity_type)
    return next((o for o in alternatives if (o.instance_type, o.capacity_type) != mine), None)
