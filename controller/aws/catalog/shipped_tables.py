"""Tables shipped with the controller: branch interfaces, which no API tells; instance types and prices for use offline.

scripts/aws_data.py writes them, with date and source inside. Branch interfaces are AWS's own file. Instance types and
prices come from the sandbox's EC2 and Pricing API: moto's copy of EC2's answers and apache-libcloud's copy of AWS's
price list, with estimates for types that those do not know. They are good enough to order types by price, not to
predict a bill, so date and source are shown with them. Run the script with AWS credentials to write AWS's own answers.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from controller.aws.api.type_info import TypeInfo
from controller.core.api.frozen import FrozenMap

PRICES_FILE = "on-demand-prices.json.gz"
TYPES_FILE = "instance-types.json.gz"
BRANCH_INTERFACES_FILE = "branch-interfaces.json.gz"
DEFAULT_REGION = "us-east-1"
"""Its prices are used for regions that the table lacks: the order of types by price is much the same."""


@dataclass(frozen=True, slots=True)
class ShippedPrices:
    """On-demand $ an hour by instance type, `generated` on a day (ISO 8601) from `source`, of `region`."""

    region: str
    generated: str
    source: str
    prices: Mapping[str, float]


def shipped_prices(region: str) -> ShippedPrices:
    """Prices of a region, or of us-east-1 when the table lacks it."""
    table = _read(PRICES_FILE)
    chosen = region if region in table else DEFAULT_REGION
    return ShippedPrices(chosen, **table[chosen])


@dataclass(frozen=True, slots=True)
class ShippedTypes:
    """What EC2 sold in `region`, `generated` on a day (ISO 8601) from `source`."""

    region: str
    generated: str
    source: str
    types: Mapping[str, TypeInfo]
    """By name."""
    zones: Mapping[str, frozenset[str]]
    """Zones by the name of the type."""


def shipped_types(region: str) -> ShippedTypes | None:
    """Instance types of a region; None when the table lacks it (see `shipped_regions`)."""
    table = _read(TYPES_FILE)
    entry = table["regions"].get(region)
    if entry is None:
        return None
    zones = {name: frozenset(region + suffix for suffix in suffixes) for name, suffixes in entry["zones"].items()}
    types = msgspec.convert({name: table["types"][name] for name in zones}, dict[str, TypeInfo])
    return ShippedTypes(region, entry["generated"], entry["source"], types, zones)


def shipped_regions() -> tuple[str, ...]:
    """Regions whose instance types are known without asking AWS, sorted."""
    return tuple(sorted(_read(TYPES_FILE)["regions"]))


def pack_types(table: Mapping[str, Any], read: ShippedTypes) -> dict[str, Any]:
    """The table of instance types with one region replaced by what was `read` anew."""
    zones = {
        name: [zone.removeprefix(read.region) for zone in sorted(places)]
        for name, places in sorted(read.zones.items())
        if name in read.types
    }
    entry = {"generated": read.generated, "source": read.source, "zones": zones}
    regions = dict(sorted({**table.get("regions", {}), read.region: entry}.items()))
    types = {**table.get("types", {}), **{name: msgspec.to_builtins(info) for name, info in read.types.items()}}
    sold = {name for region in regions.values() for name in region["zones"]}
    return {"types": {name: info for name, info in sorted(types.items()) if name in sold}, "regions": regions}


@cache
def branch_interfaces() -> FrozenMap[str, int]:
    """Branch network interfaces (for security groups for pods) by instance type; types without trunking are absent."""
    interfaces: dict[str, int] = _read(BRANCH_INTERFACES_FILE)["branchInterfaces"]
    return FrozenMap(interfaces)


def _read(name: str) -> dict[str, Any]:
    packed = resources.files("controller.aws").joinpath("data", name).read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(packed))
    return document
