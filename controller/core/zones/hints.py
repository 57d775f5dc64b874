"""Topology hints of EndpointSlices, as kube-controller-manager sets them (k8s.io/endpointslice, topologycache).

With the annotation `service.kubernetes.io/topology-mode: Auto` each zone is meant to get endpoints in proportion to the
allocatable CPU of its Ready nodes. An endpoint that is hinted for another zone than its own is *lent*: its traffic
crosses zones. Counts are of Ready endpoints.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.core.api.frozen import EMPTY
from controller.core.api.node import Node

OVERLOAD = 0.20
"""A zone's endpoints may carry this much more than its share of the traffic (`overloadThreshold`)."""
EXCLUDED_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Nodes with one of these labels do not count."""
NO_NODE_INFO = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
FEW_ENDPOINTS = "Insufficient number of endpoints"
OVERLOADED = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
NO_ENDPOINT_ZONE = "One or more endpoints do not have a zone specified"
"""Messages of kube-controller-manager's events on the Service. With nodes in one zone alone it is NO_NODE_INFO too."""


@dataclass(frozen=True, slots=True)
class ZoneCPU:
    """Allocatable CPU of Ready nodes by zone, in millicores; no zone without any.

    `incomplete`: a Ready node without a zone or allocatable CPU; one such node ends hints for every Service.
    """

    cpu: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    incomplete: str = ""

    @property
    def shares(self) -> Mapping[str, float]:
        """Each zone's share of all CPU, sorted by zone."""
        total = sum(self.cpu.values())
        return {zone: own / total for zone, own in sorted(self.cpu.items())}

    def plus(self, more: Iterable[tuple[str, int]]) -> ZoneCPU:
        """Add nodes: (zone, millicores) of each."""
        cpu = Counter(self.cpu)
        for zone, own in more:
            cpu[zone] += own
        return ZoneCPU(dict(cpu), self.incomplete)

    def evened(self) -> ZoneCPU:
        """Return the same zones with equal shares."""
        return ZoneCPU(dict.fromkeys(self.cpu, 1), self.incomplete)


@dataclass(frozen=True, slots=True)
class Loan:
    """Endpoints of one zone that are hinted for another."""

    from_zone: str
    to_zone: str
    endpoints: int


@dataclass(frozen=True, slots=True)
class HintOutcome:
    """The hints that kube-controller-manager sets for a Service's endpoints.

    `reason`: its own message if it sets none; empty if it sets hints. `minimum`: the least endpoints of each zone.
    Loans are grouped by zones; if several zones lend and borrow, the pairs depend on the order of its maps.
    """

    reason: str = ""
    minimum: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    loans: tuple[Loan, ...] = ()

    @property
    def hinted(self) -> bool:
        """Whether every endpoint gets a hint."""
        return not self.reason

    @property
    def lent(self) -> int:
        """Endpoints whose traffic comes from another zone."""
        return sum(each.endpoints for each in self.loans)


def zone_cpu(nodes: Iterable[Node]) -> ZoneCPU:
    """Return the CPU of the nodes' zones: every Ready node counts, Fargate's and cordoned ones too."""
    cpu: Counter[str] = Counter()
    for node in nodes:
        if not node.ready or any(label in node.labels for label in EXCLUDED_LABELS):
            continue
        zone, own = node.zone, node.allocatable.get("cpu", 0)
        if not zone or not own:
            return ZoneCPU(incomplete=node.name)
        cpu[zone] += own
    return ZoneCPU(dict(cpu))


def hints(zones: ZoneCPU, endpoints: Mapping[str, int]) -> HintOutcome:
    """Set hints anew for a Service with so many Ready endpoints in each zone; zone "" is unknown.

    kube-controller-manager keeps hints that it once set while no zone is short of its minimum.
    """
    total = sum(endpoints.values())
    if reason := _refusal(zones, total):
        return HintOutcome(reason)
    if endpoints.get(""):
        return HintOutcome(NO_ENDPOINT_ZONE)
    minimum = {zone: _minimum(share, total) for zone, share in zones.shares.items()}
    desired = {zone: max(share * total, minimum[zone]) for zone, share in zones.shares.items()}
    return HintOutcome("", minimum, _loans(desired, endpoints))


def _refusal(zones: ZoneCPU, total: int) -> str:
    count = len(zones.shares)
    if zones.incomplete or count < 2:
        return NO_NODE_INFO
    if count > total:
        return f"{FEW_ENDPOINTS} ({total} endpoints, {count} zones)"
    if sum(_minimum(share, total) for share in zones.shares.values()) > total:
        return f"{OVERLOADED} ({total} endpoints, {count} zones)"
    return ""


def _minimum(share: float, total: int) -> int:
    return math.ceil(share * total * (1 / (1 + OVERLOAD)))


def _loans(desired: Mapping[str, float], endpoints: Mapping[str, int]) -> tuple[Loan, ...]:
    """Lend whole endpoints from the zone with the largest surplus to that with the largest lack, while one is due.

    Endpoints of a zone without nodes that count are not lent: they keep the hint for their own zone.
    """
    over = {zone: endpoints.get(zone, 0) - want for zone, want in desired.items() if endpoints.get(zone, 0) > want}
    under = {zone: want - endpoints.get(zone, 0) for zone, want in desired.items() if endpoints.get(zone, 0) < want}
    loans: Counter[tuple[str, str]] = Counter()
    while over and under:
        giver, taker = max(over, key=over.__getitem__), max(under, key=under.__getitem__)
        most, least = max(over[giver], under[taker]), min(over[giver], under[taker])
        if most < 1.0 or least < 0.5:
            break
        over[giver] -= 1
        under[taker] -= 1
        loans[(giver, taker)] += 1
    return tuple(Loan(giver, taker, count) for (giver, taker), count in sorted(loans.items()))


def enough_endpoints(zones: ZoneCPU, at_least: int) -> int | None:
    """Return the least number of endpoints, `at_least` or more, with which hints are set; None where no number helps.

    From six a zone on every number is enough: each zone's minimum is less than its share of n/1.2, plus one.
    """
    if len(zones.shares) < 2 or zones.incomplete:
        return None
    most = max(at_least, 6 * len(zones.shares))
    return next(n for n in range(max(at_least, 1), most + 1) if not _refusal(zones, n))


def even(total: int, zones: Iterable[str]) -> dict[str, int]:
    """Spread `total` endpoints as a zone spread with maxSkew 1 does, the remainder to the first zones by name."""
    names = sorted(zones)
    each, rest = divmod(total, len(names))
    return {zone: each + (index < rest) for index, zone in enumerate(names)}
