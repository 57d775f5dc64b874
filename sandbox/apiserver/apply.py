"""Server-side apply: merging an applied configuration by the schema, and remembering who owns which field."""

from __future__ import annotations

from typing import Any

from sandbox.apiserver.api import API
from sandbox.apiserver.errors import bad_request
from sandbox.apiserver.patch import Transform
from sandbox.apiserver.requests import Request, decode_object
from sandbox.apiserver.schema import Schema
from sandbox.apiserver.store import Obj


def apply_transform(api: API, request: Request) -> tuple[Transform, Obj]:
    """The merge of an applied configuration, and the object to create when there is none. Raises 400 without a manager."""
    if "fieldManager" not in request.query:
        raise bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    applied = decode_object(request.body, is_yaml=True)
    schema = api.schema_of(request.resource)
    return lambda current: merge_typed(current, applied, schema), applied


def merge_typed(current: Any, applied: Any, schema: Schema | None) -> Any:
    """Merges by the schema's list types: maps by key, sets by value, everything else as a whole."""
    if isinstance(applied, dict) and isinstance(current, dict) and not (schema and schema.atomic_map):
        merged = dict(current)
        for key, value in applied.items():
            merged[key] = merge_typed(merged.get(key), value, schema.field(key) if schema else None)
        return merged
    if isinstance(applied, list) and isinstance(current, list) and schema is not None:
        if schema.list_type == "map":
            return _merge_map_list(current, applied, schema)
        if schema.list_type == "set":
            return [*current, *(item for item in applied if item not in current)]
    return applied


def _merge_map_list(current: list[Any], applied: list[Any], schema: Schema) -> list[Any]:
    def identity(item: Any) -> tuple[Any, ...]:
        return tuple(item.get(key) for key in schema.map_keys)

    merged = list(current)
    for item in applied:
        at = next((i for i, have in enumerate(merged) if identity(have) == identity(item)), None)
        if at is None:
            merged.append(item)
        else:
            merged[at] = merge_typed(merged[at], item, schema.item)
    return merged


def track_update(api: API, request: Request, old: Obj | None, obj: Obj) -> None:
    """Notes in `metadata.managedFields` what this write changed, for objects under server-side apply."""
