"""Subnets by selector, and the choice among them: most free addresses first, launches in flight included.

DescribeSubnets is cached for a minute, in which a burst of launches can exhaust a subnet. So each launch reserves the
addresses that its node may take. Addresses that the fleet did not use are given back, and the others are forgotten when
EC2's count, which then includes the node, is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from cachetools import TTLCache

from controller.aws.api.aws_errors import translated
from controller.aws.api.ttl_cache import Cache
from controller.aws.network.node_addresses import LEAST_FREE
from controller.aws.network.selector_filters import filters, shown
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.errors import NodeTemplateError
from controller.runtime.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

CACHE_SECONDS = 60.0
EXHAUSTED_SECONDS = 180.0
MAX_SUBNETS = 1000
CLOSED_TAG: Final = "karpenter.sh/do-not-launch"
"""A subnet with this tag and the value "true" gets no nodes: its zone is being left, by a zonal shift or by hand."""


@dataclass(frozen=True, slots=True)
class Subnet:
    """One subnet; `free_addresses` as EC2 counted them when it was read; `public`: it gives nodes a public address;
    `closed`: by its tag."""

    id: str
    zone: str
    free_addresses: int
    public: bool = False
    closed: bool = False


Reservation: TypeAlias = Mapping[str, int]
"""Addresses that one launch may take, by subnet id."""


class Subnets:
    """Subnets of node templates. Safe for many threads."""

    def __init__(self, ec2: EC2Client, clock: Clock, cache_seconds: float = CACHE_SECONDS) -> None:
        self._ec2 = ec2
        self._lock = threading.Lock()
        self._read: Cache[tuple[tuple[str, str], ...], tuple[Subnet, ...]] = Cache(clock, cache_seconds)
        self._in_flight: dict[str, int] = {}
        self._exhausted: TTLCache[str, bool] = TTLCache(MAX_SUBNETS, EXHAUSTED_SECONDS, timer=clock.monotonic)

    def matching(self, template: AWSNodeTemplate) -> tuple[Subnet, ...]:
        """The template's subnets, most free addresses first.

        Raises NodeTemplateError when none matches, and other CloudErrors.
        """
        selector = tuple(sorted(template.subnet_selector.items()))
        subnets = self._read.get(selector, lambda: self._describe(template))
        if not subnets:
            raise NodeTemplateError(
                f"AWSNodeTemplate {template.name}: spec.subnetSelector {shown(template.subnet_selector)} matches no "
                "subnet; tag the subnets so (karpenter.sh/discovery: CLUSTER is the convention) or correct the selector"
            )
        return subnets

    def all_zones(self, template: AWSNodeTemplate) -> frozenset[str]:
        """The zones in which the template has a subnet, free addresses or not. Raises as `matching`."""
        return frozenset(subnet.zone for subnet in self.matching(template))

    def zones(
        self, template: AWSNodeTemplate, addresses: int = 0, among: Collection[str] | None = None
    ) -> frozenset[str]:
        """The zones, of those in `among` (None: any), in which the template has an open subnet with free addresses.

        `addresses`: what a node takes. Zones without so many, launches in flight counted in, are left out; if that
        leaves none, what launches in flight take may be overestimated, and EC2 decides. Raises as `matching`.
        """
        usable = [subnet for subnet in self._usable(template) if among is None or subnet.zone in among]
        with self._lock:
            enough = [subnet for subnet in usable if self._free(subnet) >= addresses]
        return frozenset(subnet.zone for subnet in enough or usable)

    def public_zones(self, template: AWSNodeTemplate) -> frozenset[str]:
        """The zones whose usable subnets all give a node a public IPv4 address. Raises as `matching`."""
        subnets = self._usable(template)
        return frozenset(s.zone for s in subnets) - frozenset(s.zone for s in subnets if not s.public)

    def reserve(
        self, template: AWSNodeTemplate, addresses_by_zone: Mapping[str, int]
    ) -> tuple[dict[str, Subnet], Reservation]:
        """The subnet with the most free addresses of each zone given, and the addresses taken from it.

        `addresses_by_zone` says how many addresses the node takes there. Zones in which no subnet has so many are left
        out, but where none has: then EC2 decides.
        """
        subnets = [subnet for subnet in self._usable(template) if subnet.zone in addresses_by_zone]
        with self._lock:
            ordered = sorted(subnets, key=lambda s: (-self._free(s), s.id))
            enough = [subnet for subnet in ordered if self._free(subnet) >= addresses_by_zone[subnet.zone]]
            chosen: dict[str, Subnet] = {}
            for subnet in enough or ordered:
                chosen.setdefault(subnet.zone, subnet)
            taken = {subnet.id: addresses_by_zone[zone] for zone, subnet in chosen.items()}
            for subnet_id, count in taken.items():
                self._in_flight[subnet_id] = self._in_flight.get(subnet_id, 0) + count
        return chosen, taken

    def release(self, reservation: Reservation, used: Iterable[str] = ()) -> None:
        """Give back what a launch did not use; `used` are the subnets in which instances were launched."""
        kept = set(used)
        with self._lock:
            for subnet_id, count in reservation.items():
                if subnet_id not in kept and subnet_id in self._in_flight:
                    self._in_flight[subnet_id] = max(0, self._in_flight[subnet_id] - count)

    def exhaust(self, subnet_id: str) -> bool:
        """Exclude a subnet without free addresses for EXHAUSTED_SECONDS; returns whether it was not excluded yet."""
        with self._lock:
            new = subnet_id not in self._exhausted
            self._exhausted[subnet_id] = True
        return new

    def _usable(self, template: AWSNodeTemplate) -> list[Subnet]:
        subnets = self.matching(template)
        with self._lock:
            open_ones = [s for s in subnets if not s.closed and s.free_addresses >= LEAST_FREE]
            return [s for s in open_ones if s.id not in self._exhausted]

    def _free(self, subnet: Subnet) -> int:
        return subnet.free_addresses - self._in_flight.get(subnet.id, 0)

    def _describe(self, template: AWSNodeTemplate) -> tuple[Subnet, ...]:
        if not template.subnet_selector:
            return ()
        with translated("ec2:DescribeSubnets", f"AWSNodeTemplate {template.name}"):
            pages = self._ec2.get_paginator("describe_subnets").paginate(
                Filters=filters(template.subnet_selector, "subnet-id")
            )
            subnets = [
                Subnet(
                    id=subnet["SubnetId"],
                    zone=subnet["AvailabilityZone"],
                    free_addresses=subnet["AvailableIpAddressCount"],
                    public=subnet.get("MapPublicIpOnLaunch", False),
                    closed=any((tag["Key"], tag["Value"]) == (CLOSED_TAG, "true") for tag in subnet.get("Tags", ())),
                )
                for page in pages
                for subnet in page["Subnets"]
            ]
        with self._lock:
            for subnet in subnets:
                self._in_flight.pop(subnet.id, None)
        return tuple(sorted(subnets, key=lambda subnet: (-subnet.free_addresses, subnet.id)))
