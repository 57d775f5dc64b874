"""JSON patch, merge patch and strategic merge patch. Server-side apply is in apply.py."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jsonpatch
import jsonpointer
import orjson

from sandbox.apiserver.errors import APIError, bad_request, unsupported_media_type
from sandbox.apiserver.requests import PATCH_TYPES, Request, decode_object
from sandbox.apiserver.schemas.schema import Schema
from sandbox.apiserver.storage.store import Obj

Transform = Callable[[Obj], Obj]
_DIRECTIVES = ("$patch", "$retainKeys")
_SET_ELEMENT_ORDER = "$setElementOrder/"
_DELETE_FROM = "$deleteFromPrimitiveList/"


def patch_kind(request: Request) -> str:
    """`json`, `merge`, `strategic` or `apply` by the Content-Type. Raises 415 for others."""
    content_type = request.content_type.split(";", 1)[0].strip()
    kind = PATCH_TYPES.get(content_type)
    if kind is None or (kind == "strategic" and request.resource.custom):
        accepted = [t for t, k in PATCH_TYPES.items() if not (k == "strategic" and request.resource.custom)]
        raise unsupported_media_type(content_type, accepted)
    return kind


def transform_of(request: Request, kind: str, schema: Schema) -> Transform:
    """The function from the present object to the patched one. Raises 400 or 422 for a patch that cannot be read."""
    if kind == "json":
        return _json_transform(request)
    patch = decode_object(request.body)
    if kind == "merge":
        return lambda current: merge(current, patch)
    return lambda current: strategic(current, patch, schema)


def _json_transform(request: Request) -> Transform:
    try:
        operations = jsonpatch.JsonPatch(orjson.loads(request.body))
    except (orjson.JSONDecodeError, jsonpatch.JsonPatchException, TypeError) as error:
        raise bad_request(f"error decoding patch: {error}") from error

    def transform(current: Obj) -> Obj:
        try:
            patched = operations.apply(current)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise APIError(
                422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
            ) from error
        if not isinstance(patched, dict):
            raise bad_request("a patch must leave an object")
        return patched

    return transform


def merge(current: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def strategic(current: Any, patch: Any, schema: Schema | None) -> Any:
    """Strategic merge patch of an object: lists with a merge key are merged by it, others are replaced.

    Directives: `$patch: replace|delete|merge`, `$retainKeys`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`.
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    merged = dict(current) if isinstance(current, dict) else {}
    if "$retainKeys" in patch:
        merged = {key: value for key, value in merged.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key in _DIRECTIVES or key.startswith(_SET_ELEMENT_ORDER):
            continue
        if key.startswith(_DELETE_FROM):
            target = key.removeprefix(_DELETE_FROM)
            merged[target] = [item for item in merged.get(target) or () if item not in value]
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _strategic_value(merged.get(key), value, schema.field(key) if schema else None)
    for key, order in patch.items():
        if key.startswith(_SET_ELEMENT_ORDER):
            _set_order(merged, key.removeprefix(_SET_ELEMENT_ORDER), order, schema)
    return merged


def _strategic_value(current: Any, value: Any, schema: Schema | None) -> Any:
    if isinstance(value, dict):
        return strategic(current, value, schema)
    if not isinstance(value, list) or schema is None:
        return copy.deepcopy(value)
    if schema.merge_key:
        return _merge_items(current if isinstance(current, list) else [], value, schema)
    if schema.merges_primitives:
        kept = list(current or ())
        return kept + [item for item in value if item not in kept]
    return copy.deepcopy(value)


def _merge_items(current: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    key = schema.merge_key
    if any(item.get("$patch") == "replace" and len(item) == 1 for item in patch):
        return [copy.deepcopy(item) for item in patch if "$patch" not in item]
    merged = list(current)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, have in enumerate(merged) if have.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [have for have in merged if have.get(key) != item[key]]
        elif at is None:
            merged.append({k: copy.deepcopy(v) for k, v in item.items() if k not in _DIRECTIVES})
        else:
            merged[at] = strategic(merged[at], item, schema.item)
    return merged


def _set_order(merged: Obj, field: str, order: list[Any], schema: Schema | None) -> None:
    """Items named by the patch come in the patch's order; items that only the server has keep their places."""
    items = merged.get(field)
    if not isinstance(items, list):
        return
    child = schema.field(field) if schema else None
    key = child.merge_key if child else ""
    wanted = [item.get(key) if key and isinstance(item, dict) else item for item in order]

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    ordered = iter(sorted((i for i in items if identity(i) in wanted), key=lambda i: wanted.index(identity(i))))
    merged[field] = [next(ordered) if identity(item) in wanted else item for item in items]
