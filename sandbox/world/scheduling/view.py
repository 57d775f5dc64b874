"""The cluster as one scheduling attempt reads it: nodes with their pods, namespaces, and the storage objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandbox.world.resources import Key, Obj
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo


@dataclass(slots=True)
class ClusterView:
    """`nodes` by name; `namespace_labels` by namespace; `claims`, `volumes`, `storage_classes` by key or name."""

    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    namespace_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    claims: Mapping[Key, Obj] = field(default_factory=dict)
    volumes: Mapping[str, Obj] = field(default_factory=dict)
    storage_classes: Mapping[str, Obj] = field(default_factory=dict)
    volume_limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """CSI driver → attachable volumes, by node name (CSINode allocatable)."""

    def place(self, pod: PodInfo, node_name: str) -> None:
        """Count `pod` on a node; a node that is not known is ignored."""
        node = self.nodes.get(node_name)
        if node is not None:
            node.add(pod)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node will not do. `reasons` are kube-scheduler's texts; `resolvable` if evicting pods could help."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool


@dataclass(frozen=True, slots=True)
class PodRejection:
    """Why no node at all will do, found before looking at nodes (a missing claim)."""

    plugin: str
    reason: str
