"""Sets of fields as `metadata.managedFields` has them (FieldsV1), and the comparison of two objects field by field.

A path is a tuple of FieldsV1 keys: `f:spec`, `k:{"name":"main"}` for an item of a map list, `v:"x"` of a set list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sandbox.apiserver.schemas.schema import OBJECT_META, Schema, definition

Obj = dict[str, Any]
Path = tuple[str, ...]
FieldSet = frozenset[Path]

_INNER = object()
"""Stands for the value of a field that is compared by its parts."""

# Never owned by anybody (managedfields/internal/stripmeta.go).
_UNOWNED = {
    ("f:apiVersion",), ("f:kind",), ("f:metadata",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace"),
    ("f:metadata", "f:creationTimestamp"), ("f:metadata", "f:selfLink"), ("f:metadata", "f:uid"),
    ("f:metadata", "f:clusterName"), ("f:metadata", "f:generation"), ("f:metadata", "f:managedFields"),
    ("f:metadata", "f:resourceVersion"), ("f:metadata", "f:deletionTimestamp"),
    ("f:metadata", "f:deletionGracePeriodSeconds"), ("f:metadata", "f:generateName"),
}  # fmt: skip


def child_schema(schema: Schema | None, key: str, path: Path) -> Schema | None:
    """The schema of a field; metadata of custom resources is an ObjectMeta though their schema does not say so."""
    if not path and key == "metadata":
        return definition(OBJECT_META)
    return schema.field(key) if schema is not None else None


def item_key(item: Any, schema: Schema) -> str:
    """The path element of an item of a map or set list."""
    if schema.list_type == "map":
        keys = {key: item[key] for key in sorted(schema.map_keys) if isinstance(item, dict) and key in item}
        return "k:" + json.dumps(keys, separators=(",", ":"))
    return "v:" + json.dumps(item, separators=(",", ":"))


def granular_list(schema: Schema | None) -> bool:
    """Whether items of a list are owned one by one."""
    return schema is not None and schema.list_type in ("map", "set")


def nodes(value: Any, schema: Schema | None, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field below a value: (path, leaf value), or (path, a marker) for fields with parts."""
    if isinstance(value, dict) and not (schema is not None and schema.atomic_map):
        if path:
            yield path, _INNER if value else {}
        for key, element in value.items():
            yield from nodes(element, child_schema(schema, key, path), (*path, f"f:{key}"))
    elif isinstance(value, list) and granular_list(schema):
        assert schema is not None
        if path:
            yield path, _INNER if value else []
        for element in value:
            here = (*path, item_key(element, schema))
            if schema.list_type == "set":
                yield here, element
            else:
                yield from nodes(element, schema.item, here)
    else:
        yield path, value


def changed(old: Obj, new: Obj, schema: Schema) -> tuple[set[Path], set[Path]]:
    """(fields that are new or have another value, fields that are gone)."""
    before, after = dict(nodes(old, schema)), dict(nodes(new, schema))
    different = {p for p, value in after.items() if p not in before or before[p] != value}
    return different - _UNOWNED, set(before) - set(after) - _UNOWNED


def applied_fields(applied: Obj, schema: Schema) -> FieldSet:
    """The fields that an applied configuration claims: leaves, items of lists, entries of free maps."""
    claimed = set()
    for path, value in nodes(applied, schema):
        is_item = path[-1:] and path[-1][:2] in ("k:", "v:")
        if value is not _INNER or is_item:
            claimed.add(path)
    return frozenset(claimed - _UNOWNED)


def to_json(fields: Iterable[Path]) -> Obj:
    """FieldsV1: `{"f:spec": {".": {}, "f:replicas": {}}}`."""
    tree: Obj = {}
    owned = set(fields)
    for path in sorted(owned):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    for path in owned:
        node = tree
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return _ordered(tree)


def _ordered(tree: Obj) -> Obj:
    return {key: _ordered(tree[key]) for key in sorted(tree)}


def from_json(tree: Obj) -> FieldSet:
    """The inverse of `to_json`."""
    return frozenset(_paths(tree, ()))


def _paths(tree: Obj, path: Path) -> Iterator[Path]:
    for key, below in tree.items():
        if key == ".":
            yield path
        elif not below:
            yield (*path, key)
        else:
            yield from _paths(below, (*path, key))


def remove(obj: Any, path: Path, schema: Schema | None, at: Path = ()) -> None:
    """Takes the field at `path` out of an object, if it is there."""
    element = path[0]
    if element.startswith("f:"):
        key = element[2:]
        if not isinstance(obj, dict) or key not in obj:
            return
        if len(path) == 1:
            del obj[key]
        else:
            remove(obj[key], path[1:], child_schema(schema, key, at), (*at, element))
        return
    if not isinstance(obj, list) or schema is None:
        return
    index = next((i for i, item in enumerate(obj) if item_key(item, schema) == element), None)
    if index is None:
        return
    if len(path) == 1:
        del obj[index]
    else:
        remove(obj[index], path[1:], schema.item, (*at, element))


def dotted(path: Path) -> str:
    """A path as messages spell it: `.spec.containers[name="main"].image`."""
    text = ""
    for element in path:
        kind, rest = element[:2], element[2:]
        if kind == "f:":
            text += f".{rest}"
        elif kind == "k:":
            pairs = json.loads(rest)
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in pairs.items()) + "]"
        else:
            text += f"[={rest}]"
    return text
