"""Prices of instance types: on-demand from the Pricing API, spot from EC2's spot price history.

Sources: AWS Price List Query API (GetProducts, service AmazonEC2), EC2 DescribeSpotPriceHistory. An
offering without a price is unavailable: nothing is bought at an unknown price.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog

from controller.aws.api.aws_errors import translated
from controller.core.api.document import mapping
from controller.core.api.labels import SPOT
from controller.core.cloud import Commitment
from controller.core.price_rules import OfferingId, PriceBook, PriceRule
from controller.core.untrusted_json import UnreadableJsonError, read_object
from controller.errors import CloudError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_pricing import PricingClient
    from mypy_boto3_pricing.type_defs import FilterTypeDef

_log = structlog.get_logger("pricing")

SPOT_PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_TENANCIES = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))
_COMMON = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}


@dataclass(frozen=True, slots=True)
class Prices:
    """$ an hour (CNY in China's regions). `version` changes with the content."""

    version: int = 0
    on_demand: Mapping[str, float] = field(default_factory=dict)
    """By instance type."""
    spot: Mapping[tuple[str, str], float] | None = None
    """By (instance type, zone). None: not read yet; the on-demand price, an upper bound, is used instead."""
    book: PriceBook = field(default_factory=PriceBook)
    """The user's discounts and commitments."""
    listed: bool = False
    """Whether the Pricing API has answered; until then the on-demand prices are those shipped with the controller."""

    def of(self, capacity_type: str, instance_type: str, zone: str) -> float | None:
        """Return what the user pays for an offering; None without a list price, even if a rule sets a price."""
        return self.offer(capacity_type, instance_type, zone)[0]

    def offer(self, capacity_type: str, instance_type: str, zone: str) -> tuple[float | None, Commitment | None]:
        """Return the price of `of`, and for how many instances it holds (None: for any number)."""
        listed = self._listed(capacity_type, instance_type, zone)
        if listed is None or not self.book.rules:
            return listed, None
        offering = capacity_type, instance_type, zone
        return self.book.price(*offering, listed), self.book.commitment(*offering, listed)

    def _listed(self, capacity_type: str, instance_type: str, zone: str) -> float | None:
        if capacity_type == SPOT and self.spot is not None:
            return self.spot.get((instance_type, zone))
        return self.on_demand.get(instance_type)


class Pricing:
    """Reads prices and holds the latest. A failed refresh raises and keeps the earlier ones. Safe for many threads."""

    def __init__(
        self,
        ec2: EC2Client,
        pricing: PricingClient,
        region: str,
        fallback: Mapping[str, float],
        now: Callable[[], float],
        rules: tuple[PriceRule, ...] = (),
    ) -> None:
        self._ec2 = ec2
        self._rules = rules
        self._pricing = pricing
        self._region = region
        self._now = now
        self._lock = threading.Lock()
        self._prices = Prices(on_demand=dict(fallback), book=PriceBook(rules))

    @property
    def prices(self) -> Prices:
        """An immutable view; the same object until a price changes."""
        return self._prices

    def refresh_on_demand(self) -> int:
        """Ask the Pricing API; returns how many types have a price. Types that it lacks keep theirs."""
        prices: dict[str, float] = {}
        for tenancy, product_family in _TENANCIES:
            filters = {**_COMMON, "regionCode": self._region, "tenancy": tenancy, "productFamily": product_family}
            prices.update(self._products(filters))
        if not prices:
            raise CloudError(f"pricing:GetProducts lists no instance type of region {self._region}")
        self._publish(lambda held: replace(held, on_demand={**held.on_demand, **prices}, listed=True))
        return len(prices)

    def refresh_spot(self) -> int:
        """Ask EC2 for the current spot prices, which replace the earlier ones; returns how many offerings have one."""
        prices: dict[tuple[str, str], float] = {}
        with translated("ec2:DescribeSpotPriceHistory"):
            paginator = self._ec2.get_paginator("describe_spot_price_history")
            pages = paginator.paginate(
                ProductDescriptions=list(SPOT_PRODUCTS), StartTime=datetime.fromtimestamp(self._now(), UTC)
            )
            newest: dict[tuple[str, str], Any] = {}
            for row in (row for page in pages for row in page["SpotPriceHistory"]):
                key = (row["InstanceType"], row["AvailabilityZone"])
                price = _positive(row.get("SpotPrice"))
                stamp = row.get("Timestamp")
                if price is None or stamp is None or (key in newest and newest[key] >= stamp):
                    continue
                newest[key] = stamp
                prices[key] = price
        if not prices:
            raise CloudError(f"ec2:DescribeSpotPriceHistory lists no spot price in region {self._region}")
        self._publish(lambda held: replace(held, spot=prices))
        return len(prices)

    @property
    def has_commitments(self) -> bool:
        """Whether prices depend on running instances: then `count_running` must be called regularly."""
        return any(rule.instances is not None for rule in self._rules)

    def count_running(self, running: Mapping[OfferingId, int]) -> None:
        """Apply each commitment to as many further instances as the running ones (by offering) leave it."""
        book = PriceBook.now(self._rules, running)
        self._publish(lambda held: replace(held, book=book))

    def _publish(self, change: Callable[[Prices], Prices]) -> None:
        with self._lock:
            held = self._prices
            changed = change(held)
            if changed != held:
                self._prices = replace(changed, version=held.version + 1)

    def _products(self, wanted: Mapping[str, str]) -> dict[str, float]:
        filters: list[FilterTypeDef] = [
            {"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()
        ]
        with translated("pricing:GetProducts"):
            paginator = self._pricing.get_paginator("get_products")
            pages = paginator.paginate(ServiceCode="AmazonEC2", Filters=filters, FormatVersion="aws_v1")
            listed = [text for page in pages for text in page["PriceList"]]
        return dict(_hourly(listed))


def _hourly(listed: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yield (instance type, price) of each product that has an hourly price above zero."""
    for text in listed:
        try:
            product = read_object(text)
        except UnreadableJsonError as error:
            _log.warning("A product of the price list cannot be read, and is left out", error=str(error))
            continue
        name = mapping(mapping(product.get("product")).get("attributes")).get("instanceType")
        for term in mapping(mapping(product.get("terms")).get("OnDemand")).values():
            for dimension in mapping(mapping(term).get("priceDimensions")).values():
                units = mapping(mapping(dimension).get("pricePerUnit"))
                price = _positive(units.get("USD") or units.get("CNY"))
                if isinstance(name, str) and name and price is not None:
                    yield name, price


def _positive(text: object) -> float | None:
    try:
        price = float(str(text))
    except ValueError:
        return None
    return price if 0 < price < math.inf else None
