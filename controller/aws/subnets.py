"""Subnets by selector, and the choice among them: most free addresses first, counting launches under way.

DescribeSubnets is cached for a minute, and a burst of launches needs less than that to exhaust a subnet. So each launch
reserves the addresses that its node may take; what the fleet did not use is given back, and the rest is forgotten when
EC2's own count (which by then includes the node) is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.aws.errors import translated
from controller.aws.selectors import filters, shown
from controller.clock import Clock
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.errors import NodeTemplateError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

CACHE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Subnet:
    """One subnet; `free_addresses` is EC2's count when it was read."""

    id: str
    zone: str
    free_addresses: int
    zone_id: str = ""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Addresses that one launch may take, by subnet id."""

    addresses: Mapping[str, int]


class Subnets:
    """Subnets of node templates. Safe for many threads."""

    def __init__(self, ec2: EC2Client, clock: Clock, cache_seconds: float = CACHE_SECONDS) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._cache_seconds = cache_seconds
        self._lock = threading.Lock()
        self._read: dict[tuple[tuple[str, str], ...], tuple[float, tuple[Subnet, ...]]] = {}
        self._in_flight: dict[str, int] = {}

    def matching(self, template: AWSNodeTemplate) -> tuple[Subnet, ...]:
        """The template's subnets, most free addresses first.

        Raises NodeTemplateError when none matches, and other CloudErrors.
        """
        selector = tuple(sorted(template.subnet_selector.items()))
        subnets = self._cached(selector)
        if subnets is None:
            subnets = self._describe(template)
            with self._lock:
                self._read[selector] = (self._clock.monotonic() + self._cache_seconds, subnets)
                for subnet in subnets:
                    self._in_flight.pop(subnet.id, None)
        if not subnets:
            raise NodeTemplateError(
                f"AWSNodeTemplate {template.name}: spec.subnetSelector {shown(template.subnet_selector)} matches no "
                "subnet; tag the subnets so (karpenter.sh/discovery: CLUSTER is the convention) or correct the selector"
            )
        return subnets

    def zones(self, template: AWSNodeTemplate) -> frozenset[str]:
        """The zones in which the template has a subnet. Raises as `matching`."""
        return frozenset(subnet.zone for subnet in self.matching(template))

    def reserve(
        self, template: AWSNodeTemplate, addresses_by_zone: Mapping[str, int]
    ) -> tuple[dict[str, Subnet], Reservation]:
        """The subnet with the most free addresses of each zone given, and the addresses taken from it.

        `addresses_by_zone` says how many addresses the node may need there. Zones without a subnet are left out.
        """
        subnets = self.matching(template)
        with self._lock:
            chosen: dict[str, Subnet] = {}
            for subnet in sorted(subnets, key=lambda s: (-self._free(s), s.id)):
                if subnet.zone in addresses_by_zone:
                    chosen.setdefault(subnet.zone, subnet)
            taken = {subnet.id: addresses_by_zone[zone] for zone, subnet in chosen.items()}
            for subnet_id, count in taken.items():
                self._in_flight[subnet_id] = self._in_flight.get(subnet_id, 0) + count
        return chosen, Reservation(taken)

    def release(self, reservation: Reservation, used: Iterable[str] = ()) -> None:
        """Give back what a launch did not use; `used` are the subnets in which instances were launched."""
        kept = set(used)
        with self._lock:
            for subnet_id, count in reservation.addresses.items():
                if subnet_id not in kept and subnet_id in self._in_flight:
                    left = self._in_flight[subnet_id] - count
                    self._in_flight[subnet_id] = max(0, left)

    def forget(self) -> None:
        """Read EC2 again at the next question."""
        with self._lock:
            self._read.clear()

    def _free(self, subnet: Subnet) -> int:
        return subnet.free_addresses - self._in_flight.get(subnet.id, 0)

    def _cached(self, selector: tuple[tuple[str, str], ...]) -> tuple[Subnet, ...] | None:
        with self._lock:
            held = self._read.get(selector)
            return held[1] if held and self._clock.monotonic() < held[0] else None

    def _describe(self, template: AWSNodeTemplate) -> tuple[Subnet, ...]:
        if not template.subnet_selector:
            return ()
        with translated("ec2:DescribeSubnets", f"AWSNodeTemplate {template.name}"):
            pages = self._ec2.get_paginator("describe_subnets").paginate(
                Filters=filters(template.subnet_selector, "subnet-id")
            )
            found = [
                Subnet(
                    id=subnet["SubnetId"],
                    zone=subnet["AvailabilityZone"],
                    free_addresses=subnet["AvailableIpAddressCount"],
                    zone_id=subnet.get("AvailabilityZoneId", ""),
                )
                for page in pages
                for subnet in page["Subnets"]
            ]
        return tuple(sorted(found, key=lambda subnet: (-subnet.free_addresses, subnet.id)))
