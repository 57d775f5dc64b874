"""What a client may not decide by itself, per kind: status on creation, spec on a status write, `metadata.generation`.

The counterparts are the `strategy.go` files of pkg/registry in kubernetes.
"""

from __future__ import annotations

from typing import Any

from sandbox.apiserver.kinds.resources import Resource

Obj = dict[str, Any]

# Built-in kinds that count their spec's versions; custom resources all do.
_WITH_GENERATION = {
    ("", "pods"), ("", "replicationcontrollers"), ("apps", "deployments"), ("apps", "replicasets"),
    ("apps", "daemonsets"), ("apps", "statefulsets"), ("batch", "jobs"), ("batch", "cronjobs"),
    ("policy", "poddisruptionbudgets"), ("networking.k8s.io", "ingresses"), ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "networkpolicies"), ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("scheduling.k8s.io", "priorityclasses"), ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"), ("discovery.k8s.io", "endpointslices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"), ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
}  # fmt: skip

# Kinds whose status is taken on creation: the kubelet registers a node whole.
_STATUS_ON_CREATE = {("", "nodes"), ("", "namespaces"), ("", "persistentvolumeclaims"), ("", "persistentvolumes")}

_CREATE_ON_UPDATE = {
    ("", "endpoints"), ("", "events"), ("", "limitranges"), ("", "services"), ("coordination.k8s.io", "leases"),
    ("rbac.authorization.k8s.io", "roles"), ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"), ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("node.k8s.io", "runtimeclasses"),
}  # fmt: skip

# A PUT without a resourceVersion is refused for these and for custom resources.
_CONDITIONAL_UPDATE = {("coordination.k8s.io", "leases"), ("policy", "poddisruptionbudgets")}


def creates_on_update(resource: Resource) -> bool:
    """Whether a PUT on a free name creates the object."""
    return (resource.group, resource.plural) in _CREATE_ON_UPDATE


def unconditional_update(resource: Resource) -> bool:
    """Whether a PUT without resourceVersion overwrites whatever is there."""
    return not resource.custom and (resource.group, resource.plural) not in _CONDITIONAL_UPDATE


def has_generation(resource: Resource) -> bool:
    """Whether the kind's `metadata.generation` counts changes of its spec."""
    return resource.custom or resource.storage_key in _WITH_GENERATION


def prepare_create(resource: Resource, obj: Obj) -> None:
    """Drops what a creator may not set."""
    key = resource.storage_key
    if "status" in resource.subresources and key not in _STATUS_ON_CREATE:
        obj.pop("status", None)
        if key in _EMPTY_STATUS:
            obj["status"] = _EMPTY_STATUS[key]()
    if key == ("", "pods"):
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}
    if has_generation(resource):
        obj["metadata"]["generation"] = 1


_EMPTY_STATUS: dict[tuple[str, str], Any] = {
    ("apps", "deployments"): dict,
    ("apps", "replicasets"): lambda: {"replicas": 0},
    ("apps", "statefulsets"): lambda: {"replicas": 0, "availableReplicas": 0},
    ("apps", "daemonsets"): lambda: {
        "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
    },
    ("batch", "jobs"): dict,
    ("batch", "cronjobs"): dict,
    ("", "services"): lambda: {"loadBalancer": {}},
    ("policy", "poddisruptionbudgets"): lambda: {
        "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
    },
}  # fmt: skip


def prepare_update(resource: Resource, subresource: str, old: Obj, obj: Obj) -> None:
    """Keeps the part that this path may not write: the status on the object itself, all but the status on `/status`."""
    if "status" not in resource.subresources:
        return
    if subresource == "status":
        fresh = {key: value for key, value in obj.items() if key in ("status", "metadata")}
        kept = {key: value for key, value in old.items() if key not in ("status", "metadata")}
        obj.clear()
        obj.update({**kept, **fresh})
        _keep_metadata_on_status(resource, old, obj)
        if "status" not in fresh and "status" in old and not resource.custom:
            obj["status"] = {}
    elif "status" in old:
        obj["status"] = old["status"]
    else:
        obj.pop("status", None)


def _keep_metadata_on_status(resource: Resource, old: Obj, obj: Obj) -> None:
    """Custom resources ignore metadata on `/status`; most built-in kinds take labels and annotations."""
    if resource.custom:
        version = obj["metadata"].get("resourceVersion")
        managed = obj["metadata"].get("managedFields")
        obj["metadata"] = dict(old["metadata"])
        if version:
            obj["metadata"]["resourceVersion"] = version
        if managed:
            obj["metadata"]["managedFields"] = managed
        return
    for field in ("finalizers", "ownerReferences"):
        if resource.storage_key != ("", "nodes") or field == "ownerReferences":
            _keep(old["metadata"], obj["metadata"], field)


def _keep(old: Obj, new: Obj, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


_NOT_SPEC = ("metadata", "status", "apiVersion", "kind")


def bump_generation(resource: Resource, old: Obj, obj: Obj) -> None:
    """Counts a change of anything but metadata and status (without status subresource: but metadata)."""
    if not has_generation(resource):
        return
    ignored = (
        _NOT_SPEC if "status" in resource.subresources or not resource.custom else ("metadata", "apiVersion", "kind")
    )
    before = {key: value for key, value in old.items() if key not in ignored}
    after = {key: value for key, value in obj.items() if key not in ignored}
    generation = int(old["metadata"].get("generation") or 0)
    if before != after or (
        generation and "deletionTimestamp" in obj["metadata"] and "deletionTimestamp" not in old["metadata"]
    ):
        generation += 1
    if generation:
        obj["metadata"]["generation"] = generation


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort (https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/)."""
    guaranteed, any_set = True, False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        any_set = any_set or any(
            str(v) != "0" for k in ("cpu", "memory") for v in (requests.get(k), limits.get(k)) if v is not None
        )
        guaranteed = guaranteed and all(k in limits and requests.get(k) == limits[k] for k in ("cpu", "memory"))
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
