"""Services: how kube-proxy chooses among their endpoints, and which zones those endpoints are in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from controller.core.api.document import Document, mapping, objects, text
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Pod, PodKey

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
