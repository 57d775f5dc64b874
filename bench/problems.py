"""Problem files: Kubernetes objects, instance types and node pools in one gzipped JSON document.

    {"instanceTypes": [{"name", "capacity", "overhead", "requirements", "offerings"}], "nodePools": [...],
     "nodes": [v1.Node], "pods": [v1.Pod], "daemonSets": [apps/v1.DaemonSet]}

and, where pods need them, "namespaces", "persistentVolumes", "persistentVolumeClaims", "storageClasses", "csiNodes".

A nodePool is a Provisioner under its later name. Every requirement key of a type is a well-known label.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from bench.pod_batches import PodsByKey, parse_pods
from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.parse import (
    parse_claim,
    parse_csi_node,
    parse_daemon_set,
    parse_namespace,
    parse_node,
    parse_pod,
    parse_storage_class,
    parse_volume,
)
from controller.core.api.pod import Pod, PodSpec, SelectorRequirement
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.api.replicas import Pods
from controller.core.api.workloads import CSINode, Namespace, PersistentVolume, PersistentVolumeClaim, StorageClass
from controller.core.cloud import Catalog, InstanceType, Offering
from controller.core.provisioning import SchedulingProblem
from controller.core.provisioning.problem import build
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.state.snapshot import Snapshot, StateNode

Document = Mapping[str, Any]
NODE_POOL = "karpenter.sh/nodepool"


@dataclass(frozen=True, slots=True)
class Objects:
    """A problem's objects as the controller has them. Pods without a node are pending, whatever their status says."""

    provisioners: tuple[Provisioner, ...]
    instance_types: tuple[InstanceType, ...]
    pods: Pods
    nodes: tuple[Any, ...]
    daemon_sets: tuple[Any, ...]
    namespaces: tuple[Namespace, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()


def load(path: Path) -> Document:
    """Read a problem file: decoded JSON, where the clock starts. Raises OSError and orjson.JSONDecodeError."""
    with gzip.open(path) as file:
        document: Document = orjson.loads(file.read())
    return document


def decode(document: Document) -> Objects:
    """Objects from the JSON document. Raises KeyError for a document that is no problem."""
    return Objects(
        provisioners=tuple(_provisioner(pool) for pool in document["nodePools"]),
        instance_types=tuple(_instance_type(kind) for kind in document["instanceTypes"]),
        pods=parse_pods(document["pods"], _pod),
        nodes=tuple(_node(obj) for obj in document.get("nodes") or ()),
        daemon_sets=tuple(parse_daemon_set(obj) for obj in document.get("daemonSets") or ()),
        namespaces=tuple(parse_namespace(obj) for obj in document.get("namespaces") or ()),
        volumes=tuple(parse_volume(obj) for obj in document.get("persistentVolumes") or ()),
        claims=tuple(parse_claim(obj) for obj in document.get("persistentVolumeClaims") or ()),
        storage_classes=tuple(parse_storage_class(obj) for obj in document.get("storageClasses") or ()),
        csi_nodes=tuple(parse_csi_node(obj) for obj in document.get("csiNodes") or ()),
    )


def posed(snapshot: Snapshot, catalog: Catalog) -> SchedulingProblem:
    """The problem of placing the pods that have no node."""
    pods = snapshot.pods.every if isinstance(snapshot.pods, PodsByKey) else Pods.of(snapshot.pods.values())
    return build(snapshot, catalog, pods.only(lambda pod: not pod.node_name))


def arrange(objects: Objects) -> tuple[Snapshot, Catalog]:
    """The snapshot and the catalog that the controller would have."""
    bound: dict[str, list[Pod]] = defaultdict(list)
    for pod in objects.pods.only(lambda pod: pod.node_name != "" and not pod.terminal):
        bound[pod.node_name].append(pod)
    nodes = {
        node.name: StateNode(
            node=node,
            pods=tuple(sorted(bound[node.name], key=lambda pod: pod.key)),
            capacity=node.capacity,
            allocatable=node.allocatable,
            taints=node.taints,
        )
        for node in sorted(objects.nodes, key=lambda node: node.name)
    }
    snapshot = Snapshot(
        synced=True,
        nodes=nodes,
        pods=PodsByKey(objects.pods),
        provisioners={p.name: p for p in sorted(objects.provisioners, key=lambda p: p.name)},
        daemon_sets={(d.namespace, d.name): d for d in objects.daemon_sets},
        namespaces={each.name: each for each in objects.namespaces},
        volumes={each.name: each for each in objects.volumes},
        claims={each.key: each for each in objects.claims},
        storage_classes={each.name: each for each in objects.storage_classes},
        csi_nodes={each.name: each for each in objects.csi_nodes},
    )
    return snapshot, {p.name: objects.instance_types for p in objects.provisioners}


def _pod(obj: Document) -> Pod:
    pod = parse_pod(obj)
    if not pod.node_name and (NODE_POOL in pod.spec.node_selector or pod.spec.required_node_affinity):
        return replace(pod, spec=_specs(pod.spec))
    return pod


def _specs(spec: PodSpec) -> PodSpec:
    """Later pool label names become this version's."""
    selector = FrozenMap({_label(key): value for key, value in spec.node_selector.items()})
    terms = spec.required_node_affinity
    if terms is not None:
        terms = tuple(
            replace(term, match_expressions=tuple(replace(e, key=_label(e.key)) for e in term.match_expressions))
            for term in terms
        )
    changed = replace(spec, node_selector=selector, required_node_affinity=terms)
    return _renamed.setdefault(changed, changed)


_renamed: dict[PodSpec, PodSpec] = {}


def _label(key: str) -> str:
    return labels.PROVISIONER_NAME if key == NODE_POOL else key


def _node(obj: Document) -> Any:
    node = parse_node(obj)
    return replace(node, labels=FrozenMap({_label(key): value for key, value in node.labels.items()}))


def _provisioner(pool: Document) -> Provisioner:
    limits = pool.get("limits")
    return Provisioner(
        name=pool["name"],
        requirements=tuple(
            SelectorRequirement(_label(r["key"]), r["operator"], tuple(r.get("values") or ()))
            for r in pool.get("requirements") or ()
        ),
        labels=FrozenMap(pool.get("labels") or {}),
        taints=_taints(pool.get("taints")),
        startup_taints=_taints(pool.get("startupTaints")),
        limits=resources(limits) if limits else None,
        weight=pool.get("weight") or 0,
    )


@lru_cache(maxsize=65_536)
def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Most are alike: types share zones, operating systems, families."""
    return Requirement.of(key, operator, values)


def _taints(documents: list[Document] | None) -> tuple[Taint, ...]:
    return tuple(Taint(t["key"], t.get("value") or "", t["effect"]) for t in documents or ())


def _instance_type(kind: Document) -> InstanceType:
    overhead: dict[str, int] = defaultdict(int)
    for part in (kind.get("overhead") or {}).values():
        for name, amount in resources(part or {}).items():
            overhead[name] += amount
    return InstanceType(
        name=kind["name"],
        requirements=Requirements(
            _requirement(r["key"], r["operator"], tuple(r.get("values") or ())) for r in kind["requirements"]
        ),
        capacity=resources(kind["capacity"]),
        overhead=FrozenMap(overhead),
        offerings=tuple(
            Offering(o["zone"], o["capacityType"], o["price"], o.get("available", True)) for o in kind["offerings"]
        ),
    )
