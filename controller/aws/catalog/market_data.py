"""The data that instance types are built from: what the region sells, prices, and offerings without capacity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import structlog

from controller.aws.amifamily.images import Image
from controller.aws.api import tags as tagging
from controller.aws.api.clients import Clients
from controller.aws.api.refresh_schedule import Read
from controller.aws.api.type_info import TypeInfo
from controller.aws.catalog.capacity import MIB, CapacityRules, pod_capacity
from controller.aws.catalog.capacity_rules import capacity_rules
from controller.aws.catalog.instance_catalog import InstanceTypeCatalog, Market, SoldTypes, SubnetZones
from controller.aws.catalog.learned_memory import LearnedMemory, MeasuredMemory
from controller.aws.catalog.node_charges import node_charges
from controller.aws.catalog.offline_catalog import RegionCatalog
from controller.aws.catalog.price_book import Prices, Pricing
from controller.aws.catalog.shipped_tables import shipped_prices
from controller.aws.catalog.unavailable_offerings import UnavailableOfferings
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import CloudInstance, InstanceType
from controller.errors import CloudError, NodeTemplateError
from controller.runtime.clock import Clock
from controller.settings import Settings

CATALOG_SECONDS = 300.0
SPOT_PRICE_SECONDS = 300.0
ON_DEMAND_PRICE_SECONDS = 12 * 3600.0


class MarketData:
    """Instance types, prices, learned memory and shortages of one region. Safe for many threads."""

    def __init__(
        self, settings: Settings, clients: Clients, clock: Clock, logger: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._settings = settings
        self._region = clients.region
        self._clock = clock
        self._log = logger
        self._shipped = shipped_prices(clients.region)
        self.memory = LearnedMemory()
        self.unavailable = UnavailableOfferings(clock)
        self._catalog = InstanceTypeCatalog(clients.ec2, clients.region, self.memory)
        self._pricing = Pricing(
            clients.ec2, clients.pricing, clients.region, self._shipped.prices, clock.now, settings.price_rules
        )
        self._on_demand_prices_tried = False
        self._unpriced: frozenset[str] = frozenset()
        if settings.isolated_vpc:
            self._log_shipped_prices()

    @property
    def reads(self) -> dict[str, tuple[Read, float]]:
        """What to read from AWS, in this order, each with its interval in seconds."""
        reads: dict[str, tuple[Read, float]] = {
            "instance types": (self._catalog.refresh, CATALOG_SECONDS),
            "spot prices": (self._pricing.refresh_spot, SPOT_PRICE_SECONDS),
        }
        if not self._settings.isolated_vpc:
            reads["on-demand prices"] = (self._refresh_on_demand, ON_DEMAND_PRICE_SECONDS)
        return reads

    @property
    def has_commitments(self) -> bool:
        """Whether prices depend on running instances: then `count_running` must be called regularly."""
        return self._pricing.has_commitments

    @property
    def known(self) -> bool:
        """Whether the instance types were read."""
        return self._catalog.sold is not None

    @property
    def _types(self) -> Mapping[str, TypeInfo]:
        """The instance types by name; empty before the first read."""
        return (self._catalog.sold or SoldTypes()).types

    def sold_types(self) -> SoldTypes:
        """Return the instance types and their zones, as last read. Raises CloudError before the first read."""
        sold = self._catalog.sold
        if sold is None:
            raise CloudError("Instance types are not known yet; ec2:DescribeInstanceTypes is tried again")
        return sold

    def instance_types(
        self, provisioner: Provisioner, template: AWSNodeTemplate, zones: SubnetZones, images: tuple[Image, ...] | None
    ) -> tuple[InstanceType, ...]:
        """Return the types sold in the subnets' zones that one of the images is for;
        the same tuple while nothing changed.

        Raises NodeTemplateError for kubelet settings that cannot be read.
        """
        version, unavailable = self.unavailable.active()
        charges = node_charges(template, self._region)
        market = Market(zones, self._pricing.prices, version, unavailable, charges)
        rules = capacity_rules(self._settings, provisioner, template)
        try:
            return self._catalog.instance_types(rules, market, images)
        except ValueError as error:
            raise NodeTemplateError(
                f"Provisioner {provisioner.name}: spec.kubeletConfiguration: {error}; write 100Mi or 5%, for instance"
            ) from error

    def type_labels(self, instance_type: str, tags: Mapping[str, str]) -> Mapping[str, str]:
        """Return a node's labels, none while its type is not known; its instance's `tags` have the pod density."""
        info = self._types.get(instance_type)
        if info is None:
            return {}
        rules = CapacityRules(
            eni_limited_pods=self._settings.enable_eni_limited_pod_density,
            prefix_delegation=self._settings.enable_prefix_delegation,
            reserved_enis=self._settings.reserved_enis,
            kubelet=tagging.read_pod_density(tags),
        )
        return info.labels(self._region, pod_capacity(info, rules))

    def learn_memory(self, measured: Iterable[MeasuredMemory]) -> None:
        """Learn from nodes, measured by what EC2 states for their types; nothing before the types were read."""
        self.memory.learn(measured, {name: info.memory_mib * MIB for name, info in self._types.items()})

    def count_running(self, instances: Iterable[CloudInstance]) -> int:
        """Tell the prices which running instances use up commitments; returns how many there are."""
        running = Counter((one.capacity_type, one.instance_type, one.zone) for one in instances)
        self._pricing.count_running(running)
        return running.total()

    def price_book(self) -> Mapping[str, Any]:
        """Return the list prices as `offline_catalog.read_catalog` reads them; empty before the first read."""
        return self.region_catalog().price_book() if self.known else {}

    def region_catalog(self) -> RegionCatalog:
        """Return what is sold at list prices, without the user's discounts. Raises CloudError before the first read."""
        sold, prices = self.sold_types(), self._pricing.prices
        spot: dict[str, dict[str, float]] = {}
        for (name, zone), price in (prices.spot or {}).items():
            spot.setdefault(name, {})[zone] = price
        return RegionCatalog(
            region=self._region,
            generated=datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="seconds"),
            source=self._source(prices),
            types=sold.types,
            zones={name: zones for name, zones in sold.zones.items() if name in sold.types},
            on_demand=prices.on_demand,
            spot=spot if prices.spot is not None else None,
            estimated=frozenset() if prices.listed else self._shipped.estimated & sold.types.keys(),
        )

    def _source(self, prices: Prices) -> str:
        """Return what the prices are: the Pricing API's, or shipped ones until it answers."""
        on_demand = (
            "the Pricing API" if prices.listed else f"prices shipped with the controller ({self._shipped.generated})"
        )
        return f"EC2 and {on_demand}" if prices.spot is not None else on_demand

    def log_unpriced(self) -> None:
        """Log the types that have no on-demand price, and so no on-demand offerings, whenever their set changes."""
        unpriced = frozenset(self._types) - self._pricing.prices.on_demand.keys()
        if unpriced and unpriced != self._unpriced:
            self._log.info(
                "Instance types without an on-demand price are not used on demand",
                count=len(unpriced),
                instance_types=sorted(unpriced)[:10],
            )
        self._unpriced = unpriced

    def _refresh_on_demand(self) -> int:
        first, self._on_demand_prices_tried = not self._on_demand_prices_tried, True
        try:
            return self._pricing.refresh_on_demand()
        except CloudError:
            if first:
                self._log_shipped_prices()
            raise

    def _log_shipped_prices(self) -> None:
        shipped = self._shipped
        self._log.info(
            "On-demand prices are those that ship with the controller",
            region=shipped.region,
            generated=shipped.generated,
            source=shipped.source,
            known=len(shipped.prices) - len(shipped.estimated),
            estimated=len(shipped.estimated),
        )
