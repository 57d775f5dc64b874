"""VolumeBinding, VolumeRestrictions and NodeVolumeLimits: where a pod's claims let it run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.world.resources import Obj
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.quantity import value
from sandbox.world.scheduling.selectors import NodeSelector, Requirement
from sandbox.world.scheduling.view import ClusterView, PodRejection, Rejection

NO_PROVISIONER = "kubernetes.io/no-provisioner"
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims. not found"
WRONG_NODE = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
TOO_MANY_VOLUMES = "node(s) exceed max volume count"
EXCLUSIVE_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """A pod's claims: `bound` are PersistentVolumes, `delayed` are claims that wait for their first consumer."""

    bound: tuple[Obj, ...] = ()
    delayed: tuple[Obj, ...] = ()
    exclusive_in_use: bool = False
    """Another pod, on whatever node, holds a claim with access mode ReadWriteOncePod."""


def pod_volumes(pod: PodInfo, view: ClusterView) -> PodVolumes | PodRejection:
    """Look up a pod's claims; a PodRejection where no node could do."""
    bound, delayed, exclusive = [], [], []
    for name in pod.claim_names:
        claim = view.claims.get((pod.namespace, name))
        if claim is None:
            return PodRejection("VolumeBinding", f'persistentvolumeclaim "{name}" not found. not found')
        if claim["metadata"].get("deletionTimestamp"):
            return PodRejection("VolumeBinding", f'persistentvolumeclaim "{name}" is being deleted. not found')
        if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
            exclusive.append(name)
        if is_bound(claim):
            volume = view.volumes.get(claim["spec"]["volumeName"])
            if volume is None:
                return PodRejection("VolumeBinding", UNBOUND_IMMEDIATE)
            bound.append(volume)
        elif waits_for_consumer(claim, view):
            delayed.append(claim)
        else:
            return PodRejection("VolumeBinding", UNBOUND_IMMEDIATE)
    return PodVolumes(tuple(bound), tuple(delayed), bool(exclusive) and _held(pod.namespace, set(exclusive), view))


def _held(namespace: str, claims: set[str], view: ClusterView) -> bool:
    pods = (pod for node in view.nodes.values() for pod in node.pods.values())
    return any(pod.namespace == namespace and not claims.isdisjoint(pod.claim_names) for pod in pods)


def is_bound(claim: Obj) -> bool:
    """A claim whose binding to a PersistentVolume is complete."""
    return bool(claim["spec"].get("volumeName")) and (claim.get("status") or {}).get("phase") == "Bound"


def waits_for_consumer(claim: Obj, view: ClusterView) -> bool:
    """Whether the claim's StorageClass binds only when a pod is scheduled."""
    if claim["spec"].get("volumeName"):
        return False
    storage_class = view.storage_classes.get(claim["spec"].get("storageClassName") or "")
    return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def volume_filter(pod: PodInfo, volumes: PodVolumes, node: NodeInfo, view: ClusterView) -> Rejection | None:
    """The storage filters for one node, in kube-scheduler's order."""
    if volumes.exclusive_in_use:
        return Rejection("VolumeRestrictions", (EXCLUSIVE_IN_USE,), resolvable=True)
    if _over_limit(pod, node, view):
        return Rejection("NodeVolumeLimits", (TOO_MANY_VOLUMES,), resolvable=True)
    reasons = []
    if not all(volume_fits(volume, node) for volume in volumes.bound):
        reasons.append(WRONG_NODE)
    if not all(_can_bind(claim, node, view) for claim in volumes.delayed):
        reasons.append(NOTHING_TO_BIND)
    return Rejection("VolumeBinding", tuple(reasons), resolvable=False) if reasons else None


def volume_fits(volume: Obj, node: NodeInfo) -> bool:
    """spec.nodeAffinity of a PersistentVolume (a zone, usually)."""
    required = NodeSelector.parse((volume["spec"].get("nodeAffinity") or {}).get("required"))
    return required is None or required.matches(node.name, node.labels)


def find_volume(claim: Obj, node: NodeInfo, view: ClusterView) -> Obj | None:
    """The smallest free PersistentVolume that satisfies `claim` on `node`, if there is one."""
    fitting = [v for v in view.volumes.values() if satisfies(v, claim) and volume_fits(v, node)]
    return min(fitting, key=lambda v: (value(v["spec"]["capacity"]["storage"]), v["metadata"]["name"]), default=None)


def satisfies(volume: Obj, claim: Obj) -> bool:
    """Whether a volume is free (or reserved for `claim`) and of the class, size and modes asked for."""
    spec, wanted = volume["spec"], claim["spec"]
    reference = spec.get("claimRef")
    mine = (claim["metadata"]["namespace"], claim["metadata"]["name"])
    if reference is not None and (reference.get("namespace"), reference.get("name")) != mine:
        return False
    if reference is None and (volume.get("status") or {}).get("phase", "Available") != "Available":
        return False
    return bool(
        (spec.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and value(spec["capacity"]["storage"]) >= value(wanted["resources"]["requests"]["storage"])
        and (spec.get("volumeMode") or "Filesystem") == (wanted.get("volumeMode") or "Filesystem")
    )


def _can_bind(claim: Obj, node: NodeInfo, view: ClusterView) -> bool:
    selected = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
    if selected and selected in view.nodes:
        return bool(selected == node.name)
    if find_volume(claim, node, view) is not None:
        return True
    storage_class = view.storage_classes[claim["spec"]["storageClassName"]]
    if storage_class.get("provisioner") == NO_PROVISIONER:
        return False
    topologies = storage_class.get("allowedTopologies") or ()
    return not topologies or any(_topology_allows(topology, node) for topology in topologies)


def _topology_allows(topology: dict[str, Any], node: NodeInfo) -> bool:
    expressions = topology.get("matchLabelExpressions") or ()
    return all(Requirement(e["key"], "In", tuple(e["values"])).matches(node.labels) for e in expressions)


def _over_limit(pod: PodInfo, node: NodeInfo, view: ClusterView) -> bool:
    limits = view.volume_limits.get(node.name)
    if not limits or not pod.claim_names:
        return False
    here = {(other.namespace, name) for other in node.pods.values() for name in other.claim_names}
    wanted = {(pod.namespace, name) for name in pod.claim_names}
    if wanted <= here:
        return False
    used: dict[str, int] = {}
    for key in here | wanted:
        driver = _driver(key, view)
        used[driver] = used.get(driver, 0) + 1
    return any(used.get(driver, 0) > limit for driver, limit in limits.items())


def _driver(key: tuple[str, str], view: ClusterView) -> str:
    claim = view.claims.get(key)
    if claim is None:
        return ""
    volume = view.volumes.get(claim["spec"].get("volumeName") or "")
    if volume is not None:
        return str((volume["spec"].get("csi") or {}).get("driver", ""))
    storage_class = view.storage_classes.get(claim["spec"].get("storageClassName") or "") or {}
    return str(storage_class.get("provisioner", ""))
