"""Subresources with their own bodies: scale, binding, eviction (status and finalize are plain updates)."""

from __future__ import annotations

from typing import Any

from sandbox.apiserver.admission.admission import refuse_where_namespace_ends
from sandbox.apiserver.api import API
from sandbox.apiserver.errors import (
    APIError,
    Cause,
    bad_request,
    conflict,
    method_not_allowed,
    too_many_requests,
)
from sandbox.apiserver.kinds import strategies
from sandbox.apiserver.requests import Request
from sandbox.apiserver.schemas.schema import ANYTHING
from sandbox.apiserver.storage.deletion import begin, check_preconditions
from sandbox.apiserver.storage.store import ConflictError, Obj
from sandbox.apiserver.verbs.patch import patch_kind, transform_of
from sandbox.apiserver.verbs.selectors import label_selector_matches, selector_text
from sandbox.apiserver.verbs.writes import Written, modify

SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


async def bind(api: API, request: Request) -> Obj:
    """POST pods/NAME/binding: the scheduler's decision. Raises 409 when the pod has a node or is being deleted."""
    binding = request.decode()
    node = (binding.get("target") or {}).get("name")
    if not node:
        raise bad_request("Binding.target.name: Required value")
    uid = (binding.get("metadata") or {}).get("uid")
    dry_run = request.dry_run()
    refuse_where_namespace_ends(api, request, request.name)
    entry = api.entry(request)
    pod = entry.copy()
    name, spec = pod["metadata"]["name"], pod["spec"]
    if uid:
        check_preconditions(request, pod, {"uid": uid})
    if "deletionTimestamp" in pod["metadata"]:
        raise conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    annotations = (binding.get("metadata") or {}).get("annotations") or {}
    if annotations:
        pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **annotations}
    _condition(api, pod, {"type": "PodScheduled", "status": "True"})
    strategies.bump_generation(request.resource, entry.obj, pod)
    if not dry_run:
        api.store.update(request.resource.storage_key, pod, entry)
    return {**SUCCESS, "code": 201}


def _condition(api: API, pod: Obj, condition: Obj) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    others = [c for c in conditions if c["type"] != condition["type"]]
    before = next((c for c in conditions if c["type"] == condition["type"]), None)
    changed = before is None or before["status"] != condition["status"]
    when = api.now() if changed or before is None else before["lastTransitionTime"]
    pod["status"]["conditions"] = [*others, {"lastProbeTime": None, "lastTransitionTime": when, **condition}]


_BUDGETS = ("policy", "poddisruptionbudgets")


async def evict(api: API, request: Request) -> Obj:
    """POST pods/NAME/eviction: a deletion that PodDisruptionBudgets may refuse (storage/eviction.go)."""
    eviction = request.decode()
    options = dict(eviction.get("deleteOptions") or {})
    dry_run = request.dry_run(options)
    refuse_where_namespace_ends(api, request, request.name)
    for _ in range(8):
        entry = api.entry(request)
        pod = entry.obj
        check_preconditions(request, pod, options.get("preconditions") or {})
        if not _ignores_budget(pod):
            _spend_budget(api, request, pod, dry_run=dry_run)
        try:
            begin(api, request.resource, entry, options, dry_run=dry_run)
        except ConflictError:
            continue
        return {**SUCCESS, "code": 201}
    raise conflict("", "pods", request.name)


def _ignores_budget(pod: Obj) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _ready(pod: Obj) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True" for c in (pod.get("status") or {}).get("conditions") or ()
    )


def _spend_budget(api: API, request: Request, pod: Obj, *, dry_run: bool) -> None:
    """Takes one of the budget's allowed disruptions and notes the pod in `disruptedPods`, or refuses."""
    labels = pod["metadata"].get("labels") or {}
    budgets = [
        entry for entry in api.store.list(_BUDGETS, request.namespace)
        if label_selector_matches(entry.obj["spec"].get("selector"), labels)
    ]  # fmt: skip
    if not budgets:
        return
    if len(budgets) > 1:
        raise APIError(
            500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    entry = budgets[0]
    budget = entry.copy()
    status = budget.setdefault("status", {})
    if not _ready(pod) and _unhealthy_may_go(budget, status):
        return
    _check_budget(budget, status)
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = api.now()
    if not dry_run:
        api.store.update(_BUDGETS, budget, entry)


def _unhealthy_may_go(budget: Obj, status: Obj) -> bool:
    """`unhealthyPodEvictionPolicy`: an unready pod may go always, or while enough others are healthy (the default)."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(healthy >= desired and desired > 0)


def _check_budget(budget: Obj, status: Obj) -> None:
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", retry_after=10)
    if status.get("disruptionsAllowed", 0) <= 0:
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        raise _refused(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")


def _refused(message: str, *, retry_after: int | None = None) -> APIError:
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return too_many_requests(text, causes=[Cause("DisruptionBudget", message)], retry_after=retry_after)


async def scale(api: API, request: Request) -> Written:
    """GET, PUT and PATCH on NAME/scale: the replicas of a workload as an autoscaling/v1 Scale."""
    entry = api.entry(request)
    paths = _scale_paths(api, request)
    present = _scale_of(entry.obj, paths)
    if request.verb == "get":
        return Written(present)
    if request.verb == "update":
        wanted = request.decode()
    elif request.verb == "patch":
        kind = patch_kind(request)
        wanted = transform_of(request, "merge" if kind == "apply" else kind, ANYTHING)(present)
    else:
        raise method_not_allowed()
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    if version and version != entry.obj["metadata"]["resourceVersion"]:
        raise conflict(request.resource.group, request.resource.plural, request.name)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        cause = Cause(
            "FieldValueInvalid", f"Invalid value: {replicas}: must be greater than or equal to 0", "spec.replicas"
        )
        message = f'Scale.autoscaling "{request.name}" is invalid: {cause.field}: {cause.message}'
        raise APIError(
            422,
            "Invalid",
            message,
            details={"causes": [cause.body()], "name": request.name, "kind": "Scale", "group": "autoscaling"},
        )

    def transform(obj: Obj) -> Obj:
        _set(obj, paths["spec"], replicas)
        return obj

    written = await modify(api, request, transform)
    return Written(_scale_of(written.obj, paths))


def _scale_paths(api: API, request: Request) -> dict[str, str]:
    custom = api.custom_type(request.resource)
    declared = (custom.scale if custom else None) or {}
    return {
        "spec": declared.get("specReplicasPath", ".spec.replicas"),
        "status": declared.get("statusReplicasPath", ".status.replicas"),
        "selector": declared.get("labelSelectorPath", ""),
    }


def _scale_of(obj: Obj, paths: dict[str, str]) -> Obj:
    metadata = {
        k: v
        for k, v in obj["metadata"].items()
        if k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    replicas = _get(obj, paths["spec"])
    selector = (
        _get(obj, paths["selector"]) if paths["selector"] else selector_text((obj.get("spec") or {}).get("selector"))
    )
    status: Obj = {"replicas": _get(obj, paths["status"]) or 0}
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {}, "status": status,
    }  # fmt: skip


def _get(obj: Any, path: str) -> Any:
    for key in path.strip(".").split("."):
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


def _set(obj: Obj, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for key in parents:
        obj = obj.setdefault(key, {})
    obj[last] = value
