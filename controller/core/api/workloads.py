"""Objects around pods and nodes that decide where a pod may run and when a node may be removed."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import LabelSelector, NodeSelectorTerm, Pod, PodKey


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """`template` is the pod that the controller would make: name empty, namespace and labels set, no node."""

    namespace: str
    name: str
    uid: str
    template: Pod
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """`selector` None matches nothing."""

    namespace: str
    name: str
    selector: LabelSelector | None
    disruptions_allowed: int
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """`storage_class_name` None: unset (the default class); "" : no class, static binding only."""

    namespace: str
    name: str
    volume_name: str = ""
    storage_class_name: str | None = None
    selected_node: str = ""
    access_modes: tuple[str, ...] = ()
    requested_bytes: int = 0
    annotations: FrozenMap[str, str] = EMPTY
    resource_version: str = field(default="", compare=False)

    @property
    def key(self) -> PodKey:
        """(namespace, name)."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """`node_affinity` None: reachable from everywhere (but see the zone labels that older drivers set)."""

    name: str
    labels: FrozenMap[str, str] = EMPTY
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    driver: str = ""
    """The CSI driver, or the in-tree plugin's name such as kubernetes.io/aws-ebs; empty for drivers without limits."""
    storage_class_name: str = ""
    claim: PodKey | None = None
    phase: str = ""
    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    local: bool = False
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class StorageClass:
    """`allowed_topologies` None: any."""

    name: str
    provisioner: str
    binding_mode: str = "Immediate"
    allowed_topologies: tuple[NodeSelectorTerm, ...] | None = None
    default: bool = False
    created: float = 0.0
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CSINode:
    """Attachable volumes by driver; a driver without a count is unlimited and absent here."""

    name: str
    limits: FrozenMap[str, int] = EMPTY
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Namespace:
    """`labels` are for namespace selectors. `terminating`: it is being deleted, and its pods with it."""

    name: str
    labels: FrozenMap[str, str] = EMPTY
    terminating: bool = field(default=False, kw_only=True)
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PodOwner:
    """A ReplicaSet, StatefulSet or Job: `wanted` is how many pods it has at once when it is done making them.

    `refused`: its last attempt to make one failed, as under a full quota: for now it makes no more.
    """

    namespace: str
    name: str
    uid: str
    wanted: int
    refused: bool = False
    resource_version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """`left`: what further pods may take, by the quota's own names (`pods`, `requests.cpu`, `limits.memory`)."""

    namespace: str
    name: str
    left: FrozenMap[str, int] = EMPTY
    resource_version: str = field(default="", compare=False)
