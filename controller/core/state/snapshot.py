"""An immutable view of the cluster: all that decisions are made from."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import INITIALIZED, PROVISIONER_NAME
from controller.core.api.node import Node, Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import Pod, PodKey, Resources
from controller.core.api.provisioner import Provisioner
from controller.core.api.workloads import (
    CSINode,
    DaemonSet,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PodOwner,
    ResourceQuota,
    StorageClass,
)
from controller.core.state.evictions import StorageLoop


@dataclass(frozen=True, slots=True)
class StateNode:
    """A node with what runs on it.

    `capacity` and `allocatable` are the node's own, with zero or missing entries filled from its instance type until it
    is initialized. `taints` are those that scheduling must respect: not-ready and unreachable (NoSchedule) are left
    out, and the Provisioner's startup taints until initialization; a cordoned node has the unschedulable taint.
    """

    node: Node
    pods: tuple[Pod, ...]
    """Bound and not terminal, sorted by key."""
    capacity: Resources
    allocatable: Resources
    taints: tuple[Taint, ...]
    nominated_until: float = 0.0
    marked_for_deletion: bool = False
    no_room: str = ""
    """Why no pods are planned onto the node although it stays (see effective.py); empty: it takes pods."""
    _lowest_ending: float | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def lowest_ending(self) -> float:
        """Return the lowest priority of the terminating pods, found once; infinite if none is terminating."""
        if self._lowest_ending is None:
            lowest = min((float(pod.spec.priority) for pod in self.pods if pod.terminating), default=math.inf)
            object.__setattr__(self, "_lowest_ending", lowest)
            return lowest
        return self._lowest_ending

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def provisioner_name(self) -> str:
        """The owning Provisioner, or empty: not ours."""
        return self.node.labels.get(PROVISIONER_NAME, "")

    @property
    def initialized(self) -> bool:
        """Whether initialization was completed once."""
        return self.node.labels.get(INITIALIZED) == "true"

    @property
    def leaving(self) -> bool:
        """Marked for deletion, or deletion was asked for: it takes no more pods."""
        return self.marked_for_deletion or self.node.deleted_at is not None

    @property
    def takes_pods(self) -> bool:
        """Whether plans may count on the node's free room."""
        return not self.leaving and not self.no_room


@dataclass(frozen=True, slots=True)
class InvalidObject:
    """A Provisioner or node template that breaks rules and is therefore ignored."""

    kind: str
    name: str
    uid: str
    generation: int
    error: str
    """Every broken rule with its key path, joined by " | "."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one `version`. Mappings are sorted by key, and shared between snapshots where nothing changed.

    Snapshots of the same version differ in nothing but resource versions of objects.
    """

    version: int = 0
    synced: bool = False
    """Every watch has delivered its first list: until then nothing may be removed (invariant 5)."""
    nodes: Mapping[str, StateNode] = field(default_factory=lambda: EMPTY)
    pods: Mapping[PodKey, Pod] = field(default_factory=lambda: EMPTY)
    provisioners: Mapping[str, Provisioner] = field(default_factory=lambda: EMPTY)
    node_templates: Mapping[str, AWSNodeTemplate] = field(default_factory=lambda: EMPTY)
    invalid: Mapping[tuple[str, str], InvalidObject] = field(default_factory=lambda: EMPTY)
    """By (kind, name)."""
    daemon_sets: Mapping[PodKey, DaemonSet] = field(default_factory=lambda: EMPTY)
    budgets: Mapping[PodKey, PodDisruptionBudget] = field(default_factory=lambda: EMPTY)
    claims: Mapping[PodKey, PersistentVolumeClaim] = field(default_factory=lambda: EMPTY)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=lambda: EMPTY)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=lambda: EMPTY)
    csi_nodes: Mapping[str, CSINode] = field(default_factory=lambda: EMPTY)
    namespaces: Mapping[str, Namespace] = field(default_factory=lambda: EMPTY)
    replica_sets: Mapping[PodKey, PodOwner] = field(default_factory=lambda: EMPTY)
    stateful_sets: Mapping[PodKey, PodOwner] = field(default_factory=lambda: EMPTY)
    jobs: Mapping[PodKey, PodOwner] = field(default_factory=lambda: EMPTY)
    quotas: Mapping[PodKey, ResourceQuota] = field(default_factory=lambda: EMPTY)
    storage_loops: Mapping[str, StorageLoop] = field(default_factory=lambda: EMPTY)
    """Owners whose pods fill their nodes' disks again and again, by uid."""
    unbound_of: tuple[Mapping[PodKey, Pod], tuple[Pod, ...]] | None = field(default=None, compare=False)
    """The pods that `unbound` was computed from, and its result; None, or of other pods: it is computed when asked."""

    @property
    def unbound(self) -> tuple[Pod, ...]:
        """The pods that have no node and may still get one, sorted by key."""
        if self.unbound_of is not None and self.unbound_of[0] is self.pods:
            return self.unbound_of[1]
        return tuple(pod for pod in self.pods.values() if not pod.node_name and not pod.terminal)

    def nodes_of(self, provisioner_name: str, without: Collection[str] = ()) -> list[StateNode]:
        """Return the Provisioner's nodes that are not leaving, without those whose name is in `without`."""
        return [
            node
            for node in self.nodes.values()
            if node.provisioner_name == provisioner_name and not node.leaving and node.name not in without
        ]
