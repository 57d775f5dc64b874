"""Admission: the plugins of kube-apiserver that a scheduler or node controller notices, and the seam for webhooks.

Order as in the real server: mutating plugins, validation of the object, validating plugins.
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sandbox.apiserver.errors import APIError, forbidden, not_found
from sandbox.apiserver.requests import Request

if TYPE_CHECKING:
    from sandbox.apiserver.api import API

Obj = dict[str, Any]


@dataclass(slots=True)
class Attributes:
    """One write under admission. `obj` may be changed by mutating plugins; it is None on deletion."""

    api: API
    request: Request
    operation: str
    obj: Obj | None
    old: Obj | None
    dry_run: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class Plugin(Protocol):
    """An admission plugin. `admit` may change the object, `validate` may only refuse (both by raising APIError)."""

    async def admit(self, attributes: Attributes) -> None:
        """Changes the object, or refuses it."""
        ...

    async def validate(self, attributes: Attributes) -> None:
        """Refuses what must not be."""
        ...


@dataclass(slots=True)
class Admission:
    """The chain. `plugins` come after the built-in ones (webhooks)."""

    plugins: list[Plugin] = field(default_factory=list)

    async def admit(self, attributes: Attributes) -> None:
        """Runs the mutating part of the chain."""
        _namespace_lifecycle(attributes)
        if attributes.obj is not None and not attributes.request.subresource and attributes.operation == "CREATE":
            mutate = _ON_CREATE.get(attributes.request.resource.storage_key)
            if mutate is not None:
                mutate(attributes.api, attributes.obj)
        for plugin in self.plugins:
            await plugin.admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Runs the validating part of the chain."""
        for plugin in self.plugins:
            await plugin.validate(attributes)


IMMORTAL_NAMESPACES = ("default", "kube-system", "kube-public")


def _namespace_lifecycle(attributes: Attributes) -> None:
    request = attributes.request
    resource = request.resource
    if (
        attributes.operation == "DELETE"
        and resource.storage_key == ("", "namespaces")
        and request.name in IMMORTAL_NAMESPACES
    ):
        raise forbidden("", "namespaces", request.name, "this namespace may not be deleted")
    if attributes.operation != "CREATE" or not request.namespace or request.subresource:
        return
    refuse_where_namespace_ends(attributes.api, request, (attributes.obj or {}).get("metadata", {}).get("name", ""))


def refuse_where_namespace_ends(api: API, request: Request, name: str) -> None:
    """Nothing is created in a namespace that is being deleted, nor any binding or eviction of what is in it."""
    resource = request.resource
    namespace = api.lookup(("", "namespaces"), "", request.namespace)
    if namespace is None:
        raise not_found("", "namespaces", request.namespace)
    if "deletionTimestamp" in namespace["metadata"]:
        why = f"unable to create new content in namespace {request.namespace} because it is being terminated"
        error = forbidden(resource.group, resource.plural, name, why)
        cause = f"namespace {request.namespace} is being terminated"
        error.details["causes"] = [{"reason": "NamespaceTerminating", "message": cause, "field": "metadata.namespace"}]
        raise error


SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_TOLERATION_SECONDS = 300
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"


def _admit_pod(api: API, pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    _runtime_class(api, spec)
    _default_tolerations(spec)
    _priority(api, pod, spec)


def _runtime_class(api: API, spec: Obj) -> None:
    """RuntimeClass plugin: the class's overhead, node selector and tolerations become the pod's."""
    name = spec.get("runtimeClassName")
    if not name:
        return
    runtime_class = api.lookup(("node.k8s.io", "runtimeclasses"), "", name)
    if runtime_class is None:
        raise forbidden("", "pods", "", f"pod rejected: RuntimeClass {name!r} not found")
    overhead = (runtime_class.get("overhead") or {}).get("podFixed")
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = runtime_class.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**scheduling["nodeSelector"], **(spec.get("nodeSelector") or {})}
    for toleration in scheduling.get("tolerations") or ():
        if toleration not in spec.setdefault("tolerations", []):
            spec["tolerations"].append(dict(toleration))


def _default_tolerations(spec: Obj) -> None:
    """DefaultTolerationSeconds plugin: five minutes of patience with a node that is not ready or unreachable."""
    tolerations = list(spec.get("tolerations") or ())
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(t.get("key") in (key, None, "") and t.get("effect") in ("NoExecute", None, "") for t in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            )
    spec["tolerations"] = tolerations


def _priority(api: API, pod: Obj, spec: Obj) -> None:
    """Priority plugin: the class gives value and preemption policy; without a class the global default or 0."""
    name = spec.get("priorityClassName")
    found: Mapping[str, Any] | None
    if name:
        found = api.lookup(("scheduling.k8s.io", "priorityclasses"), "", name)
        if found is None:
            pod_name = pod["metadata"].get("name", "")
            raise forbidden("", "pods", pod_name, f"no PriorityClass with name {name} was found")
    else:
        classes = (e.obj for e in api.store.list(("scheduling.k8s.io", "priorityclasses")))
        defaults = [c for c in classes if c.get("globalDefault")]
        found = min(defaults, key=lambda c: c["value"]) if defaults else None
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    value = found["value"] if found else 0
    if spec.get("priority") not in (None, value):
        why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
        why += f"priority admission controller computed {value} from the given PriorityClass name"
        raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
    spec["priority"] = value
    spec["preemptionPolicy"] = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"


def _admit_node(_: API, node: Obj) -> None:
    """TaintNodesByCondition plugin: a new node is not ready until its kubelet (and the node controller) say so."""
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(t.get("key") == _NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
        spec["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]


def _admit_claim(api: API, claim: Obj) -> None:
    """DefaultStorageClass plugin."""
    spec = claim.setdefault("spec", {})
    if "storageClassName" in spec or "volume.beta.kubernetes.io/storage-class" in (
        claim["metadata"].get("annotations") or {}
    ):
        return
    marks = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    for entry in api.store.list(("storage.k8s.io", "storageclasses")):
        annotations = entry.obj["metadata"].get("annotations") or {}
        if any(annotations.get(mark) == "true" for mark in marks):
            spec["storageClassName"] = entry.obj["metadata"]["name"]
            return


_ON_CREATE = {
    ("", "pods"): _admit_pod,
    ("", "nodes"): _admit_node,
    ("", "persistentvolumeclaims"): _admit_claim,
}

__all__ = ["APIError", "Admission", "Attributes", "Plugin"]
