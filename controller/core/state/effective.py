"""What scheduling may assume of a node: resources and taints before its initialization, and until when it is room.

As in Karpenter v0.27: until one of our nodes is initialized, its instance type stands in for what the kubelet
has not reported, and its Provisioner's startup taints are expected to be removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import INITIALIZED, PROVISIONER_NAME
from controller.core.api.node import UNSCHEDULABLE, Node, Taint
from controller.core.api.pod import Resources
from controller.core.cloud import InstanceType
from controller.core.scheduling.taints import CLOSED_TAINT_KEY, ON_DEMAND_TAINT

EPHEMERAL_TAINTS = frozenset(
    {("node.kubernetes.io/not-ready", "", "NoSchedule"), ("node.kubernetes.io/unreachable", "", "NoSchedule")}
)
"""(key, value, effect) of taints that the node controller adds and removes: no reason to launch another node."""
CLOUD_CONTROLLER_TAINT = ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule")
"""(key, effect) of a taint that a kubelet registers with, where no Node was created for it beforehand; the cloud
controller removes it within seconds. Karpenter v0.27 launched a second node meanwhile, later versions do not."""


def effective_taints(node: Node, startup_taints: tuple[Taint, ...], initialized: bool) -> tuple[Taint, ...]:
    """Return the taints that plans obey, in the node's order.

    Left out are temporary taints, and those that the controller sets for kube-scheduler alone. Startup taints are
    matched by key and effect, as at initialization.
    """
    passing = {(ON_DEMAND_TAINT.key, ON_DEMAND_TAINT.effect), (CLOSED_TAINT_KEY, "NoSchedule")}
    if not initialized:
        passing |= {CLOUD_CONTROLLER_TAINT, *((taint.key, taint.effect) for taint in startup_taints)}
    taints = tuple(
        taint
        for taint in node.taints
        if (taint.key, taint.value, taint.effect) not in EPHEMERAL_TAINTS and (taint.key, taint.effect) not in passing
    )
    if node.unschedulable and not any(
        (taint.key, taint.effect) == ("node.kubernetes.io/unschedulable", "NoSchedule") for taint in taints
    ):
        taints += (UNSCHEDULABLE,)
    return taints


def with_devices(node: Node, devices: Resources, instance_type: InstanceType | None) -> Node:
    """Add the devices that a node's drivers publish (DRA) to what its device plugins report.

    A driver may publish more than can be used at once (parts of a device), so the instance type's number is the most.
    """
    most = devices if instance_type is None else instance_type.capacity
    usable = {name: least for name, count in devices.items() if (least := min(count, most.get(name, 0)))}
    if not usable:
        return node
    capacity, allocatable = filled(node.capacity, FrozenMap(usable)), filled(node.allocatable, FrozenMap(usable))
    return replace(node, capacity=capacity, allocatable=allocatable)


def without(own: Resources, taken: Resources) -> Resources:
    """Subtract `taken` from `own`; no amount becomes negative."""
    if not taken:
        return own
    return FrozenMap({name: max(0, amount - taken.get(name, 0)) for name, amount in own.items()})


def filled(own: Resources, of_type: Resources) -> Resources:
    """Fill entries of `own` that are missing or zero from the instance type."""
    gaps = {name: amount for name, amount in of_type.items() if amount and not own.get(name)}
    return FrozenMap({**own, **gaps}) if gaps else own


NOT_READY_GRACE_SECONDS: Final = 120.0
"""Shorter than the 300 s after which Kubernetes evicts the pods of a node that is not Ready: where they go is planned
without the node."""
GRACE_SECONDS: Final = 300.0
"""Least time to become Ready for a node that joined late, or that a new leader sees for the first time."""


@dataclass(frozen=True, slots=True)
class EndOfRoom:
    """When and why a node takes no more pods. `at`: Unix seconds; infinite: never."""

    at: float = math.inf
    because: str = ""


NEVER: Final = EndOfRoom()


def end_of_room(node: Node, initialization_seconds: float, known_since: float) -> EndOfRoom:
    """Return when the node stops counting as room, if it stays as it is: it is not Ready, or not initialized, too long.

    kube-scheduler binds no pod to such a node, so pods that a plan puts there would stay pending. Short absences (a
    restarted kubelet, a reboot) launch nothing, nor does missing data: a node without a Ready condition, or without the
    time of its transition, still counts. known_since: when it was first seen, Unix seconds.
    """
    if PROVISIONER_NAME in node.labels and node.labels.get(INITIALIZED) != "true":
        at = _initialization_deadline(node, initialization_seconds, known_since)
        return EndOfRoom(at, f"it was not initialized within {int(initialization_seconds)} s")
    since = node.not_ready_since
    if since is None:
        return NEVER
    return EndOfRoom(since + NOT_READY_GRACE_SECONDS, f"it has not been Ready for {int(NOT_READY_GRACE_SECONDS)} s")


def _initialization_deadline(node: Node, initialization_seconds: float, known_since: float) -> float:
    """Return by when a node must be initialized, Unix seconds; infinite if its creation time is not known.

    A node that this process has known only for a short time gets GRACE_SECONDS, independent of its age: if clocks
    differ, each new node would be late at once, and another one launched for its pods.
    """
    if node.created <= 0:
        return math.inf
    joined = node.not_ready_since
    latest = known_since if joined is None else max(known_since, joined)
    return max(node.created + initialization_seconds, latest + GRACE_SECONDS)
