"""InstanceTypes for planning, built from DescribeInstanceTypes and its offerings, prices and shortages.

What EC2 sells changes rarely, prices sometimes, shortages often. Each has a version, and an answer is rebuilt only when
one of its versions changed. Instance types whose offerings did not change stay the same objects, so that the scheduler,
which compiles them into arrays, recognises them by identity.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING, TypeAlias

from cachetools import LRUCache

from controller.aws.amifamily.images import Image, first_match
from controller.aws.api.aws_errors import translated
from controller.aws.api.type_info import ARCHITECTURES, DERIVED, TypeInfo, parse_type
from controller.aws.catalog.capacity import MIB, CapacityRules, capacity, interfaces, overhead, pod_capacity
from controller.aws.catalog.cpu_credits import cpu_credits
from controller.aws.catalog.learned_memory import LearnedMemory
from controller.aws.catalog.node_charges import PUBLIC_ADDRESS
from controller.aws.catalog.price_book import Prices
from controller.aws.catalog.unavailable_offerings import Key
from controller.core.cloud import InstanceType, Offering
from controller.core.scheduling.requirements import Requirement, Requirements

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef

MAX_ANSWERS = 32
"""Combinations of kubelet settings, zones and images that are cached; each takes a few megabytes."""
MAX_KEPT = 16_384
"""Instance types that are kept without their offerings: those of about ten kubelet configurations."""


@dataclass(frozen=True, slots=True)
class SoldTypes:
    """The instance types of the region and the zones where each is sold. `version` changes with the content."""

    version: int = 0
    types: Mapping[str, TypeInfo] = field(default_factory=dict)
    zones: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubnetZones:
    """Zones in which a node template has subnets; of these, `full` ones have no free address at the moment, and in
    `public` ones a node gets a public IPv4 address."""

    all: frozenset[str]
    full: frozenset[str] = frozenset()
    public: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Market:
    """What offerings depend on apart from the type: zones with subnets, prices, offerings without capacity."""

    zones: SubnetZones
    prices: Prices
    unavailable_version: int
    unavailable: frozenset[Key]
    charges: float = 0.0
    """$/hour of every node beside its price (`node_charges`)."""

    @property
    def key(self) -> tuple[SubnetZones, int, int]:
        """Equal for equal markets."""
        return (self.zones, self.prices.version, self.unavailable_version)


_Question: TypeAlias = tuple[CapacityRules, frozenset[str], float, frozenset[str], tuple[Image, ...] | None]


@dataclass(slots=True)
class _Answer:
    key: tuple[object, ...]
    types: tuple[InstanceType, ...]


class InstanceTypeCatalog:
    """Instance types by capacity rules and market. Safe for many threads."""

    def __init__(self, ec2: EC2Client, region: str, learned: LearnedMemory, sold: SoldTypes | None = None) -> None:
        """`sold`: what EC2 sells, where that is known already."""
        self._ec2 = ec2
        self._region = region
        self._learned = learned
        self._lock = threading.Lock()
        self._sold = sold
        self._answers: LRUCache[_Question, _Answer] = LRUCache(MAX_ANSWERS)

    @property
    def sold(self) -> SoldTypes | None:
        """What EC2 sells, as last read; None before the first refresh."""
        return self._sold

    def refresh(self) -> int:
        """Read EC2; returns how many types are sold. A failure raises and leaves what was known in place."""
        types = self._describe_types()
        zones = self._describe_offerings()
        types = {name: info for name, info in types.items() if name in zones}
        with self._lock:
            held = self._sold
            if held is None or held.types != types or held.zones != zones:
                self._sold = SoldTypes(held.version + 1 if held else 1, types, zones)
        return len(types)

    def instance_types(
        self, rules: CapacityRules, market: Market, images: tuple[Image, ...] | None = None
    ) -> tuple[InstanceType, ...]:
        """Return the types sold in the market's zones, sorted by name; the same object while nothing changed.

        `images` are the template's: types that none of them is for are left out. None: the images are not known.
        Raises ValueError when a quantity of the kubelet configuration cannot be read.
        """
        sold = self._sold or SoldTypes()
        question = (rules, market.zones.all, market.charges, market.zones.public, images)
        key = (sold.version, *market.key, self._learned.version)
        with self._lock:
            held = self._answers.get(question)
            if held is not None and held.key == key:
                return held.types
            previous = {item.name: item for item in held.types} if held and held.key[0] == sold.version else {}
            build = TypeBuilder(self._region, rules, market, images, self._learned, previous).build
            built = (build(info, sold.zones[name]) for name, info in sorted(sold.types.items()))
            types = tuple(item for item in built if item is not None)
            if held is not None and len(types) == len(held.types) and all(map(is_, types, held.types)):
                types = held.types
            self._answers[question] = _Answer(key, types)
            return types

    def _describe_types(self) -> dict[str, TypeInfo]:
        filters: list[FilterTypeDef] = [
            {"Name": "supported-virtualization-type", "Values": ["hvm"]},
            {"Name": "processor-info.supported-architecture", "Values": list(ARCHITECTURES)},
        ]
        with translated("ec2:DescribeInstanceTypes"):
            pages = self._ec2.get_paginator("describe_instance_types").paginate(Filters=filters)
            parsed = [parse_type(info) for page in pages for info in page["InstanceTypes"]]
        return {info.name: info for info in parsed}

    def _describe_offerings(self) -> dict[str, frozenset[str]]:
        zones: dict[str, set[str]] = {}
        with translated("ec2:DescribeInstanceTypeOfferings"):
            paginator = self._ec2.get_paginator("describe_instance_type_offerings")
            for page in paginator.paginate(LocationType="availability-zone"):
                for offer in page["InstanceTypeOfferings"]:
                    zones.setdefault(offer["InstanceType"], set()).add(offer["Location"])
        return {name: frozenset(of_type) for name, of_type in zones.items()}


@dataclass(frozen=True, slots=True)
class TypeBuilder:
    """Builds the instance types of one answer, reusing the `previous` ones where they have not changed."""

    region: str
    rules: CapacityRules
    market: Market
    images: tuple[Image, ...] | None
    learned: LearnedMemory
    previous: Mapping[str, InstanceType] = field(default_factory=dict)

    def build(self, info: TypeInfo, sold_in: frozenset[str]) -> InstanceType | None:
        """Return the instance type; None when no zone with a subnet sells it, or no image is for it."""
        offered = offerings(info, sold_in, self.market)
        if not offered:
            return None
        made = unsold(info, self.region, self.rules)
        if self.images is not None:
            image = first_match(self.images, made.requirements)
            if image is None:
                return None
            memory = self.learned.of(info.name, image.id, info.memory_mib * MIB)
            if memory is not None:
                amounts, kept = capacity(info, self.rules, memory), overhead(info, self.rules, memory)
                made = replace(made, capacity=amounts, overhead=kept)
        held = self.previous.get(info.name)
        if held is None or held.capacity != made.capacity:
            return replace(made, offerings=offered)
        return held if held.offerings == offered else replace(held, offerings=offered)


@lru_cache(maxsize=MAX_KEPT)
def unsold(info: TypeInfo, region: str, rules: CapacityRules) -> InstanceType:
    """Return the type without offerings: what depends on neither market nor image,
    one object for all Provisioners' catalogs.

    Raises ValueError when a quantity of the kubelet configuration cannot be read.
    """
    return InstanceType(
        info.name,
        requirements(info.labels(region, pod_capacity(info, rules))),
        capacity(info, rules),
        overhead(info, rules),
        (),
        cpu_credits(info),
        interfaces(info, rules.reserved_enis, rules.prefix_delegation),
    )


def offerings(info: TypeInfo, sold_in: frozenset[str], market: Market) -> tuple[Offering, ...]:
    """Return a type's offerings: zones that sell it and have a subnet, times the capacity types that it is sold as.

    Offerings without a price, out of capacity, or in a zone without a free address are marked unavailable: the type
    stays known, since nodes of it may be on their way there.
    """
    made: list[Offering] = []
    prices, full = market.prices, market.zones.full
    for zone in sorted(sold_in & market.zones.all):
        beside = market.charges + (PUBLIC_ADDRESS if zone in market.zones.public else 0.0)
        for capacity_type in info.capacity_types:
            price, commitment = prices.offer(capacity_type, info.name, zone)
            masked = (capacity_type, info.name, zone) in market.unavailable
            on_sale = price is not None and not masked and zone not in full
            made.append(Offering(zone, capacity_type, price or 0.0, on_sale, commitment, beside))
    return tuple(made)


def requirements(labels: Mapping[str, str]) -> Requirements:
    """Return the requirements for a type's labels, and for the absence of well-known ones that it lacks."""
    return Requirements(_requirement(key, labels.get(key)) for key in sorted(DERIVED))


@lru_cache(maxsize=50_000)
def _requirement(key: str, value: str | None) -> Requirement:
    """Return one object for each label and value: hundreds of types share most of theirs."""
    return Requirement.of(key, "DoesNotExist") if value is None else Requirement.of(key, "In", (value,))
