"""Tables shipped with the controller: branch interfaces, which no API reports; types and prices for use offline.

scripts/aws_facts.py and scripts/aws_data.py write them, with date and source inside. Prices of us-east-1 and GovCloud
are AWS's own. Of each other commercial region some are known, and the others are us-east-1's at the ratio of the type's
family between the regions: those are marked estimated.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from controller.aws.api.type_info import TypeInfo
from controller.core.api.frozen import FrozenMap

PRICES_FILE = "on-demand-prices.json.gz"
TYPES_FILE = "instance-types.json.gz"
BRANCH_INTERFACES_FILE = "branch-interfaces.json.gz"
BASE_REGION = "us-east-1"
"""Its prices are AWS's own; the others' estimates are ratios to them."""
CHINA = "cn-north-1"


@dataclass(frozen=True, slots=True)
class ShippedPrices:
    """On-demand $ an hour by instance type (CNY in China's regions), of a day (ISO 8601) and `source`, of `region`."""

    region: str
    generated: str
    source: str
    prices: Mapping[str, float]
    estimated: frozenset[str]
    """Types whose price is an estimate; the others are known."""


@cache
def shipped_prices(region: str) -> ShippedPrices:
    """Return the prices of a region: its own, else another's of its partition, all of them estimates then."""
    table = _read(PRICES_FILE)
    if region in table:
        return prices_of(region, table)
    other = prices_of(CHINA if region.startswith("cn-") else BASE_REGION, table)
    return replace(other, estimated=frozenset(other.prices))


def prices_of(region: str, table: Mapping[str, Any]) -> ShippedPrices:
    """Return the prices of a region that the table has, known and estimated."""
    entry, base = table[region], table[BASE_REGION]
    known: dict[str, float] = entry["prices"]
    if ratios := entry.get("ratios"):
        every = {**base["estimated"], **base["prices"]}
        guessed = {name: _scaled(price, name, ratios) for name, price in every.items() if name not in known}
    else:
        guessed = entry.get("estimated", {})
    return ShippedPrices(region, entry["generated"], entry["source"], {**guessed, **known}, frozenset(guessed))


def _scaled(price: float, name: str, ratios: Mapping[str, float]) -> float:
    """Return the price at the ratio of the type's family; the empty name has the ratio of all other families."""
    return round(price * ratios.get(name.partition(".")[0], ratios[""]), 5)


@dataclass(frozen=True, slots=True)
class ShippedTypes:
    """What EC2 sold in `region`, `generated` on a day (ISO 8601) from `source`."""

    region: str
    generated: str
    source: str
    types: Mapping[str, TypeInfo]
    zones: Mapping[str, frozenset[str]]
    """Zones by the name of the type."""


def shipped_types(region: str) -> ShippedTypes | None:
    """Return the instance types of a region; None when the table lacks it (see `shipped_regions`)."""
    table = _read(TYPES_FILE)
    entry = table["regions"].get(region)
    if entry is None:
        return None
    zones = {name: frozenset(region + suffix for suffix in suffixes) for name, suffixes in entry["zones"].items()}
    types = msgspec.convert({name: table["types"][name] for name in zones}, dict[str, TypeInfo])
    return ShippedTypes(region, entry["generated"], entry["source"], types, zones)


def shipped_regions() -> tuple[str, ...]:
    """Return the regions whose instance types are known without asking AWS, sorted."""
    return tuple(sorted(_read(TYPES_FILE)["regions"]))


def shipped_type_names() -> frozenset[str]:
    """Return the instance types that some region sells."""
    return frozenset(name for entry in _read(TYPES_FILE)["regions"].values() for name in entry["zones"])


@cache
def branch_interfaces() -> FrozenMap[str, int]:
    """Return the branch interfaces (for security groups for pods) by instance type, of types with trunking alone."""
    interfaces: dict[str, int] = _read(BRANCH_INTERFACES_FILE)["branchInterfaces"]
    return FrozenMap(interfaces)


def _read(name: str) -> dict[str, Any]:
    packed = resources.files("controller.aws").joinpath("data", name).read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(packed))
    return document
