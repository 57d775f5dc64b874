"""Judge whether a Service's traffic stays in its zones, with the reason and remedies if it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controller.core.zones.hints import HintOutcome, ZoneCPU, enough_endpoints, even, hints
from controller.core.zones.services import Routing, Service

SPREAD = "spread its pods: a topologySpreadConstraint over topology.kubernetes.io/zone with maxSkew 1"
EVEN_NODES = "even out the nodes over the zones: spread the larger workloads over topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class ServiceZones:
    """One Service among the cluster's zones.

    `endpoints`: the Ready ones by zone. `verdict` completes "Service NAME ...". `kept`: whether no traffic has to cross
    zones. `outcome`: what kube-controller-manager's rules make of it, where it asks for hints. `remedies`: what would
    help, most useful first.
    """

    service: Service
    endpoints: Mapping[str, int]
    verdict: str
    kept: bool
    outcome: HintOutcome = field(default_factory=HintOutcome)
    remedies: tuple[str, ...] = ()


def service_zones(service: Service, zones: ZoneCPU, endpoints: Mapping[str, int]) -> ServiceZones:
    """Judge a Service with so many Ready endpoints in each zone."""
    if service.routing is Routing.NOT_PROXIED:
        return ServiceZones(service, endpoints, f"is not routed by kube-proxy ({service.setting})", kept=True)
    if service.routing is Routing.ANYWHERE:
        return _anywhere(service, zones, endpoints)
    if service.routing is Routing.CLOSE:
        return _close(service, zones, endpoints)
    outcome = hints(zones, endpoints)
    remedies = tuple(_by_cpu_remedies(zones, endpoints, outcome))
    if outcome.reason:
        return ServiceZones(service, endpoints, f"gets no hints: {outcome.reason}", False, outcome, remedies)
    total = sum(endpoints.values())
    lent = f"; {outcome.lent} of {total} endpoints are lent to other zones, their traffic crosses"
    verdict = f"gets hints{lent if outcome.lent else ': its traffic stays in its zones'}"
    return ServiceZones(service, endpoints, verdict, not outcome.lent, outcome, remedies)


def _anywhere(service: Service, zones: ZoneCPU, endpoints: Mapping[str, int]) -> ServiceZones:
    if len(zones.shares) < 2:
        return ServiceZones(service, endpoints, "asks for no hints, and all nodes stand in one zone", kept=True)
    remedy = "annotate it with service.kubernetes.io/topology-mode: Auto, or set spec.trafficDistribution: PreferClose"
    verdict = "asks for no hints: its clients use the endpoints of all zones alike"
    return ServiceZones(service, endpoints, verdict, False, remedies=(remedy,))


def _close(service: Service, zones: ZoneCPU, endpoints: Mapping[str, int]) -> ServiceZones:
    without = [zone for zone in zones.shares if not endpoints.get(zone)]
    if not sum(endpoints.values()):
        return ServiceZones(service, endpoints, "has no Ready endpoints", False, remedies=("see its pods",))
    if not without:
        verdict = "keeps its traffic in its zones: each zone with nodes has an endpoint"
        return ServiceZones(service, endpoints, verdict, kept=True)
    verdict = f"has no endpoint in {', '.join(without)}: clients there use those of other zones"
    few = sum(endpoints.values()) < len(zones.shares)
    remedy = f"run {len(zones.shares)} replicas or more, and {SPREAD}" if few else SPREAD
    return ServiceZones(service, endpoints, verdict, False, remedies=(remedy,))


def _by_cpu_remedies(zones: ZoneCPU, endpoints: Mapping[str, int], outcome: HintOutcome) -> Iterator[str]:
    total = sum(endpoints.values())
    if zones.incomplete:
        yield f"node {zones.incomplete} is Ready without a zone label or allocatable CPU: correct or remove it"
    elif len(zones.shares) < 2:
        where = next(iter(zones.shares), "")
        yield f"all Ready nodes stand in {where}: {EVEN_NODES}" if where else "there is no Ready node"
    elif endpoints.get(""):
        yield "endpoints without a zone: are their nodes labelled, and are they written by kube-controller-manager?"
    elif outcome.reason:
        yield from _more_endpoints(zones, total)
    elif outcome.lent:
        yield from _no_loans(zones, endpoints)


def _more_endpoints(zones: ZoneCPU, total: int) -> Iterator[str]:
    yield f"run {enough_endpoints(zones, total)} replicas"
    if hints(zones.evened(), even(total, zones.shares)).hinted:
        yield f"or {EVEN_NODES}: with equal zones {total} endpoints are enough"


def _no_loans(zones: ZoneCPU, endpoints: Mapping[str, int]) -> Iterator[str]:
    """Spread pods where that alone helps, even out nodes where it takes that."""
    total = sum(endpoints.values())
    spread = hints(zones, even(total, zones.shares))
    lent = hints(zones, endpoints).lent
    if spread.lent < lent:
        rest = f" ({spread.lent} would still be lent)" if spread.lent else ""
        yield f"{SPREAD}{rest}"
    if spread.lent and hints(zones.evened(), even(total, zones.shares)).lent < spread.lent:
        listed = ", ".join(f"{zone} {share:.0%}" for zone, share in zones.shares.items())
        yield f"{EVEN_NODES}: their CPU is {listed}"
    elif spread.lent >= lent:
        yield f"{EVEN_NODES}, or run a number of replicas that its zones share evenly: {_shared_evenly(zones, total)}"


def _shared_evenly(zones: ZoneCPU, total: int) -> int:
    """Return the least number from `total` on, up to twelve more a zone, for which a spread lends least."""
    numbers = range(total, total + 12 * len(zones.shares))
    spread = {number: hints(zones, even(number, zones.shares)) for number in numbers}
    return min((n for n in numbers if spread[n].hinted), key=lambda n: (spread[n].lent, n))


def zones_in_words(counts: Mapping[str, int]) -> str:
    """Format counts by zone: `us-east-1a 4, us-east-1b 3`; "none" for no zones."""
    return ", ".join(f"{zone or 'no zone'} {number}" for zone, number in counts.items()) or "none"
