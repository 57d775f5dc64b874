"""DescribeSpotPriceHistory from the sandbox's spot market.

Source: EC2 API reference. AWS answers both Linux product descriptions with "Linux/UNIX"; other products have no prices
here. Newest first, as AWS sorts.
"""

from __future__ import annotations

from typing import Any

from sandbox.aws import filters
from sandbox.aws.clock import utc
from sandbox.aws.ec2.catalog import Catalog
from sandbox.aws.market.market import Market
from sandbox.aws.paging import page
from sandbox.aws.wire import Params

_FILTERS = {"availability-zone": "AvailabilityZone", "instance-type": "InstanceType",
            "product-description": "ProductDescription", "spot-price": "SpotPrice"}  # fmt: skip
_LINUX = {"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}
_HISTORY_SECONDS = 90 * 86_400.0


class SpotPrices:
    """The history of one region's pools."""

    def __init__(self, catalog: Catalog, market: Market) -> None:
        self._catalog = catalog
        self._market = market

    def describe(self, params: Params, now: float) -> Params:
        """DescribeSpotPriceHistory; without StartTime the last six hours, at most 90 days back."""
        wanted = params.get("Filters", [])
        filters.check(wanted, _FILTERS.__contains__)
        products = params.get("ProductDescriptions", [])
        if products and not _LINUX & set(products):
            return {"SpotPriceHistory": [], "NextToken": ""}
        start = max(_seconds(params, "StartTime", now), now - _HISTORY_SECONDS)
        end = min(_seconds(params, "EndTime", now), now)
        times = sorted(self._market.changes(min(start, now), end), reverse=True)
        types = set(params.get("InstanceTypes", []))
        zone = params.get("AvailabilityZone")
        rows = [
            self._row(name, where, at)
            for at in times
            for name, where in self._catalog.spot_pools()
            if (not types or name in types) and (zone is None or where == zone)
        ]
        found = [row for row in rows if row and filters.matches(row, wanted, _values, {})]
        some, token = page(found, params, default_size=1000, error_code="InvalidNextToken")
        return {"SpotPriceHistory": some, "NextToken": token or ""}

    def _row(self, instance_type: str, zone: str, at: float) -> dict[str, Any]:
        price = self._market.spot(instance_type, zone, at)
        if price is None:
            return {}
        return {
            "AvailabilityZone": zone, "InstanceType": instance_type, "ProductDescription": "Linux/UNIX",
            "SpotPrice": f"{price:.6f}", "Timestamp": utc(at),
        }  # fmt: skip


def _values(row: dict[str, Any], name: str) -> list[str] | None:
    return [row[_FILTERS[name]]] if name in _FILTERS else None


def _seconds(params: Params, key: str, default: float) -> float:
    value = params.get(key)
    return default if value is None else float(value.timestamp())
