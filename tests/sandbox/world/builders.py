"""Kubernetes objects for the tests of the sandbox's world, and clusters made of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sandbox.world.resources import Obj, key_of
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.verdict import Verdict, evaluate
from sandbox.world.scheduling.view import ClusterView

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_numbers = itertools.count(1)


def node(
    name: str,
    *,
    zone: str = "a",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    extended: Mapping[str, str] | None = None,
    **allocatable: str,
) -> Obj:
    """A Ready node of 4 cores, 8 Gi and 10 pods."""
    resources = {
        "cpu": "4",
        "memory": "8Gi",
        "pods": "10",
        "ephemeral-storage": "20Gi",
        **allocatable,
        **(extended or {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone, **(labels or {})}},
        "spec": {"taints": [dict(t) for t in taints], **({"unschedulable": True} if unschedulable else {})},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str = "",
    *,
    on: str = "",
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    requests: Mapping[str, str] | None = None,
    **spec: Any,
) -> Obj:
    """A pod of one container; `on` binds it to a node; `spec` adds fields or replaces `containers`."""
    name = name or f"pod-{next(_numbers)}"
    asked = dict(requests or {})
    limits = {resource: amount for resource, amount in asked.items() if "/" in resource}  # extended: no overcommitment
    container = {"name": "main", "image": "pause", "resources": {"requests": asked, "limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "labels": dict(labels or {}),
        },
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }


def volume(name: str, *, zone: str = "", claim: str = "", size: str = "10Gi", storage_class: str = "ebs") -> Obj:
    """A PersistentVolume, bound to `claim` of namespace default if that is given."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name},
            **({"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if zone else {}),
            **({"claimRef": {"namespace": "default", "name": claim}} if claim else {}),
        },
        "status": {"phase": "Bound" if claim else "Available"},
    }


def claim(name: str, *, volume_name: str = "", storage_class: str = "ebs", mode: str = "ReadWriteOnce") -> Obj:
    """A PersistentVolumeClaim of 1 Gi; Bound if `volume_name` is given."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": [mode],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
            **({"volumeName": volume_name} if volume_name else {}),
        },
        "status": {"phase": "Bound" if volume_name else "Pending"},
    }


def storage_class(name: str = "ebs", *, waits: bool = True, provisioner: str = "ebs.csi.aws.com", **fields: Any) -> Obj:
    """A StorageClass that binds when a pod is scheduled, or at once."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
        **fields,
    }


def mounts(*claims: str) -> list[Obj]:
    """`volumes` of a pod spec that use these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def required_nodes(*terms: Obj) -> Obj:
    """An affinity with required node terms."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Obj:
    """One match expression."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def pod_term(topology_key: str = ZONE, **labels: str) -> Obj:
    """A podAffinityTerm on labels."""
    return {"topologyKey": topology_key, "labelSelector": {"matchLabels": labels}}


def near(*terms: Obj) -> Obj:
    """Required pod affinity."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: Obj) -> Obj:
    """Required pod anti-affinity."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread(topology_key: str = ZONE, max_skew: int = 1, labels: Mapping[str, str] | None = None, **fields: Any) -> Obj:
    """A hard topology spread constraint."""
    return {
        "topologyKey": topology_key,
        "maxSkew": max_skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(labels or {})},
        **fields,
    }


def cluster(
    nodes: Iterable[Obj],
    pods: Iterable[Obj] = (),
    *,
    claims: Iterable[Obj] = (),
    volumes: Iterable[Obj] = (),
    classes: Iterable[Obj] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    volume_limits: Mapping[str, Mapping[str, int]] | None = None,
) -> ClusterView:
    """A view with the bound ones of `pods` on their nodes."""
    view = ClusterView(
        nodes={obj["metadata"]["name"]: NodeInfo(obj) for obj in nodes},
        namespace_labels=namespaces or {"default": {}},
        claims={key_of(obj): obj for obj in claims},
        volumes={obj["metadata"]["name"]: obj for obj in volumes},
        storage_classes={obj["metadata"]["name"]: obj for obj in classes},
        volume_limits=volume_limits or {},
    )
    for placed in map(PodInfo, pods):
        view.place(placed, placed.node_name)
    return view


def judge(candidate: Obj, view: ClusterView) -> Verdict:
    """The scheduler's verdict on one pod."""
    return evaluate(PodInfo(candidate), view, list(view.nodes.values()))


def feasible(candidate: Obj, view: ClusterView) -> list[str]:
    """Names of the nodes that would do."""
    return sorted(each.name for each in judge(candidate, view).feasible)
