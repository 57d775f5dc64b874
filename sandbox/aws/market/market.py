"""What capacity costs and how deep its pools are: the on-demand list, and a seeded model of the spot market.

A pool is an instance type in one zone. Spot prices are a share of the on-demand price whose quantiles over all pools
are those of AWS's published prices in 2021: a tenth below 0.21, half below 0.30, nine tenths below 0.65. Zones of a
type are alike but not equal, and each pool's price moves by up to 4 % every six hours.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np

from sandbox.aws.seeded import Seeded

PERIOD_SECONDS = 6 * 3600.0
_SHARES = ((0.0, 0.1, 0.5, 0.9, 1.0), (0.16, 0.21, 0.30, 0.65, 0.85))


@dataclass(frozen=True, slots=True)
class PriceList:
    """On-demand Linux prices of one region, $/hour, and which of them are estimates."""

    prices: dict[str, float]
    estimated: frozenset[str]

    @classmethod
    def load(cls, region: str) -> PriceList:
        """Read the packaged list; raises ValueError for a region without prices."""
        packed = resources.files("sandbox.aws").joinpath("data/prices.json.gz").read_bytes()
        document = json.loads(gzip.decompress(packed))
        if region not in document["prices"]:
            raise ValueError(f"no prices for region {region}; known: {', '.join(sorted(document['prices']))}")
        return cls(document["prices"][region], frozenset(document["estimated"][region]))


@dataclass(frozen=True, slots=True)
class Pool:
    """Spot or on-demand capacity of one type in one zone."""

    instance_type: str
    zone: str
    capacity_type: str


class Market:
    """Prices and depths. `started_at` (Unix seconds) is where the spot market's periods are counted from."""

    def __init__(self, price_list: PriceList, seeded: Seeded, started_at: float) -> None:
        self.price_list = price_list
        self._seeded = seeded
        self._started_at = started_at
        self._set_prices: dict[Pool, float] = {}

    def set_price(self, pool: Pool, price: float) -> None:
        """Script a price from now on. An on-demand price is regional: its zone is ignored. $/hour, > 0."""
        if price <= 0:
            raise ValueError(f"a price must be above 0: {price}")
        key = pool if pool.capacity_type == "spot" else replace(pool, zone="")
        self._set_prices[key] = price

    def price(self, pool: Pool, at: float) -> float | None:
        """$/hour at a time; None for a type that has no price."""
        if pool.capacity_type == "spot":
            return self.spot(pool.instance_type, pool.zone, at)
        return self.on_demand(pool.instance_type)

    def on_demand(self, instance_type: str) -> float | None:
        """$/hour, shared tenancy (or bare metal)."""
        scripted = self._set_prices.get(Pool(instance_type, "", "on-demand"))
        return self.price_list.prices.get(instance_type) if scripted is None else scripted

    def spot(self, instance_type: str, zone: str, at: float) -> float | None:
        """$/hour of a spot pool, to a hundredth of a cent as AWS quotes it."""
        scripted = self._set_prices.get(Pool(instance_type, zone, "spot"))
        if scripted is not None:
            return scripted
        full = self.price_list.prices.get(instance_type)
        if full is None:
            return None
        drift = 1 + 0.08 * (self._seeded.unit("drift", instance_type, zone, self._period(at)) - 0.5)
        return max(0.0001, round(full * self._share(instance_type, zone) * drift, 4))

    def changes(self, start: float, end: float) -> Iterator[float]:
        """The price in force at `start` dates from the first time given; then each later change up to `end`."""
        for period in range(self._period(start), self._period(end) + 1):
            yield self._started_at + period * PERIOD_SECONDS

    def depth(self, pool: Pool) -> float:
        """How much capacity is spare, 0 (nearly none) to 1: what capacity-optimized strategies look at."""
        return self._seeded.unit("depth", pool.instance_type, pool.zone, pool.capacity_type)

    def _share(self, instance_type: str, zone: str) -> float:
        position = self._seeded.unit("type", instance_type) + 0.2 * (
            self._seeded.unit("zone", instance_type, zone) - 0.5
        )
        reflected = abs(position) if position <= 1 else 2 - position
        return float(np.interp(reflected, *_SHARES))

    def _period(self, at: float) -> int:
        return int((at - self._started_at) // PERIOD_SECONDS)
