"""Create, update and patch: from the body of a request to the stored object, in the order of the real server.

Decode, defaults, strategy (what a client may not set), mutating admission, validation, validating admission, store.
"""

from __future__ import annotations

import copy
import secrets
import uuid
from typing import Any

from sandbox.apiserver.admission.admission import Attributes
from sandbox.apiserver.api import API
from sandbox.apiserver.errors import Cause, already_exists, bad_request, conflict, invalid, not_found
from sandbox.apiserver.kinds import defaults, strategies, validation
from sandbox.apiserver.kinds.conversion import to_storage, to_version
from sandbox.apiserver.requests import Request, decode_object
from sandbox.apiserver.schemas import decode, structural
from sandbox.apiserver.storage.deletion import finish_deletion
from sandbox.apiserver.storage.store import ConflictError, Entry, Obj
from sandbox.apiserver.verbs.apply import apply_transform, track_update
from sandbox.apiserver.verbs.patch import Transform, patch_kind, transform_of

_ATTEMPTS = 8
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: no vowels, no look-alikes (k8s.io/apimachinery/pkg/util/rand)."""


class Written:
    """The outcome of a write: the object as stored, whether it is new, and warnings for the client."""

    __slots__ = ("created", "obj", "warnings")

    def __init__(self, obj: Obj, *, created: bool = False, warnings: list[str] | None = None) -> None:
        self.obj = obj
        self.created = created
        self.warnings = warnings or []


async def create(api: API, request: Request) -> Written:
    """POST on a collection."""
    obj = request.decode()
    _check_kind(request, obj)
    return await create_object(api, request, obj)


async def create_object(api: API, request: Request, obj: Obj, *, applied: bool = False) -> Written:
    """Stores a new object."""
    resource = request.resource
    metadata = _metadata(obj)
    if request.namespace and metadata.setdefault("namespace", request.namespace) != request.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if resource.namespaced and not request.namespace:
        raise bad_request("an empty namespace may not be set during creation")
    if not resource.namespaced:
        metadata.pop("namespace", None)
    warnings = _decode(api, request, obj)
    to_storage(resource, obj)
    metadata = _metadata(obj)
    generated = not metadata.get("name") and bool(metadata.get("generateName"))
    _birth(api, metadata)
    _default(api, request, obj)
    strategies.prepare_create(resource, obj)
    dry_run = request.dry_run()
    attributes = Attributes(api, request, "CREATE", obj, None, dry_run, warnings=warnings)
    for _ in range(_ATTEMPTS):
        if generated:
            metadata["name"] = metadata["generateName"] + "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(5))
        if not generated or api.store.get(resource.storage_key, request.namespace, metadata["name"]) is None:
            break
    await api.admission.admit(attributes)
    _default(api, request, obj)
    validation.check_create(api, resource, obj)
    await api.admission.validate(attributes)
    if not applied:
        track_update(api, request, None, obj)
    if api.store.get(resource.storage_key, metadata.get("namespace", ""), metadata["name"]) is not None:
        raise already_exists(resource.group, resource.plural, metadata["name"])
    if not dry_run:
        obj = api.store.create(resource.storage_key, obj).obj
    return Written(obj, created=True, warnings=warnings)


def _birth(api: API, metadata: Obj) -> None:
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink", "generation"):
        metadata.pop(field, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = api.now()


async def update(api: API, request: Request) -> Written:
    """PUT on an object, or on its status."""
    obj = request.decode()
    _check_kind(request, obj)
    metadata = _metadata(obj)
    if metadata.setdefault("name", request.name) != request.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({request.name})"
        )
    if request.namespace and metadata.setdefault("namespace", request.namespace) != request.namespace:
        raise bad_request(
            f"the namespace of the object ({metadata['namespace']}) does not match the URL ({request.namespace})"
        )
    warnings = _decode(api, request, obj)
    if api.store.get(request.resource.storage_key, request.namespace, request.name) is None:
        if strategies.creates_on_update(request.resource) and not request.subresource:
            return await create_object(api, request, obj)
        raise not_found(request.resource.group, request.resource.plural, request.name)
    written = await modify(api, request, lambda _: copy.deepcopy(obj))
    written.warnings[:0] = warnings
    return written


async def patch(api: API, request: Request) -> Written:
    """PATCH on an object or on one of its subresources that shows the object itself."""
    kind = patch_kind(request)
    if kind == "apply":
        return await _apply(api, request)
    transform = transform_of(request, kind, api.schema_of(request.resource))
    return await modify(api, request, transform, patched=True)


async def _apply(api: API, request: Request) -> Written:
    """Server-side apply: creates the object when there is none."""
    if "fieldManager" not in request.query:
        cause = Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise invalid("meta.k8s.io", "PatchOptions", "", [cause])
    applied = decode_object(request.body, is_yaml=True)
    _check_kind(request, applied)
    warnings = _decode(api, request, applied)
    transform = apply_transform(api, request, applied)
    missing = api.store.get(request.resource.storage_key, request.namespace, request.name) is None
    if missing and not request.subresource:
        written = await create_object(api, request, transform({}), applied=True)
    else:
        written = await modify(api, request, transform, patched=True, applied=True)
    written.warnings[:0] = warnings
    return written


async def modify(
    api: API, request: Request, transform: Transform, *, patched: bool = False, applied: bool = False
) -> Written:
    """Read, change, write; again from the start when another write came in between and the client named no version."""
    for attempt in range(_ATTEMPTS):
        entry = api.entry(request)
        try:
            return await _modify_once(api, request, entry, transform, patched=patched, applied=applied)
        except ConflictError as error:
            if attempt == _ATTEMPTS - 1:
                raise conflict(request.resource.group, request.resource.plural, request.name) from error
    raise AssertionError("unreachable")


async def _modify_once(
    api: API, request: Request, entry: Entry, transform: Transform, *, patched: bool, applied: bool
) -> Written:
    resource = request.resource
    old = entry.copy()
    obj = transform(to_version(resource, entry.copy()))
    warnings: list[str] = []
    if patched:
        _check_kind(request, obj)
        warnings = _decode(api, request, obj)
    to_storage(resource, obj)
    metadata = _metadata(obj)
    _check_identity(request, old, metadata, patched=patched)
    for field in (
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
        "namespace",
    ):
        if field in old["metadata"]:
            metadata[field] = old["metadata"][field]
        else:
            metadata.pop(field, None)
    _default(api, request, obj)
    strategies.prepare_update(resource, request.subresource, old, obj)
    dry_run = request.dry_run()
    attributes = Attributes(api, request, "UPDATE", obj, old, dry_run, warnings=warnings)
    await api.admission.admit(attributes)
    strategies.bump_generation(resource, old, obj)
    validation.check_update(api, resource, request.subresource, old, obj)
    await api.admission.validate(attributes)
    if not applied:
        track_update(api, request, old, obj)
    if dry_run:
        return Written(obj, warnings=warnings)
    if finish_deletion(api, resource, entry, obj):
        return Written(obj, warnings=warnings)
    return Written(api.store.update(resource.storage_key, obj, entry).obj, warnings=warnings)


def _check_identity(request: Request, old: Obj, metadata: Obj, *, patched: bool) -> None:
    resource = request.resource
    version, uid = metadata.get("resourceVersion"), metadata.get("uid")
    if patched and metadata.get("name") != request.name:
        raise invalid(
            resource.group,
            resource.kind,
            request.name,
            [
                Cause(
                    "FieldValueInvalid", f'Invalid value: "{metadata.get("name")}": field is immutable', "metadata.name"
                )
            ],
        )
    if uid and uid != old["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise conflict(resource.group, resource.plural, request.name, why)
    if not version and not patched and not strategies.unconditional_update(resource):
        cause = Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise invalid(resource.group, resource.plural, request.name, [cause])
    if version and version != old["metadata"]["resourceVersion"]:
        raise conflict(resource.group, resource.plural, request.name)


def _check_kind(request: Request, obj: Obj) -> None:
    """The body must be of the path's kind; custom resources must say so, built-in ones may leave it out."""
    resource = request.resource
    if resource.custom and not (obj.get("kind") and obj.get("apiVersion")):
        field = "Kind" if not obj.get("kind") else "apiVersion"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"Object '{field}' is missing in '{request.body.decode(errors='replace')}'"
        )
    obj.setdefault("apiVersion", resource.group_version)
    obj.setdefault("kind", resource.kind)
    if (obj["apiVersion"], obj["kind"]) != (resource.group_version, resource.kind):
        raise bad_request(
            f"the API version in the data ({obj['apiVersion']}, Kind={obj['kind']}) does not match "
            f"the expected API version ({resource.group_version}, Kind={resource.kind})"
        )


def _decode(api: API, request: Request, obj: Obj) -> list[str]:
    """Prunes what the schema does not know; strict clients get 400 for it, others a warning."""
    found = decode.decode(obj, api.schema_of(request.resource), custom=request.resource.custom)
    mode = request.query.get("fieldValidation", "Warn")
    if found.unknown and mode == "Strict":
        raise bad_request("strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in found.unknown))
    if found.mistyped and not request.resource.custom:
        kind = request.resource.kind
        raise bad_request(
            f'{kind} in version "{request.resource.version}" cannot be handled as a {kind}: {found.mistyped[0]}'
        )
    return [f'unknown field "{path}"' for path in found.unknown] if mode == "Warn" else []


def _default(api: API, request: Request, obj: Obj) -> None:
    custom = api.custom_type(request.resource)
    if custom is None:
        defaults.apply(request.resource, obj)
    else:
        structural.default(obj, custom.schema)


def _metadata(obj: Obj) -> dict[str, Any]:
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("json: cannot unmarshal metadata into a Go value of type v1.ObjectMeta")
    return metadata
