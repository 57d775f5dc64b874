"""The API resources that the sandbox's world reads and writes: where each lives under the API server's root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]
"""A Kubernetes object as its JSON."""

Key = tuple[str, str]
"""(namespace, name); the namespace of cluster-scoped objects is the empty string."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind's address: `group_version` as in apiVersion, `plural` as in the URL."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path of the collection (without a name), the object, or one of its subresources."""
        root = "/api/v1" if self.group_version == "v1" else f"/apis/{self.group_version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"{root}{scope}/{self.plural}", name, subresource) if part)


PODS = Resource("v1", "pods", "Pod")
NODES = Resource("v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("v1", "namespaces", "Namespace", namespaced=False)
EVENTS = Resource("v1", "events", "Event")
PVCS = Resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PVS = Resource("v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False)
VOLUME_ATTACHMENTS = Resource("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", namespaced=False)
CSI_NODES = Resource("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False)
LEASES = Resource("coordination.k8s.io/v1", "leases", "Lease")
DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps/v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps/v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps/v1", "daemonsets", "DaemonSet")
JOBS = Resource("batch/v1", "jobs", "Job")
PDBS = Resource("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")


def key_of(obj: Obj) -> Key:
    """(namespace, name) of an object."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def controller_of(obj: Obj) -> Obj | None:
    """The ownerReference that has `controller: true`, if any."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Obj = reference
            return found
    return None


def owner_reference(owner: Obj, resource: Resource) -> Obj:
    """The controlling ownerReference that a workload controller writes on what it makes."""
    return {
        "apiVersion": resource.group_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
