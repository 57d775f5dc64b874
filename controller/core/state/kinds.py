"""The kinds that the cluster state holds: how each is parsed and keyed, and its field of the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.core.api import devices, parse
from controller.core.api.document import Document
from controller.core.api.v1alpha5 import V1ALPHA5


@dataclass(frozen=True, slots=True)
class Kind:
    """`field` is the Snapshot's map of this kind; empty for nodes, which the snapshot has as StateNodes, and for kinds
    of DRA, which change pods and nodes there."""

    parse: Callable[[Document], Any]
    key: Callable[[str, str], Any]
    field: str


def _namespaced(namespace: str, name: str) -> tuple[str, str]:
    """Return the key; objects of a file may leave out the namespace `default`."""
    return (namespace or "default", name)


def _named(_namespace: str, name: str) -> str:
    return name


KINDS: Mapping[str, Kind] = {
    "Pod": Kind(parse.parse_pod, _namespaced, "pods"),
    "Node": Kind(parse.parse_node, _named, ""),
    V1ALPHA5.pool.name: Kind(V1ALPHA5.pool.parse, _named, "provisioners"),
    V1ALPHA5.node_template.name: Kind(V1ALPHA5.node_template.parse, _named, "node_templates"),
    "DaemonSet": Kind(parse.parse_daemon_set, _namespaced, "daemon_sets"),
    "PodDisruptionBudget": Kind(parse.parse_budget, _namespaced, "budgets"),
    "PersistentVolumeClaim": Kind(parse.parse_claim, _namespaced, "claims"),
    "PersistentVolume": Kind(parse.parse_volume, _named, "volumes"),
    "StorageClass": Kind(parse.parse_storage_class, _named, "storage_classes"),
    "CSINode": Kind(parse.parse_csi_node, _named, "csi_nodes"),
    "Namespace": Kind(parse.parse_namespace, _named, "namespaces"),
    "ReplicaSet": Kind(parse.parse_replica_set, _namespaced, "replica_sets"),
    "StatefulSet": Kind(parse.parse_stateful_set, _namespaced, "stateful_sets"),
    "Job": Kind(parse.parse_job, _namespaced, "jobs"),
    "ResourceQuota": Kind(parse.parse_quota, _namespaced, "quotas"),
    "ResourceClaim": Kind(devices.parse_resource_claim, _namespaced, ""),
    "ResourceClaimTemplate": Kind(devices.parse_resource_claim_template, _namespaced, ""),
    "DeviceClass": Kind(devices.parse_device_class, _named, ""),
    "ResourceSlice": Kind(devices.parse_resource_slice, _named, ""),
}
"""By Kubernetes kind."""
DEVICE_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
"""Kinds of DRA, which not every API server serves."""
OWNER_KINDS: Final = ("ReplicaSet", "StatefulSet", "Job", "ResourceQuota")
"""Watched with the setting `planAheadOwners` alone."""
ALWAYS_SERVED: Final = tuple(kind for kind in KINDS if kind not in (*DEVICE_KINDS, *OWNER_KINDS))
