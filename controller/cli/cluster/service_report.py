"""Whether the traffic of Services stays inside zones: in the cluster as it is, and with a plan's nodes and pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from controller.cli.cluster.simulation import Simulation
from controller.core.api.labels import ZONE
from controller.core.api.pod import Pod
from controller.core.state.snapshot import Snapshot
from controller.core.zones.hints import ZoneCPU, zone_cpu
from controller.core.zones.services import Service, ServiceZones, endpoint_zones, service_zones


def present_cpu(snapshot: Snapshot) -> ZoneCPU:
    """Return the CPU of the zones, Fargate's nodes included."""
    return zone_cpu(node.node for node in snapshot.nodes.values())


def ready_pods(snapshot: Snapshot) -> Iterator[tuple[Pod, str]]:
    """Yield every Ready pod with the zone of its node ("": none)."""
    for node in snapshot.nodes.values():
        zone = node.node.labels.get(ZONE, "")
        yield from ((pod, zone) for pod in node.pods if pod.ready)


def present_services(snapshot: Snapshot, services: Iterable[Service]) -> tuple[ServiceZones, ...]:
    """Return the Services that ask for traffic inside zones, with their Ready pods as endpoints."""
    return _judged(services, present_cpu(snapshot), ready_pods(snapshot))


def planned_services(simulation: Simulation) -> tuple[ServiceZones, ...]:
    """Return the same once the plan's nodes and all pods that it places are Ready."""
    new = ((each.offering.zone, simulation.allocatable(each).get("cpu", 0)) for each in simulation.plan.new_nodes)
    zones = present_cpu(simulation.problem.snapshot).plus(new)
    return _judged(simulation.services, zones, _placed(simulation))


def _judged(services: Iterable[Service], zones: ZoneCPU, pods: Iterable[tuple[Pod, str]]) -> tuple[ServiceZones, ...]:
    """Judge the Services with a selector that ask for traffic inside zones. pods: Ready ones, with their zones."""
    asking = [each for each in services if each.asks_for_zones and each.selector]
    placed = list(pods) if asking else []
    return tuple(service_zones(each, zones, endpoint_zones(each, placed)) for each in asking)


def _placed(simulation: Simulation) -> Iterator[tuple[Pod, str]]:
    nodes, pending = simulation.problem.snapshot.nodes, simulation.pods
    for node in nodes.values():
        yield from ((pod, node.node.labels.get(ZONE, "")) for pod in node.pods)
    for on in simulation.plan.existing:
        yield from ((pending[key], nodes[on.node].node.labels.get(ZONE, "")) for key in on.pods if on.node in nodes)
    for planned in simulation.plan.new_nodes:
        yield from ((pending[key], planned.offering.zone) for key in planned.pods)


def document(each: ServiceZones) -> dict[str, Any]:
    return {
        "service": "/".join(each.service.key),
        "routing": each.service.setting,
        "kept": each.kept,
        "verdict": each.verdict,
        "endpoints": dict(each.endpoints),
        "lent": [
            {"from": loan.from_zone, "to": loan.to_zone, "endpoints": loan.endpoints} for loan in each.outcome.loans
        ],
        "remedies": list(each.remedies),
    }
