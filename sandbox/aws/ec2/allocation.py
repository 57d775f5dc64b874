"""EC2 Fleet's allocation strategies: in which order a fleet tries its pools.

Source: EC2 user guide "Use allocation strategies to determine how EC2 Fleet or Spot Fleet fulfills Spot and On-Demand
capacity". AWS doesn't publish its formulas; the ones here keep what the guide promises of each strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SPOT_STRATEGIES = (
    "lowest-price",
    "diversified",
    "capacity-optimized",
    "capacity-optimized-prioritized",
    "price-capacity-optimized",
)
ON_DEMAND_STRATEGIES = ("lowest-price", "prioritized")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pool that a fleet may launch from. `index` is its place in the request, `price` $/hour per instance."""

    index: int
    price: float
    depth: float
    """Spare capacity, 0 to 1."""
    priority: float | None
    """Lower is better; None: last."""
    weight: float
    """Units of capacity per instance."""


def order(candidates: Sequence[Candidate], strategy: str) -> list[Candidate]:
    """Candidates in the order of trial; equal ones stay in the order of the request.

    lowest-price: by price per unit. prioritized: by Priority. capacity-optimized: deepest first.
    capacity-optimized-prioritized: among pools of about the same depth (fifths) by Priority.
    price-capacity-optimized: by price, a shallow pool counting as up to 30 % dearer. diversified: as given.
    """
    last = float("inf")

    def rank(c: Candidate) -> tuple[float, float]:
        unit_price = c.price / c.weight
        priority = last if c.priority is None else c.priority
        match strategy:
            case "lowest-price":
                return unit_price, 0.0
            case "prioritized":
                return priority, unit_price
            case "capacity-optimized":
                return -c.depth, unit_price
            case "capacity-optimized-prioritized":
                return -int(c.depth * 5), priority
            case "price-capacity-optimized":
                return unit_price * (1.3 - 0.3 * c.depth), unit_price
            case _:
                return 0.0, 0.0

    return sorted(candidates, key=lambda c: (*rank(c), c.index))
