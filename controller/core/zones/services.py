"""Services: how kube-proxy chooses among their endpoints, and whether their traffic stays in its zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from controller.core.api.document import Document, mapping, objects, text
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Pod, PodKey
from controller.core.zones.hints import HintOutcome, ZoneCPU, enough_endpoints, even, hints

TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
TOPOLOGY_AWARE_HINTS = "service.kubernetes.io/topology-aware-hints"
"""The annotation's name before Kubernetes 1.27, still read."""
MODES = ("Auto", "auto")
CLOSE = ("PreferClose", "PreferSameZone", "PreferSameNode")
"""Values of `spec.trafficDistribution` that keep traffic in the client's zone."""
SERVICE_NAME = "kubernetes.io/service-name"
"""Label of an EndpointSlice: the Service that it belongs to."""


class Routing(Enum):
    """Which endpoints a client's node sends to; the value is shown."""

    BY_CPU = "hints by each zone's share of CPU"
    CLOSE = "the client's zone, while it has an endpoint"
    ANYWHERE = "endpoints of all zones alike"
    NOT_PROXIED = "not by kube-proxy"


@dataclass(frozen=True, slots=True)
class Service:
    """A Service as far as zones matter. `setting`: what asks for `routing`, as the user typed it."""

    namespace: str
    name: str
    selector: FrozenMap[str, str] = EMPTY
    """Empty: its endpoints are written by others."""
    routing: Routing = Routing.ANYWHERE
    setting: str = ""

    @property
    def key(self) -> PodKey:
        """(namespace, name)."""
        return (self.namespace, self.name)

    @property
    def asks_for_zones(self) -> bool:
        """Whether its traffic is meant to stay inside zones."""
        return self.routing in (Routing.BY_CPU, Routing.CLOSE)


@dataclass(frozen=True, slots=True)
class SliceEndpoints:
    """The Ready endpoints of a Service's EndpointSlices of one address type (the one with most endpoints).

    `ready`: by own zone ("": none). `hinted`: by (own zone, zone of the hint). `unhinted`: endpoints without a hint.
    """

    ready: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    hinted: Mapping[tuple[str, str], int] = field(default_factory=lambda: EMPTY)
    unhinted: int = 0


def parse_service(document: Document) -> Service:
    """Read a Service; members that are not as the API has them count as missing."""
    metadata, spec = mapping(document.get("metadata")), mapping(document.get("spec"))
    selector = {key: text(value) for key, value in mapping(spec.get("selector")).items()}
    routing, setting = _routing(mapping(metadata.get("annotations")), spec)
    namespace = text(metadata.get("namespace")) or "default"
    return Service(namespace, text(metadata.get("name")), FrozenMap(selector), routing, setting)


def _routing(annotations: Document, spec: Document) -> tuple[Routing, str]:
    """Return the routing and its setting; the annotation wins over `spec.trafficDistribution`, as in Kubernetes."""
    if spec.get("type") == "ExternalName":
        return Routing.NOT_PROXIED, "spec.type ExternalName"
    if spec.get("clusterIP") == "None":
        return Routing.NOT_PROXIED, "spec.clusterIP None (headless)"
    for key in (TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE):
        if text(annotations.get(key)) in MODES:
            return Routing.BY_CPU, f"{key}: {annotations[key]}"
    if text(spec.get("trafficDistribution")) in CLOSE:
        return Routing.CLOSE, f"spec.trafficDistribution: {spec['trafficDistribution']}"
    return Routing.ANYWHERE, ""


def selects(service: Service, pod: Pod) -> bool:
    """Return whether the pod is an endpoint of the Service once it is Ready."""
    if not service.selector or pod.namespace != service.namespace or pod.terminal or pod.terminating:
        return False
    return all(pod.labels.get(key) == value for key, value in service.selector.items())


def endpoint_zones(service: Service, placed: Iterable[tuple[Pod, str]]) -> dict[str, int]:
    """Count endpoints by zone, of pods that are given with the zone of their node."""
    return dict(sorted(Counter(zone for pod, zone in placed if selects(service, pod)).items()))


def slice_endpoints(slices: Iterable[Document]) -> SliceEndpoints:
    """Count the Ready endpoints of EndpointSlices; those without the condition `ready: true` do not count."""
    by_address: dict[str, list[Document]] = {}
    for each in slices:
        ready = [one for one in objects(each.get("endpoints")) if mapping(one.get("conditions")).get("ready") is True]
        by_address.setdefault(text(each.get("addressType")), []).extend(ready)
    endpoints = max(by_address.values(), key=len, default=[])
    own: Counter[str] = Counter(text(each.get("zone")) for each in endpoints)
    hinted: Counter[tuple[str, str]] = Counter()
    unhinted = 0
    for each in endpoints:
        zones = [text(zone.get("name")) for zone in objects(mapping(each.get("hints")).get("forZones"))]
        hinted.update((text(each.get("zone")), zone) for zone in zones)
        unhinted += not zones
    return SliceEndpoints(dict(sorted(own.items())), dict(sorted(hinted.items())), unhinted)


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
