"""Parse built-in kinds from decoded JSON: pods, nodes, workloads, budgets, volumes.

Functions never raise on what users can write: a malformed quantity goes to `PodSpec.malformed`, other fields of the
wrong type count as absent. Unknown times are 0. Provisioners and node templates are read by a front end (`front_end`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from controller.core.api.document import (
    Document,
    items,
    label_selector,
    mapping,
    node_selector_terms,
    objects,
    optional_text,
    optional_whole,
    owner_references,
    string_map,
    text,
    texts,
    timestamp,
    whole,
)
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import OPENS_WITH
from controller.core.api.node import AGENT_CONDITIONS, READY, UNSCHEDULABLE, Node, Taint, UnhealthyCondition
from controller.core.api.pod import (
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodKey,
    PodVolume,
    Resources,
    SelectorRequirement,
)
from controller.core.api.podspec import pod_spec, spec_and_limits
from controller.core.api.quantity import nanos, rounded
from controller.core.api.requests import resized_spec
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

_DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Tolerations that the DaemonSet controller adds to its pods:
https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations"""

_HOST_NETWORK_TOLERATION: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")

_LOW_ON_STORAGE: Final = "low on resource: ephemeral-storage"
"""Part of the message of pods that the kubelet evicts under disk pressure (pkg/kubelet/eviction)."""

_IN_TREE_DRIVERS: Final = {
    "awsElasticBlockStore": "kubernetes.io/aws-ebs",
    "gcePersistentDisk": "kubernetes.io/gce-pd",
    "azureDisk": "kubernetes.io/azure-disk",
    "cinder": "kubernetes.io/cinder",
    "vsphereVolume": "kubernetes.io/vsphere-volume",
}

_DEFAULT_CLASS_KEYS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def parse_pod(obj: Document) -> Pod:
    """Parse a v1 Pod."""
    get_meta = mapping(obj.get("metadata")).get
    spec = mapping(obj.get("spec"))
    status = mapping(obj.get("status"))
    name = text(get_meta("name"))
    unschedulable, ready = _pod_conditions(status.get("conditions"))
    deleted = get_meta("deletionTimestamp")
    node_name = text(spec.get("nodeName"))
    parsed, limits = spec_and_limits(resized_spec(spec, status) if node_name else spec)
    return Pod(
        text(get_meta("namespace")) or "default",
        name,
        text(get_meta("uid")),
        parsed,
        string_map(get_meta("labels")),
        string_map(get_meta("annotations")),
        owner_references(get_meta("ownerReferences")),
        _pod_volumes(name, spec.get("volumes")),
        timestamp(get_meta("creationTimestamp")) or 0.0,
        timestamp(deleted) if deleted else None,
        text(status.get("phase")) or "Pending",
        node_name,
        text(status.get("nominatedNodeName")),
        unschedulable,
        ready,
        text(get_meta("resourceVersion")),
        _evicted_for_storage(status),
        limits,
        _claim_names(status.get("resourceClaimStatuses")),
    )


def _claim_names(value: object) -> FrozenMap[str, str]:
    if not value:
        return EMPTY
    return string_map({text(each.get("name")): text(each.get("resourceClaimName")) for each in objects(value)})


def _evicted_for_storage(status: Document) -> bool:
    """Evicted under disk pressure; a pod that exceeded its own limit has another message."""
    return text(status.get("reason")) == "Evicted" and _LOW_ON_STORAGE in text(status.get("message"))


def _pod_conditions(value: object) -> tuple[bool, bool]:
    """(PodScheduled has reason Unschedulable, Ready is True)."""
    unschedulable = ready = False
    for condition in items(value):
        if not isinstance(condition, dict):
            continue
        kind = condition.get("type")
        if kind == "PodScheduled":
            unschedulable = condition.get("reason") == "Unschedulable" and condition.get("status") != "True"
        elif kind == "Ready":
            ready = condition.get("status") == "True"
    return unschedulable, ready


def _pod_volumes(pod_name: str, value: object) -> tuple[PodVolume, ...]:
    """Return volumes backed by claims, generic ephemeral ones included (their claims are named POD-VOLUME)."""
    volumes: list[PodVolume] = []
    for volume in items(value):
        if not isinstance(volume, dict):
            continue
        if "persistentVolumeClaim" in volume:
            claim = mapping(volume["persistentVolumeClaim"])
            volumes.append(PodVolume(text(volume.get("name")), text(claim.get("claimName"))))
        elif "ephemeral" in volume:
            name = text(volume.get("name"))
            template = mapping(mapping(volume["ephemeral"]).get("volumeClaimTemplate"))
            storage_class = optional_text(mapping(template.get("spec")).get("storageClassName"))
            volumes.append(PodVolume(name, f"{pod_name}-{name}", True, storage_class))
    return tuple(volumes)


def parse_node(obj: Document) -> Node:
    """Parse a v1 Node. One that is about to be opened (`core.machines.opening`) counts as open: it is neither
    unschedulable nor tainted so.
    """
    meta, spec, status = mapping(obj.get("metadata")), mapping(obj.get("spec")), mapping(obj.get("status"))
    annotations = string_map(meta.get("annotations"))
    opens = OPENS_WITH in annotations
    taints = (taint(each) for each in objects(spec.get("taints")))
    conditions = objects(status.get("conditions"))
    return Node(
        name=text(meta.get("name")),
        uid=text(meta.get("uid")),
        provider_id=text(spec.get("providerID")),
        labels=string_map(meta.get("labels")),
        annotations=annotations,
        finalizers=texts(meta.get("finalizers")),
        owners=owner_references(meta.get("ownerReferences")),
        taints=tuple(each for each in taints if not opens or each != UNSCHEDULABLE),
        unschedulable=spec.get("unschedulable") is True and not opens,
        capacity=readable_resources(status.get("capacity")),
        allocatable=readable_resources(status.get("allocatable")),
        ready=any(c.get("type") == READY and c.get("status") == "True" for c in conditions),
        unhealthy=_unhealthy(conditions),
        images=tuple(name for image in objects(status.get("images")) for name in texts(image.get("names"))),
        created=timestamp(meta.get("creationTimestamp")) or 0.0,
        deleted_at=timestamp(meta.get("deletionTimestamp")),
        resource_version=text(meta.get("resourceVersion")),
    )


def _unhealthy(conditions: Iterable[Document]) -> tuple[UnhealthyCondition, ...]:
    """Return the failing conditions, sorted by type; one without a status or a valid transition time is ignored."""
    failing: dict[str, UnhealthyCondition] = {}
    for condition in conditions:
        kind, status = text(condition.get("type")), text(condition.get("status"))
        since = timestamp(condition.get("lastTransitionTime"))
        sick = status in ("False", "Unknown") if kind == READY else kind in AGENT_CONDITIONS and status == "False"
        if sick and since is not None:
            failing[kind] = UnhealthyCondition(kind, status, since)
    return tuple(failing[kind] for kind in sorted(failing))


def taint(value: Document) -> Taint:
    """Return a taint as written; an absent effect stays empty."""
    return Taint(text(value.get("key")), text(value.get("value")), text(value.get("effect")))


def readable_resources(value: object) -> Resources:
    """Parse the resources of a status, which a controller writes; leave out quantities that cannot be parsed."""
    amounts: dict[str, int] = {}
    for name, quantity in mapping(value).items():
        try:
            amounts[name] = rounded(name, nanos(quantity))
        except (ValueError, TypeError):
            continue
    return FrozenMap(amounts) if amounts else EMPTY


def parse_daemon_set(obj: Document) -> DaemonSet:
    """Parse an apps/v1 DaemonSet with the pod that its controller would create, added tolerations included."""
    meta = mapping(obj.get("metadata"))
    namespace, name, uid = text(meta.get("namespace")) or "default", text(meta.get("name")), text(meta.get("uid"))
    template = mapping(mapping(obj.get("spec")).get("template"))
    template_meta, spec = mapping(template.get("metadata")), mapping(template.get("spec"))
    pod = Pod(
        namespace=namespace,
        name="",
        uid="",
        spec=pod_spec({**spec, "tolerations": [*items(spec.get("tolerations")), *_daemon_tolerations(spec)]}),
        labels=string_map(template_meta.get("labels")),
        annotations=string_map(template_meta.get("annotations")),
        owners=(OwnerReference("apps/v1", "DaemonSet", name, uid),),
        volumes=_pod_volumes("", spec.get("volumes")),
    )
    return DaemonSet(namespace, name, uid, pod, text(meta.get("resourceVersion")))


def _daemon_tolerations(spec: Document) -> list[dict[str, Any]]:
    added = [*_DAEMON_TOLERATIONS, *((_HOST_NETWORK_TOLERATION,) if spec.get("hostNetwork") is True else ())]
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in added]


def parse_budget(obj: Document) -> PodDisruptionBudget:
    """Parse a policy/v1 PodDisruptionBudget. It allows nothing while its status lags behind its spec (Eviction API)."""
    meta, status = mapping(obj.get("metadata")), mapping(obj.get("status"))
    current = whole(status.get("observedGeneration")) >= whole(meta.get("generation"))
    return PodDisruptionBudget(
        namespace=text(meta.get("namespace")) or "default",
        name=text(meta.get("name")),
        selector=label_selector(mapping(obj.get("spec")).get("selector")),
        disruptions_allowed=max(0, whole(status.get("disruptionsAllowed"))) if current else 0,
        resource_version=text(meta.get("resourceVersion")),
    )


def parse_claim(obj: Document) -> PersistentVolumeClaim:
    """Parse a v1 PersistentVolumeClaim; the older storage class annotation counts as the class."""
    meta, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    annotations = string_map(meta.get("annotations"))
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class")
    wanted = readable_resources(mapping(spec.get("resources")).get("requests"))
    return PersistentVolumeClaim(
        namespace=text(meta.get("namespace")) or "default",
        name=text(meta.get("name")),
        volume_name=text(spec.get("volumeName")),
        storage_class_name=optional_text(spec.get("storageClassName")) if storage_class is None else storage_class,
        selected_node=annotations.get("volume.kubernetes.io/selected-node", ""),
        access_modes=texts(spec.get("accessModes")),
        requested_bytes=wanted.get("storage", 0),
        annotations=annotations,
        resource_version=text(meta.get("resourceVersion")),
    )


def parse_volume(obj: Document) -> PersistentVolume:
    """Parse a v1 PersistentVolume."""
    meta, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    required = mapping(spec.get("nodeAffinity")).get("required")
    claim = mapping(spec.get("claimRef"))
    bound: PodKey | None = (text(claim.get("namespace")), text(claim.get("name"))) if claim.get("name") else None
    return PersistentVolume(
        name=text(meta.get("name")),
        labels=string_map(meta.get("labels")),
        node_affinity=node_selector_terms(required) if isinstance(required, dict) else None,
        driver=_volume_driver(spec),
        storage_class_name=text(spec.get("storageClassName")),
        claim=bound,
        phase=text(mapping(obj.get("status")).get("phase")),
        capacity_bytes=readable_resources(spec.get("capacity")).get("storage", 0),
        access_modes=texts(spec.get("accessModes")),
        local="local" in spec or "hostPath" in spec,
        resource_version=text(meta.get("resourceVersion")),
    )


def _volume_driver(spec: Document) -> str:
    if "csi" in spec:
        return text(mapping(spec["csi"]).get("driver"))
    return next((driver for source, driver in _IN_TREE_DRIVERS.items() if source in spec), "")


def parse_storage_class(obj: Document) -> StorageClass:
    """Parse a storage.k8s.io/v1 StorageClass."""
    meta = mapping(obj.get("metadata"))
    annotations = string_map(meta.get("annotations"))
    topologies = obj.get("allowedTopologies")
    return StorageClass(
        name=text(meta.get("name")),
        provisioner=text(obj.get("provisioner")),
        binding_mode=text(obj.get("volumeBindingMode")) or "Immediate",
        allowed_topologies=tuple(_topology(each) for each in objects(topologies)) if topologies else None,
        default=any(annotations.get(key) == "true" for key in _DEFAULT_CLASS_KEYS),
        created=timestamp(meta.get("creationTimestamp")) or 0.0,
        resource_version=text(meta.get("resourceVersion")),
    )


def _topology(term: Document) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(
            SelectorRequirement(text(each.get("key")), "In", texts(each.get("values")))
            for each in objects(term.get("matchLabelExpressions"))
        )
    )


def parse_csi_node(obj: Document) -> CSINode:
    """Parse a storage.k8s.io/v1 CSINode."""
    meta = mapping(obj.get("metadata"))
    limits: dict[str, int] = {}
    for driver in objects(mapping(obj.get("spec")).get("drivers")):
        count = mapping(driver.get("allocatable")).get("count")
        if isinstance(count, int):
            limits[text(driver.get("name"))] = count
    return CSINode(text(meta.get("name")), FrozenMap(limits), text(meta.get("resourceVersion")))


def parse_namespace(obj: Document) -> Namespace:
    """Parse a v1 Namespace."""
    meta = mapping(obj.get("metadata"))
    return Namespace(
        text(meta.get("name")),
        string_map(meta.get("labels")),
        text(meta.get("resourceVersion")),
        terminating=bool(meta.get("deletionTimestamp")),
    )


def parse_replica_set(obj: Document) -> PodOwner:
    """Parse an apps/v1 ReplicaSet."""
    return _pod_owner(obj, whole(mapping(obj.get("spec")).get("replicas"), 1))


def parse_stateful_set(obj: Document) -> PodOwner:
    """Parse an apps/v1 StatefulSet. With the policy OrderedReady, which makes pods one by one, it wants none."""
    spec = mapping(obj.get("spec"))
    at_once = text(spec.get("podManagementPolicy")) == "Parallel"
    return _pod_owner(obj, whole(spec.get("replicas"), 1) if at_once else 0)


def parse_job(obj: Document) -> PodOwner:
    """Parse a batch/v1 Job. One that is suspended or has ended wants none."""
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    wanted = whole(spec.get("parallelism"), 1)
    if (completions := optional_whole(spec.get("completions"))) is not None:
        wanted = min(wanted, completions - whole(status.get("succeeded")))
    ended = _has_condition(status, "Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
    return _pod_owner(obj, 0 if ended or spec.get("suspend") is True else wanted)


def _pod_owner(obj: Document, wanted: int) -> PodOwner:
    meta = mapping(obj.get("metadata"))
    return PodOwner(
        namespace=text(meta.get("namespace")) or "default",
        name=text(meta.get("name")),
        uid=text(meta.get("uid")),
        wanted=0 if meta.get("deletionTimestamp") else max(0, wanted),
        refused=_has_condition(mapping(obj.get("status")), "ReplicaFailure"),
        resource_version=text(meta.get("resourceVersion")),
    )


def _has_condition(status: Document, *types: str) -> bool:
    true = (text(each.get("type")) for each in objects(status.get("conditions")) if text(each.get("status")) == "True")
    return any(name in types for name in true)


def parse_quota(obj: Document) -> ResourceQuota:
    """Parse a v1 ResourceQuota. Its scopes are ignored, so that it is applied to pods outside them too."""
    meta, status = mapping(obj.get("metadata")), mapping(obj.get("status"))
    hard = mapping(status.get("hard")) or mapping(mapping(obj.get("spec")).get("hard"))
    used, left = mapping(status.get("used")), dict[str, int]()
    for name, most in sorted(hard.items()):
        resource = name.removeprefix("requests.").removeprefix("limits.").removeprefix("count/")
        if not name.startswith("count/") or name == "count/pods":
            try:
                left[name] = rounded(resource, nanos(most)) - rounded(resource, nanos(used.get(name, 0)))
            except (TypeError, ValueError):
                left[name] = 0
    return ResourceQuota(
        namespace=text(meta.get("namespace")) or "default",
        name=text(meta.get("name")),
        left=FrozenMap(left),
        resource_version=text(meta.get("resourceVersion")),
    )
