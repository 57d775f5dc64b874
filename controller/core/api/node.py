"""Nodes and taints."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import OwnerReference, Resources


@dataclass(frozen=True, slots=True)
class Taint:
    """effect NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


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
    """The Ready condition is True."""
    images: tuple[str, ...] = ()
    created: float = 0.0
    deleted_at: float | None = None
    resource_version: str = field(default="", compare=False)
