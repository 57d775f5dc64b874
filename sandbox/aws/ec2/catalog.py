"""Instance types and where they are offered: moto's data, served fast, paged, and only what the region has.

moto takes 2 s to serialise the whole list and sends it as one page; here each type's XML is made once. Source: EC2 API
reference (DescribeInstanceTypes pages by 100, DescribeInstanceTypeOfferings by 1,000).
"""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import InvalidFilter
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES, InstanceType

from sandbox.aws import filters
from sandbox.aws.paging import page
from sandbox.aws.wire import AwsError, Params, Raw, members_xml, output_item

_LOCATIONS = ("region", "availability-zone", "availability-zone-id")


class Catalog:
    """The types of one region. `types` maps a name to its DescribeInstanceTypes entry; `only`: those alone, if any."""

    def __init__(self, region: str, only: frozenset[str] = frozenset()) -> None:
        self._region = region
        by_zone = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
        if not by_zone:
            raise ValueError(f"no instance type is offered in region {region}")
        self._zones: dict[str, set[str]] = {}
        for row in by_zone:
            if only and row["InstanceType"] not in only:
                continue
            self._zones.setdefault(row["InstanceType"], set()).add(row["Location"])
        self.types: dict[str, dict[str, Any]] = {
            n: INSTANCE_TYPES[n] for n in sorted(self._zones) if n in INSTANCE_TYPES
        }
        self._xml: dict[str, Raw] = {}

    def zones(self, instance_type: str) -> frozenset[str]:
        """Zones that offer a type; empty for a type that the region lacks."""
        return frozenset(self._zones.get(instance_type, ()))

    def spot_pools(self) -> list[tuple[str, str]]:
        """(type, zone) of every pool that spot can use, sorted."""
        return [
            (name, zone)
            for name, entry in self.types.items()
            if "spot" in entry.get("SupportedUsageClasses", [])
            for zone in sorted(self._zones[name])
        ]

    def describe_types(self, params: Params) -> Params:
        """DescribeInstanceTypes. Raises InvalidInstanceType for a name that the region lacks."""
        names = params.get("InstanceTypes", [])
        if names and params.get("MaxResults"):
            raise AwsError("InvalidParameterCombination", "The parameter instanceType cannot be used with maxResults")
        missing = [name for name in names if name not in self.types]
        if missing:
            raise AwsError(
                "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(missing)}]"
            )
        wanted = params.get("Filters", [])
        found = [n for n in (sorted(set(names)) or self.types) if filters.matches(n, wanted, _type_values, {})]
        some, token = page(found, params, default_size=100, largest=100, error_code="InvalidNextToken")
        return {"InstanceTypes": [self._fragment(name) for name in some], "NextToken": token}

    def describe_offerings(self, params: Params) -> Params:
        """DescribeInstanceTypeOfferings with filters location and instance-type (wildcards work)."""
        location_type = params.get("LocationType", "region")
        if location_type not in _LOCATIONS:
            raise AwsError("InvalidParameterValue", f"Invalid value '{location_type}' for LocationType")
        wanted = params.get("Filters", [])
        filters.check(wanted, {"location", "instance-type"}.__contains__)
        rows = INSTANCE_TYPE_OFFERINGS[location_type].get(self._region, [])
        found = [row for row in rows if filters.matches(row, wanted, _offering_values, {})]
        some, token = page(found, params, default_size=1000, error_code="InvalidNextToken")
        keys = ("InstanceType", "LocationType", "Location")
        return {"InstanceTypeOfferings": [{key: row[key] for key in keys} for row in some], "NextToken": token}

    def _fragment(self, name: str) -> Raw:
        if name not in self._xml:
            self._xml[name] = Raw(members_xml(output_item("DescribeInstanceTypes", "InstanceTypes"), self.types[name]))
        return self._xml[name]


def _type_values(name: str, filter_name: str) -> list[str] | None:
    try:
        value = InstanceType(name).get_filter_value(filter_name)
    except InvalidFilter:
        return None
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _offering_values(row: dict[str, str], filter_name: str) -> list[str] | None:
    key = {"location": "Location", "instance-type": "InstanceType"}.get(filter_name)
    return [row[key]] if key else None
