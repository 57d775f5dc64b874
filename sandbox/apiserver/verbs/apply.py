"""Server-side apply: merging an applied configuration by the schema, and remembering who owns which field.

https://kubernetes.io/docs/reference/using-api/server-side-apply/
Objects that were never applied carry no managedFields here (a real server fills them in on every write); at the first
apply their fields belong to `before-first-apply`, as they do there for objects from before the feature.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox.apiserver.api import API
from sandbox.apiserver.errors import APIError
from sandbox.apiserver.requests import Request
from sandbox.apiserver.schemas import fieldsets
from sandbox.apiserver.schemas.fieldsets import FieldSet, Path
from sandbox.apiserver.schemas.schema import Schema
from sandbox.apiserver.storage.store import Obj

_LEGACY = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Manager:
    """Who owns fields: a name, the way of writing, the version and the subresource that were written."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


@dataclass(slots=True)
class _Owned:
    fields: FieldSet
    time: str


_Managers = dict[Manager, _Owned]


def apply_transform(api: API, request: Request, applied: Obj) -> Callable[[Obj], Obj]:
    """The function from the present object (`{}` when there is none) to the applied one. Raises 409 on conflicts."""
    schema = api.schema_of(request.resource)
    manager = Manager(request.field_manager, "Apply", request.resource.group_version, request.subresource)
    force = request.flag("force")

    def transform(current: Obj) -> Obj:
        managers = _read(current)
        if current and not managers:
            managers = _legacy(api, request, current, schema)
        claimed = _without_foreign(fieldsets.applied_fields(applied, schema), request)
        merged: Obj = merge_typed(copy.deepcopy(current), applied, schema)
        before = managers.get(manager)
        different, _ = fieldsets.changed(current, merged, schema)
        _settle_conflicts(managers, manager, different & claimed, force=force)
        _prune(merged, managers, manager, claimed, schema)
        if before is None or before.fields != claimed:
            managers[manager] = _Owned(claimed, api.now())
        _write(merged, managers)
        return merged

    return transform


def _without_foreign(fields: FieldSet, request: Request) -> FieldSet:
    """Fields that this path cannot write are not owned through it."""
    if "status" not in request.resource.subresources:
        return fields
    if request.subresource == "status":
        return frozenset(path for path in fields if path[0] == "f:status")
    return frozenset(path for path in fields if path[0] != "f:status")


def _legacy(api: API, request: Request, current: Obj, schema: Schema) -> _Managers:
    fields, _ = fieldsets.changed({}, current, schema)
    owner = Manager(_LEGACY, "Update", request.resource.group_version)
    return {owner: _Owned(frozenset(fields), api.now())}


def _settle_conflicts(managers: _Managers, manager: Manager, different: set[Path], *, force: bool) -> None:
    """Others that own a field which now gets another value: refused, or (forced) they lose it."""
    found = sorted(
        ((other, path) for other, owned in managers.items() if other != manager for path in owned.fields & different),
        key=lambda pair: (pair[0].name, pair[1]),
    )
    if found and not force:
        raise _conflict(found)
    for other, path in found:
        managers[other].fields = managers[other].fields - {path}


def _conflict(found: list[tuple[Manager, Path]]) -> APIError:
    causes = []
    for manager, path in found:
        using = f" using {manager.api_version}" if manager.operation == "Update" else ""
        message = f'conflict with "{manager.name}"{using}'
        causes.append({"reason": "FieldManagerConflict", "message": message, "field": fieldsets.dotted(path)})
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        listed = "\n".join(f"{cause['message']}: {cause['field']}" for cause in causes)
        text = f"Apply failed with {len(causes)} conflicts: {listed}"
    return APIError(409, "Conflict", text, details={"causes": causes})


def _prune(merged: Obj, managers: _Managers, manager: Manager, claimed: FieldSet, schema: Schema) -> None:
    """Takes away what the manager applied before, applies no longer, and nobody else owns."""
    before = managers.get(manager)
    if before is None:
        return
    held = {path for other, owned in managers.items() if other != manager for path in owned.fields} | claimed
    for path in sorted(before.fields - claimed, key=len):  # a list item whole, before its key fields
        if not any(kept[: len(path)] == path for kept in held):
            fieldsets.remove(merged, path, schema)


def merge_typed(current: Any, applied: Any, schema: Schema | None, path: Path = ()) -> Any:
    """Merges by the schema's list types: maps by key, sets by value, everything else as a whole."""
    if isinstance(applied, dict) and isinstance(current, dict) and not (schema is not None and schema.atomic_map):
        for key, value in applied.items():
            child = fieldsets.child_schema(schema, key, path)
            current[key] = merge_typed(current.get(key), value, child, (*path, f"f:{key}"))
        return current
    if isinstance(applied, list) and isinstance(current, list) and schema is not None:
        if schema.list_type == "map":
            return _merge_items(current, applied, schema)
        if schema.list_type == "set":
            return [*current, *(item for item in applied if item not in current)]
    return copy.deepcopy(applied)


def _merge_items(current: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    merged = list(current)
    for item in applied:
        key = fieldsets.item_key(item, schema)
        at = next((i for i, have in enumerate(merged) if fieldsets.item_key(have, schema) == key), None)
        if at is None:
            merged.append(copy.deepcopy(item))
        else:
            merged[at] = merge_typed(merged[at], item, schema.item, ("k:",))
    return merged


def track_update(api: API, request: Request, old: Obj | None, obj: Obj) -> None:
    """Notes what a write other than apply changed, on objects that were applied before."""
    if old is None or not old["metadata"].get("managedFields"):
        obj["metadata"].pop("managedFields", None)
        return
    asked = obj["metadata"].get("managedFields")
    if asked == [] or asked == [{}]:
        del obj["metadata"]["managedFields"]
        return
    managers = _read(old)
    different, gone = fieldsets.changed(old, obj, api.schema_of(request.resource))
    if not different and not gone:
        obj["metadata"]["managedFields"] = old["metadata"]["managedFields"]
        return
    writer = Manager(request.field_manager, "Update", request.resource.group_version, request.subresource)
    for owned in managers.values():
        owned.fields = owned.fields - different - gone
    if different:
        mine = managers.get(writer)
        managers[writer] = _Owned((mine.fields if mine else frozenset()) | different, api.now())
    _write(obj, managers)


def _read(obj: Obj) -> _Managers:
    found: _Managers = {}
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        name, operation, version = (entry.get(key, "") for key in ("manager", "operation", "apiVersion"))
        manager = Manager(name, operation, version, entry.get("subresource", ""))
        found[manager] = _Owned(fieldsets.from_json(entry.get("fieldsV1") or {}), entry.get("time", ""))
    return found


def _write(obj: Obj, managers: _Managers) -> None:
    entries = []
    for manager, owned in managers.items():
        if not owned.fields:
            continue
        entry = {
            "manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version,
            "time": owned.time, "fieldsType": "FieldsV1", "fieldsV1": fieldsets.to_json(owned.fields),
        }  # fmt: skip
        entries.append({**entry, "subresource": manager.subresource} if manager.subresource else entry)
    obj["metadata"]["managedFields"] = entries
