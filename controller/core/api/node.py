"""Nodes and taints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from controller.core.api.pod import OwnerReference, Resources

READY: Final = "Ready"
AGENT_CONDITIONS: Final = frozenset(
    {"AcceleratedHardwareReady", "ContainerRuntimeReady", "KernelReady", "NetworkingReady", "StorageReady"}
)
"""Conditions of the EKS node monitoring agent: https://docs.aws.amazon.com/eks/latest/userguide/node-health.html"""


@dataclass(frozen=True, slots=True)
class Taint:
    """effect NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable")
"""What a cordoned node counts as (kube-scheduler's NodeUnschedulable filter asks for a toleration of it)."""


@dataclass(frozen=True, slots=True)
class UnhealthyCondition:
    """A condition that is not as on a healthy node. `since`: Unix seconds of its last transition."""

    type: str
    status: str
    since: float


@dataclass(frozen=True, slots=True)
class Node:
    """One node. Times are Unix seconds."""

    name: str
    uid: str = ""
    provider_id: str = ""
    labels: FrozenMap[str, str] = EMPTY
    annotations: FrozenMap[str, str] = EMPTY
    finalizers: tuple[str, ...] = ()
    owners: tuple[OwnerReference, ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    capacity: Resources = EMPTY
    allocatable: Resources = EMPTY
    ready: bool = False
    unhealthy: tuple[UnhealthyCondition, ...] = ()
    """Ready where it is stated and not True, and failing conditions of the node monitoring agent, sorted by type."""
    images: tuple[str, ...] = ()
    created: float = 0.0
    deleted_at: float | None = None
    resource_version: str = field(default="", compare=False)

    @property
    def instance_type(self) -> str:
        """The value of its label; empty without it. So are the zone and the capacity type."""
        return self.labels.get(INSTANCE_TYPE, "")

    @property
    def zone(self) -> str:
        return self.labels.get(ZONE, "")

    @property
    def capacity_type(self) -> str:
        return self.labels.get(CAPACITY_TYPE, "")

    @property
    def not_ready_since(self) -> float | None:
        """Unix seconds; None if the node is Ready, or its condition has no transition time."""
        return next((each.since for each in self.unhealthy if each.type == READY), None)
