"""From JSON to a typed object: unknown fields are dropped and named, wrong types named, nulls vanish."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sandbox.apiserver.schemas.quantity import MalformedQuantityError, canonical
from sandbox.apiserver.schemas.schema import OBJECT_META, Schema, definition

_EXPECTED: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
}
_STORED_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")
_GO_TYPES = {"integer": "int64", "number": "float64", "boolean": "bool"}
_JSON_WORDS = {dict: "object", list: "array", str: "string", int: "number", float: "number", bool: "bool"}


@dataclass(slots=True)
class Decoded:
    """What decoding found: paths of fields that the schema does not know, and messages on values of a wrong type."""

    unknown: list[str] = field(default_factory=list)
    mistyped: list[str] = field(default_factory=list)


def decode(obj: dict[str, Any], schema: Schema, *, custom: bool) -> Decoded:
    """Prunes `obj` in place by its schema. Custom resources keep nulls; their types are checked by validation (422)."""
    found = Decoded()
    root = dict(obj)
    metadata = root.pop("metadata", None)
    if isinstance(metadata, dict):
        _object(metadata, definition(OBJECT_META), "metadata", found, custom=False)
    if custom:
        kept: dict[str, Any] = {key: root.pop(key) for key in ("apiVersion", "kind") if key in root}
        _walk(root, schema, "", found, custom=True)
        root |= kept
    else:
        _walk(root, schema, "", found, custom=False)
    obj.clear()
    for key in ("apiVersion", "kind"):
        if key in root:
            obj[key] = root[key]
    obj["metadata"] = metadata if metadata is not None else {}
    obj.update(root)
    return found


def _walk(value: Any, schema: Schema, path: str, found: Decoded, *, custom: bool) -> None:
    expected = schema.type
    if expected and not custom and not _fits(value, expected):
        go = _GO_TYPES.get(expected, expected)
        word = _JSON_WORDS.get(type(value), "value")
        found.mistyped.append(f"json: cannot unmarshal {word} into Go struct field {path} of type {go}")
        return
    if isinstance(value, dict):
        _object(value, schema, path, found, custom=custom)
    elif isinstance(value, list):
        item = schema.item
        if item is not None:
            for i, element in enumerate(value):
                _walk(element, item, f"{path}[{i}]", found, custom=custom)


def _fits(value: Any, expected: str) -> bool:
    if isinstance(value, bool):
        return expected == "boolean"
    if expected == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _EXPECTED[expected])


def _object(value: dict[str, Any], schema: Schema, path: str, found: Decoded, *, custom: bool) -> None:
    if schema.embedded and isinstance(value.get("metadata"), dict):
        _object(value["metadata"], definition(OBJECT_META), f"{path}.metadata", found, custom=False)
    for key in list(value):
        child = schema.field(key)
        here = f"{path}.{key}" if path else key
        if child is None:
            kept = schema.open or (schema.embedded and key in ("apiVersion", "kind", "metadata"))
            if not kept:
                found.unknown.append(here)
                del value[key]
            continue
        if value[key] is None:
            if not custom:
                del value[key]
            continue
        if not custom and _is_empty(value[key], child) and key not in (schema.raw.get("required") or ()):
            del value[key]  # Go's omitempty: an empty list or map is not there
        elif child.quantity:
            value[key] = _quantity(value[key], found)
        elif child.is_time:
            value[key] = _time(value[key], micro=child.is_micro_time)
        else:
            _walk(value[key], child, here, found, custom=custom)


def _is_empty(value: Any, schema: Schema) -> bool:
    return value == [] or (value == {} and "properties" not in schema.raw and "additionalProperties" in schema.raw)


def _quantity(value: Any, found: Decoded) -> Any:
    try:
        return canonical(value)
    except MalformedQuantityError as error:
        found.mistyped.append(str(error))
        return value


def _time(value: Any, *, micro: bool) -> Any:
    """`metav1.Time` has whole seconds, `MicroTime` six digits; both are stored in UTC with a Z."""
    if not isinstance(value, str):
        return value
    if _STORED_TIME.fullmatch(value) and ("." in value) == micro:
        return value
    try:
        parsed = datetime.fromisoformat(value).astimezone(UTC)
    except ValueError:
        return value
    return parsed.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
