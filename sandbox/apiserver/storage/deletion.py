"""Deletion: preconditions, finalizers, grace for pods, propagation, and the last step when nothing holds any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sandbox.apiserver.admission.admission import Attributes
from sandbox.apiserver.api import API
from sandbox.apiserver.errors import conflict
from sandbox.apiserver.kinds.resources import Resource
from sandbox.apiserver.requests import Request
from sandbox.apiserver.storage.store import ConflictError, Entry, Obj

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a CRD until all objects of its type are gone."""

_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Deleted:
    """The outcome: the object's last or present state, and whether it is gone."""

    obj: Obj
    gone: bool


async def delete(api: API, request: Request, options: Mapping[str, Any] | None = None) -> Deleted:
    """DELETE on one object. Raises 404, 409 (preconditions), 403 (admission)."""
    options = request.options() if options is None else options
    dry_run = request.dry_run(options)
    attributes = Attributes(api, request, "DELETE", None, api.entry(request).obj, dry_run, options)
    await api.admission.admit(attributes)
    await api.admission.validate(attributes)
    for _ in range(_ATTEMPTS):
        entry = api.entry(request)
        check_preconditions(request, entry.obj, options.get("preconditions") or {})
        try:
            return begin(api, request.resource, entry, options, dry_run=dry_run)
        except ConflictError:
            continue
    raise conflict(request.resource.group, request.resource.plural, request.name)


def check_preconditions(request: Request, obj: Obj, preconditions: Mapping[str, Any]) -> None:
    """Raises 409 when the object is not the one that the client meant."""
    resource, metadata = request.resource, obj["metadata"]
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = preconditions.get(field)
        if wanted and wanted != metadata[field]:
            why = f"the {word} in the precondition ({wanted}) does not match the {word} in record ({metadata[field]}). "
            why += f"The object might have been {'deleted and then recreated' if field == 'uid' else 'modified'}"
            raise conflict(resource.group, resource.kind, metadata["name"], why)


def begin(api: API, resource: Resource, entry: Entry, options: Mapping[str, Any], *, dry_run: bool = False) -> Deleted:
    """Deletes at once, or marks the object as being deleted and leaves the rest to finalizers and kubelets."""
    obj = entry.copy()
    metadata = obj["metadata"]
    grace = _grace_seconds(resource, obj, options)
    finalizers = _finalizers(metadata, options)
    if resource.storage_key == CRDS and CRD_CLEANUP not in finalizers and "deletionTimestamp" not in metadata:
        finalizers = [*finalizers, CRD_CLEANUP]
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    held = (
        bool(finalizers)
        or grace > 0
        or (resource.storage_key == ("", "namespaces") and bool(obj["spec"].get("finalizers")))
    )
    if not held:
        return Deleted(obj if dry_run else api.store.delete(resource.storage_key, entry).obj, gone=True)
    if "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0):
        until = api.clock() + timedelta(seconds=grace)
        metadata["deletionTimestamp"] = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata and "deletionTimestamp" not in entry.obj["metadata"]:
            metadata["generation"] += 1
    if resource.storage_key == ("", "namespaces"):
        obj["status"]["phase"] = "Terminating"
    return Deleted(obj if dry_run else api.store.update(resource.storage_key, obj, entry).obj, gone=False)


def _grace_seconds(resource: Resource, obj: Obj, options: Mapping[str, Any]) -> int:
    """Only pods have grace, and only while a kubelet runs them (pod strategy's CheckGracefulDelete)."""
    if resource.storage_key != ("", "pods"):
        return 0
    spec = obj.get("spec") or {}
    if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    grace = int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)
    already = obj["metadata"].get("deletionGracePeriodSeconds")
    if already is not None and (asked is None or grace > already):
        return int(already)
    return max(grace, 0)


def _finalizers(metadata: Obj, options: Mapping[str, Any]) -> list[str]:
    kept = [f for f in metadata.get("finalizers") or () if f not in (FOREGROUND, ORPHAN)]
    policy = options.get("propagationPolicy")
    if policy == "Foreground":
        return [*kept, FOREGROUND]
    if policy == "Orphan" or options.get("orphanDependents") is True:
        return [*kept, ORPHAN]
    return kept if policy or "orphanDependents" in options else list(metadata.get("finalizers") or ())


def finish_deletion(api: API, resource: Resource, entry: Entry, obj: Obj) -> bool:
    """Removes an object that is being deleted when this update took its last hold away."""
    metadata = obj["metadata"]
    if (
        "deletionTimestamp" not in metadata
        or metadata.get("finalizers")
        or metadata.get("deletionGracePeriodSeconds", 0) > 0
    ):
        return False
    if resource.storage_key == ("", "namespaces") and (obj.get("spec") or {}).get("finalizers"):
        return False
    last = api.store.delete(resource.storage_key, entry)
    metadata["resourceVersion"] = str(last.resource_version)
    return True


async def delete_collection(api: API, request: Request, entries: list[Entry]) -> list[Obj]:
    """DELETE on a collection: each object as if it were deleted alone."""
    options = request.options()
    dry_run = request.dry_run(options)
    removed: list[Obj] = []
    for entry in entries:
        current = api.store.get(
            request.resource.storage_key, entry.obj["metadata"].get("namespace", ""), entry.obj["metadata"]["name"]
        )
        if current is not None:
            removed.append(begin(api, request.resource, current, options, dry_run=dry_run).obj)
    return removed
