"""Explain a Service: whether its traffic stays in its zones, why not, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controller.cli.cluster.cluster_view import ClusterView
from controller.cli.cluster.service_report import present_cpu, ready_pods
from controller.cli.explain.answer import Answer, Section
from controller.cli.explain.history import events_section
from controller.cli.explain.subjects import not_found
from controller.cli.formatting import count, percent
from controller.core.api.quantity import format_quantity
from controller.core.zones.hints import ZoneCPU
from controller.core.zones.services import (
    SERVICE_NAME,
    Routing,
    Service,
    ServiceZones,
    SliceEndpoints,
    endpoint_zones,
    service_zones,
    slice_endpoints,
    zones_in_words,
)
from controller.errors import ForbiddenError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import ENDPOINT_SLICES


def explain_service(cluster: ClusterView, namespace: str, name: str, now: float) -> Answer:
    """Explain a Service by its EndpointSlices, or by its Ready pods where they cannot be read. Raises NotFoundError."""
    service = next((each for each in cluster.services if each.key == (namespace, name)), None)
    if service is None:
        known = (f"{each.namespace}/{each.name}" for each in cluster.services)
        raise not_found("Service", f"{namespace}/{name}", known, "-n NAMESPACE looks in another namespace")
    slices = _slices(cluster.kube, service)
    endpoints = slices.ready if slices is not None else endpoint_zones(service, ready_pods(cluster.snapshot))
    zones = present_cpu(cluster.snapshot)
    judged = as_seen(service_zones(service, zones, endpoints), slices)
    sections = (
        Section("Zones", tuple(_zones(judged, zones))),
        Section("Lent endpoints", tuple(_loans(judged))),
        Section("Hints there are", tuple(_hints(slices, service))),
        Section("What would help", judged.remedies),
        events_section(cluster.kube, "Service", name, namespace, now),
    )
    notes = () if slices is not None else ("Endpoints are its Ready pods: no EndpointSlice of it can be read",)
    return Answer(f"Service {namespace}/{name}", judged.verdict, _facts(service, judged), sections, notes)


def as_seen(judged: ServiceZones, slices: SliceEndpoints | None) -> ServiceZones:
    """Return the verdict, with a remedy where hints could be set and are not: kube-controller-manager removes hints at
    once when nodes change, and sets them anew only when the Service or its endpoints change."""
    due = judged.service.routing is Routing.BY_CPU and judged.outcome.hinted
    if slices is None or not due or slices.hinted:
        return judged
    of = f"-n {judged.service.namespace} {judged.service.name}"
    remedy = (
        "let kube-controller-manager look again, as it does when the Service or its endpoints change: "
        f"kubectl annotate service {of} looked-at=$(date +%s) --overwrite"
    )
    verdict = f"has no hints now; looked at again, it {judged.verdict}"
    return replace(judged, verdict=verdict, kept=False, remedies=(remedy, *judged.remedies))


def _slices(kube: KubeClient | None, service: Service) -> SliceEndpoints | None:
    """Return its EndpointSlices; None where they cannot be read, or nobody has written one."""
    if kube is None:
        return None
    try:
        slices = kube.list(ENDPOINT_SLICES, service.namespace, label_selector=f"{SERVICE_NAME}={service.name}")
    except (ForbiddenError, NotFoundError):
        return None
    return slice_endpoints(slices) if slices else None


def _facts(service: Service, judged: ServiceZones) -> dict[str, str]:
    return {
        "routing": f"{service.routing.value}{f' ({service.setting})' if service.setting else ''}",
        "selects": ", ".join(f"{key}={value}" for key, value in sorted(service.selector.items())),
        "Ready endpoints": zones_in_words(judged.endpoints),
    }


def _zones(judged: ServiceZones, zones: ZoneCPU) -> Iterator[str]:
    """Yield one line a zone: its share of CPU, its endpoints, and what is due to it."""
    total = sum(judged.endpoints.values())
    by_cpu = judged.service.routing is Routing.BY_CPU
    for zone in sorted({*zones.shares, *judged.endpoints}):
        share, have = zones.shares.get(zone, 0.0), judged.endpoints.get(zone, 0)
        cpu = f"{percent(share)} of the CPU ({format_quantity('cpu', zones.cpu.get(zone, 0))})"
        due = f", {share * total:.1f} due" if by_cpu and total else ""
        least = f", at least {judged.outcome.minimum[zone]}" if zone in judged.outcome.minimum else ""
        yield f"{zone or 'no zone'}: {cpu}, {have} Ready endpoints{due}{least}"


def _loans(judged: ServiceZones) -> Iterator[str]:
    for each in judged.outcome.loans:
        yield f"{each.endpoints} of {each.from_zone} serve {each.to_zone}"


def _hints(slices: SliceEndpoints | None, service: Service) -> Iterator[str]:
    """Yield what the EndpointSlices say now; hints stay while no zone is short of its minimum."""
    if slices is None or not service.asks_for_zones:
        return
    for (own, zone), number in slices.hinted.items():
        yield f"{count(number, 'endpoint')} of {own or 'no zone'}: for {zone}"
    if slices.unhinted:
        yield f"{count(slices.unhinted, 'endpoint')} without a hint" + (
            ": kube-proxy uses all endpoints" if slices.hinted else ""
        )
