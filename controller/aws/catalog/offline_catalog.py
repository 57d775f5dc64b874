"""A region's catalog as a document, and a TypeSource over it, for planning without AWS.

The document comes from the shipped tables, from a dump, or from AWS now. Shipped tables have no spot prices: a share of
the on-demand price is assumed, and the command line says so wherever it shows such prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from controller.aws.api.type_info import TypeInfo
from controller.aws.catalog.capacity import CapacityRules
from controller.aws.catalog.capacity_rules import capacity_rules
from controller.aws.catalog.instance_catalog import Market, SubnetZones, TypeBuilder
from controller.aws.catalog.learned_memory import LearnedMemory
from controller.aws.catalog.node_charges import node_charges
from controller.aws.catalog.price_book import Prices
from controller.aws.catalog.shipped_tables import shipped_prices, shipped_regions, shipped_types
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.api.strict import did_you_mean
from controller.core.cloud import InstanceType
from controller.core.price_rules import PriceBook
from controller.errors import CloudError, NodeTemplateError
from controller.settings import Settings

ASSUMED_SPOT_SHARE = 0.4
"""Spot price over on-demand price where spot prices are not known: general purpose types mostly save 50 to 70 % (EC2
Spot Instance Advisor)."""


@dataclass(frozen=True, slots=True)
class RegionCatalog:
    """What one region sells, with list prices in $/hour."""

    region: str
    generated: str
    """When it was read: a day or a moment, ISO 8601."""
    source: str
    types: Mapping[str, TypeInfo]
    zones: Mapping[str, frozenset[str]]
    """By the name of the type."""
    on_demand: Mapping[str, float]
    spot: Mapping[str, Mapping[str, float]] | None = None
    """By type, then zone. None: not known."""
    estimated: frozenset[str] = frozenset()
    """Types whose on-demand price is an estimate."""

    @property
    def all_zones(self) -> frozenset[str]:
        return frozenset().union(*self.zones.values()) if self.zones else frozenset()

    def price_book(self) -> dict[str, Any]:
        """Return its prices alone, as JSON values that `read_catalog` reads."""
        return replace(self, types={}, zones={}).document()

    def priced(self, book: RegionCatalog) -> RegionCatalog:
        """Return the catalog with the prices of `book`, and with its own on-demand price for types that this lacks."""
        missing = self.on_demand.keys() - book.on_demand.keys()
        return replace(
            self,
            generated=book.generated,
            source=book.source,
            on_demand={**self.on_demand, **book.on_demand},
            spot=book.spot,
            estimated=book.estimated | (self.estimated & missing),
        )

    def document(self) -> dict[str, Any]:
        """Return the catalog as JSON values, which `read_catalog` reads."""
        document = msgspec.to_builtins(replace(self, zones={}))
        document["zones"] = {name: sorted(zones) for name, zones in sorted(self.zones.items())}
        document["estimated"] = sorted(self.estimated)
        return dict(document)


def read_catalog(document: Any) -> RegionCatalog:
    """Read a catalog from JSON values. Raises ValueError naming the place that is not a catalog's."""
    try:
        return msgspec.convert(document, RegionCatalog)
    except msgspec.ValidationError as error:
        raise ValueError(f"is not a catalog: {error}") from error


@cache
def shipped_catalog(region: str) -> RegionCatalog:
    """Read a catalog from the shipped tables. Raises CloudError for a region that they lack."""
    sold = shipped_types(region)
    if sold is None:
        regions = shipped_regions()
        raise CloudError(
            f"The shipped catalog does not have region {region!r}: {did_you_mean(region, regions)}; or read AWS itself"
        )
    prices = shipped_prices(region)
    estimated = prices.estimated & sold.types.keys()
    share = f"; {len(estimated)} of {len(sold.types)} prices are estimates" if estimated else ""
    source = f"shipped with this release{share}"
    return RegionCatalog(
        region, prices.generated, source, sold.types, sold.zones, prices.prices, estimated=frozenset(estimated)
    )


class OfflineTypes:
    """A TypeSource over a catalog.

    Subnets and images are not known: every template launches in `zones` (empty: in every zone of the region), and every
    type is taken to have an image.
    """

    def __init__(
        self,
        catalog: RegionCatalog,
        settings: Settings,
        zones: frozenset[str] = frozenset(),
        spot_share: float = ASSUMED_SPOT_SHARE,
    ) -> None:
        """`spot_share`: spot price over on-demand price, where the catalog has no spot prices."""
        self.catalog = catalog
        self.settings = settings
        self.zones = zones
        self.spot_share = spot_share
        self._market = self._priced()
        self._built: dict[tuple[CapacityRules, float], tuple[InstanceType, ...]] = {}
        """Answers by what they depend on: Provisioners with the same kubelet settings and charges share one."""

    def _priced(self) -> Market:
        catalog = self.catalog
        spot = {
            (name, zone): self._spot_price(name, zone, price)
            for name, price in catalog.on_demand.items()
            for zone in catalog.zones.get(name, ())
        }
        book = PriceBook(self.settings.price_rules)
        known = {key: price for key, price in spot.items() if price is not None}
        prices = Prices(1, catalog.on_demand, known, book)
        return Market(SubnetZones(self.zones or catalog.all_zones), prices, 0, frozenset())

    def _spot_price(self, name: str, zone: str, on_demand: float) -> float | None:
        if self.catalog.spot is None:
            return on_demand * self.spot_share
        return self.catalog.spot.get(name, {}).get(zone)

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """Return the $ an hour of any type of the region, whoever launched it; None where it is not known."""
        return self._market.prices.of(capacity_type, instance_type, zone)

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        """See CloudProvider. Raises NodeTemplateError for kubelet settings that cannot be read."""
        rules = capacity_rules(self.settings, provisioner, template)
        charges = node_charges(template, self.catalog.region)
        if (rules, charges) not in self._built:
            catalog, zones = self.catalog, self.catalog.zones
            market = replace(self._market, charges=charges)
            builder = TypeBuilder(catalog.region, rules, market, None, LearnedMemory())
            try:
                built = [builder.build(info, zones.get(name, frozenset())) for name, info in catalog.types.items()]
            except ValueError as error:
                message = f"Provisioner {provisioner.name}: spec.kubeletConfiguration: {error}"
                raise NodeTemplateError(message) from error
            known = (each for each in built if each is not None)
            self._built[rules, charges] = tuple(sorted(known, key=lambda each: each.name))
        return self._built[rules, charges]
