"""Custom resources by their structural schema: defaults, validation with the API server's words, CEL rules.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import Draft4Validator, FormatChecker
from jsonschema.exceptions import ValidationError

from sandbox.apiserver.errors import Cause
from sandbox.apiserver.schemas.schema import Schema

log = logging.getLogger(__name__)
Obj = dict[str, Any]

_FORMATS = FormatChecker(formats=("date-time", "ipv4", "ipv6", "email", "date"))


def default(value: Any, schema: Schema) -> None:
    """Fills in the schema's defaults in place; a null where the schema allows none counts as left out."""
    if isinstance(value, dict):
        for name, raw in (schema.raw.get("properties") or {}).items():
            nulled = name in value and value[name] is None and not raw.get("nullable")
            if "default" in raw and (name not in value or nulled):
                value[name] = orjson.loads(orjson.dumps(raw["default"]))
            elif nulled and name not in (schema.raw.get("required") or ()):
                del value[name]
        for name, element in value.items():
            child = schema.field(name)
            if child is not None:
                default(element, child)
    elif isinstance(value, list) and schema.item is not None:
        for element in value:
            default(element, schema.item)


class Validator:
    """The rules of one version of a custom resource, compiled once."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._schema = Schema(raw)
        self._json = Draft4Validator(_as_draft4(raw), format_checker=_FORMATS)

    def causes(self, obj: Obj, old: Obj | None) -> list[Cause]:
        """Everything that is wrong with an object; `old` is the stored one on an update (for CEL's oldSelf)."""
        body = {key: value for key, value in obj.items() if key not in ("metadata",)}
        found = [cause for error in self._json.iter_errors(body) for cause in _causes(error)]
        found.extend(_duplicates(body, self._schema, ""))
        if found:
            return sorted(found, key=lambda cause: cause.field)
        return list(_rules(obj, old, self._schema, ""))


def _as_draft4(raw: Any) -> Any:
    """OpenAPI v3 as JSON schema draft 4 (where exclusiveMinimum is a flag too): nullable becomes a type."""
    if isinstance(raw, list):
        return [_as_draft4(value) for value in raw]
    if not isinstance(raw, Mapping):
        return raw
    shown = {key: _as_draft4(value) for key, value in raw.items() if not key.startswith("x-") and key != "default"}
    if raw.get("x-kubernetes-int-or-string"):
        shown.pop("anyOf", None)
        shown["type"] = ["integer", "string"]
    if raw.get("nullable") and "type" in shown:
        shown["type"] = [*(shown["type"] if isinstance(shown["type"], list) else [shown["type"]]), "null"]
    if raw.get("x-kubernetes-embedded-resource"):
        shown.setdefault("type", "object")
    return shown


def _path(error: ValidationError) -> str:
    text = ""
    for part in error.absolute_path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _type_of(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _causes(error: ValidationError) -> Iterator[Cause]:
    path, rule, value = _path(error), str(error.validator), error.instance
    if rule == "required":
        name = error.message.split("'")[1]
        yield Cause("FieldValueRequired", "Required value", f"{path}.{name}".lstrip("."))
    elif rule == "type":
        wanted: Any = error.validator_value
        word = ",".join(t for t in wanted if t != "null") if isinstance(wanted, list) else str(wanted)
        shown = _shown(_type_of(value))
        yield Cause(
            "FieldValueTypeInvalid", f"Invalid value: {shown}: {path} in body must be of type {word}: {shown}", path
        )
    elif rule == "enum":
        choices: Any = error.validator_value
        supported = ", ".join(_shown(choice) for choice in choices)
        yield Cause(
            "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {supported}", path
        )
    elif rule in _TOO_LARGE:
        reason, message = _TOO_LARGE[rule](error)
        yield Cause(reason, message, path)
    else:
        words = _WORDS[rule](error.validator_value) if rule in _WORDS else error.message
        yield Cause("FieldValueInvalid", f"Invalid value: {_shown(value)}: {path} in body {words}", path)


_WORDS: dict[str, Callable[[Any], str]] = {
    "minimum": lambda limit: f"should be greater than or equal to {limit}",
    "maximum": lambda limit: f"should be less than or equal to {limit}",
    "pattern": lambda pattern: f"should match '{pattern}'",
    "minLength": lambda limit: f"should be at least {limit} chars long",
    "minItems": lambda limit: f"should have at least {limit} items",
    "minProperties": lambda limit: f"should have at least {limit} properties",
    "multipleOf": lambda factor: f"should be a multiple of {factor}",
    "format": lambda name: f"must be of type {name}",
    "oneOf": lambda _: "must validate one and only one schema (oneOf)",
    "anyOf": lambda _: "must validate at least one schema (anyOf)",
    "not": lambda _: "must not validate the schema (not)",
}


def _size(value: Any) -> int:
    return len(value)


_TOO_LARGE: dict[str, Callable[[ValidationError], tuple[str, str]]] = {
    "maxLength": lambda e: ("FieldValueTooLong", f"Too long: may not be more than {e.validator_value} bytes"),
    "maxItems": lambda e: (
        "FieldValueTooMany",
        f"Too many: {_size(e.instance)}: must have at most {e.validator_value} items",
    ),
    "maxProperties": lambda e: (
        "FieldValueTooMany",
        f"Too many: {_size(e.instance)}: must have at most {e.validator_value} items",
    ),
}


def _duplicates(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    """Lists of type map and set hold each key once."""
    for child_path, child, element in _children(value, schema, path):
        yield from _duplicates(element, child, child_path)
    if isinstance(value, list) and schema.list_type in ("map", "set"):
        seen: list[Any] = []
        for i, element in enumerate(value):
            key = {k: element.get(k) for k in schema.map_keys} if schema.list_type == "map" else element
            if key in seen:
                yield Cause("FieldValueDuplicate", f"Duplicate value: {_shown(key)}", f"{path}[{i}]")
            seen.append(key)


def _children(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, Schema, Any]]:
    if isinstance(value, dict):
        declared = schema.raw.get("properties") or {}
        for name, element in value.items():
            child = schema.field(name)
            if child is not None:
                step = f".{name}" if name in declared else f"[{name}]"
                yield f"{path}{step}".lstrip("."), child, element
    elif isinstance(value, list) and schema.item is not None:
        for i, element in enumerate(value):
            yield f"{path}[{i}]", schema.item, element


def _rules(value: Any, old: Any, schema: Schema, path: str) -> Iterator[Cause]:
    """`x-kubernetes-validations`; a rule on oldSelf runs only when there is an old value (transition rules)."""
    if value is None:
        return
    for rule in schema.raw.get("x-kubernetes-validations") or ():
        transition = "oldSelf" in rule["rule"]
        if transition and old is None and not rule.get("optionalOldSelf"):
            continue
        holds, words = _evaluate(rule["rule"], value, old)
        if not holds:
            message = words or rule.get("message") or _message(rule, value, old) or f"failed rule: {rule['rule']}"
            shown = _shown(_type_of(value) if isinstance(value, dict | list) else value)
            where = f"{path}{rule.get('fieldPath', '')}".lstrip(".")
            yield Cause(rule.get("reason", "FieldValueInvalid"), f"Invalid value: {shown}: {message}", where)
    for child_path, child, element in _children(value, schema, path):
        before = old.get(child_path.rpartition(".")[2]) if isinstance(old, dict) else None
        yield from _rules(element, before, child, child_path)


@lru_cache(maxsize=1024)
def _compiled(rule: str) -> Any:
    import cel  # its command line tool comes along: half a second that a server without CEL rules need not wait

    return cel.compile(rule)


def _evaluate(rule: str, value: Any, old: Any) -> tuple[bool, str]:
    """(holds, words on a failure to evaluate): a function that this CEL lacks is named in the refusal."""
    try:
        return bool(_compiled(rule).execute({"self": value, "oldSelf": old})), ""
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        log.warning("rule %s: %s", rule, error)
        return False, f"rule evaluation error: {error} (rule: {rule})"


def holds(expression: str, variables: Mapping[str, Any]) -> bool:
    """Whether a CEL expression is true; one that cannot be evaluated is not."""
    try:
        return bool(_compiled(expression).execute(dict(variables)))
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        log.warning("expression %s: %s", expression, error)
        return False


def _message(rule: Mapping[str, Any], value: Any, old: Any) -> str:
    expression = rule.get("messageExpression")
    if not expression:
        return ""
    try:
        return str(_compiled(expression).execute({"self": value, "oldSelf": old}))
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        log.warning("messageExpression %s: %s", expression, error)
        return ""
