"""Subnets by selector, and the choice among them: most free addresses first, launches in flight included.

DescribeSubnets is cached for a minute, in which a burst of launches can exhaust a subnet. So each launch reserves the
addresses that its node may take. Addresses that the fleet did not use are given back, and the others are forgotten when
EC2's count, which then includes the node, is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
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
"""A subnet with this tag and the value "true" gets no nodes: its zone is being left by hand."""


@dataclass(frozen=True, slots=True)
class Subnet:
    """One subnet; `free_addresses` as EC2 counted them when it was read; `public`: it gives nodes a public address;
    `closed`: by its tag; `zone_id`: such as use1-az1."""

    id: str
    zone: str
    free_addresses: int
    public: bool = False
    closed: bool = False
    zone_id: str = ""


Reservation: TypeAlias = Mapping[str, int]
"""Addresses that one launch may take, by subnet id."""


class Subnets:
    """Subnets of node templates. Safe for many threads."""

    def __init__(self, ec2: EC2Client, clock: Clock, left: Callable[[], Collection[str]] = frozenset) -> None:
        """`left`: ids of the zones that a zonal shift leaves; their subnets get no nodes."""
        self._ec2 = ec2
        self._left = left
        self._zone_names: dict[str, str] = {}
        """By zone id, of the subnets that were read."""
        self._beside: dict[str, str] = {}
        """By subnet of a reservation, the one that was reserved beside it for pods."""
        self._lock = threading.Lock()
        self._read: Cache[tuple[tuple[str, str], ...], tuple[Subnet, ...]] = Cache(clock, CACHE_SECONDS)
        self._for_pods: dict[str, str] = {}
        """By zone, the subnet that pods take addresses of, where it is not the node's."""
        self._in_flight: dict[str, int] = {}
        self._exhausted: TTLCache[str, bool] = TTLCache(MAX_SUBNETS, EXHAUSTED_SECONDS, timer=clock.monotonic)

    def matching(self, template: AWSNodeTemplate) -> tuple[Subnet, ...]:
        """Return the template's subnets, most free addresses first.

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

    def use_for_pods(self, by_zone: Mapping[str, str]) -> None:
        """Count addresses of pods in these subnets: ids by zone. Zones without one: in the node's."""
        with self._lock:
            self._for_pods = dict(by_zone)

    def for_pods(self) -> Mapping[str, Subnet]:
        """Return, by zone, the subnet that pods take addresses of; none of a zone whose pods take the node's.

        Ids that EC2 does not know are left out. Raises CloudErrors.
        """
        with self._lock:
            ids = ",".join(sorted(set(self._for_pods.values())))
        if not ids:
            return {}
        subnets = self._read.get((("aws-ids", ids), ("of", "pods")), lambda: self._described({"aws-ids": ids}, "pods"))
        return {subnet.zone: subnet for subnet in subnets}

    def all_zones(self, template: AWSNodeTemplate) -> frozenset[str]:
        """Return the zones in which the template has a subnet, free addresses or not. Raises as `matching`."""
        return frozenset(subnet.zone for subnet in self.matching(template))

    def zones(
        self, template: AWSNodeTemplate, addresses: int = 0, among: Collection[str] | None = None
    ) -> frozenset[str]:
        """Return the zones, of those in `among` (None: any), in which the template has an open subnet with free
        addresses.

        `addresses`: what a node takes. Zones without so many, launches in flight counted in, are left out; if that
        leaves none, what launches in flight take may be overestimated, and EC2 decides. Raises as `matching`.
        """
        usable, for_pods = self._usable(template), self.for_pods()
        usable = [subnet for subnet in usable if among is None or subnet.zone in among]
        with self._lock:
            enough = [subnet for subnet in usable if self._fits(subnet, addresses, for_pods)]
        return frozenset(subnet.zone for subnet in enough or usable)

    def zones_left(self) -> frozenset[str]:
        """Return the zones, by name, that a zonal shift leaves and some template had subnets in."""
        with self._lock:
            return frozenset(self._zone_names[each] for each in self._left() if each in self._zone_names)

    def closed(self, subnet: Subnet) -> bool:
        """Return whether nothing is launched in it: by its tag, or by a zonal shift."""
        return subnet.closed or subnet.zone_id in self._left()

    def public_zones(self, template: AWSNodeTemplate) -> frozenset[str]:
        """Return the zones whose usable subnets all give a node a public IPv4 address. Raises as `matching`."""
        subnets = self._usable(template)
        return frozenset(s.zone for s in subnets) - frozenset(s.zone for s in subnets if not s.public)

    def reserve(
        self, template: AWSNodeTemplate, addresses_by_zone: Mapping[str, int]
    ) -> tuple[dict[str, Subnet], Reservation]:
        """Return the subnet with the most free addresses of each zone given, and the addresses taken from it.

        `addresses_by_zone` says how many addresses the node takes there. Zones in which no subnet has so many are left
        out, but where none has: then EC2 decides.
        """
        subnets = [subnet for subnet in self._usable(template) if subnet.zone in addresses_by_zone]
        for_pods = self.for_pods()
        with self._lock:
            ordered = sorted(subnets, key=lambda s: (-self._free(s), s.id))
            enough = [each for each in ordered if self._fits(each, addresses_by_zone[each.zone], for_pods)]
            chosen: dict[str, Subnet] = {}
            for subnet in enough or ordered:
                chosen.setdefault(subnet.zone, subnet)
            taken = {}
            for zone, subnet in chosen.items():
                taken[subnet.id] = 1 if zone in for_pods else addresses_by_zone[zone]
                self._beside.pop(subnet.id, None)
                if zone in for_pods:
                    taken[for_pods[zone].id] = addresses_by_zone[zone]
                    self._beside[subnet.id] = for_pods[zone].id
            for subnet_id, count in taken.items():
                self._in_flight[subnet_id] = self._in_flight.get(subnet_id, 0) + count
        return chosen, taken

    def release(self, reservation: Reservation, used: Iterable[str] = ()) -> None:
        """Give back what a launch did not use; `used` are the subnets in which instances were launched."""
        kept = set(used)
        with self._lock:
            kept |= {self._beside[subnet_id] for subnet_id in kept if subnet_id in self._beside}
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
        subnets, for_pods = self.matching(template), self.for_pods()
        with self._lock:
            open_ones = [
                subnet
                for subnet in subnets
                if not self.closed(subnet)
                and min(subnet.free_addresses, for_pods.get(subnet.zone, subnet).free_addresses) >= LEAST_FREE
            ]
            return [s for s in open_ones if s.id not in self._exhausted]

    def _fits(self, subnet: Subnet, addresses: int, for_pods: Mapping[str, Subnet]) -> bool:
        """Return whether a node's addresses are free: all but its own are of the zone's subnet for pods,
        where it has one."""
        of_pods = for_pods.get(subnet.zone)
        if of_pods is None:
            return self._free(subnet) >= addresses
        return self._free(subnet) >= 1 and self._free(of_pods) >= addresses

    def _free(self, subnet: Subnet) -> int:
        return subnet.free_addresses - self._in_flight.get(subnet.id, 0)

    def _describe(self, template: AWSNodeTemplate) -> tuple[Subnet, ...]:
        if not template.subnet_selector:
            return ()
        return self._described(template.subnet_selector, f"AWSNodeTemplate {template.name}")

    def _described(self, selector: Mapping[str, str], subject: str) -> tuple[Subnet, ...]:
        with translated("ec2:DescribeSubnets", subject):
            pages = self._ec2.get_paginator("describe_subnets").paginate(Filters=filters(selector, "subnet-id"))
            subnets = [
                Subnet(
                    id=subnet["SubnetId"],
                    zone=subnet["AvailabilityZone"],
                    free_addresses=subnet["AvailableIpAddressCount"],
                    public=subnet.get("MapPublicIpOnLaunch", False),
                    closed=any((tag["Key"], tag["Value"]) == (CLOSED_TAG, "true") for tag in subnet.get("Tags", ())),
                    zone_id=subnet.get("AvailabilityZoneId", ""),
                )
                for page in pages
                for subnet in page["Subnets"]
            ]
        with self._lock:
            for subnet in subnets:
                self._in_flight.pop(subnet.id, None)
                self._zone_names[subnet.zone_id] = subnet.zone
        return tuple(sorted(subnets, key=lambda subnet: (-subnet.free_addresses, subnet.id)))
