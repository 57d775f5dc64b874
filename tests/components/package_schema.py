"""Holds what the program sends to a component against the types that the component's package ships.

Those are generated from its schema, and are what is at hand of it without the plugin: names as on the wire, nested
objects, enumerations, resources.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import _types


def misfits(arguments: type[Any], inputs: Mapping[str, Any], path: str = "") -> list[str]:
    """What of these inputs is no property of the type, or has another type; with its path."""
    types = _types.input_type_types(arguments)
    found: list[str] = []
    for name, value in inputs.items():
        at = f"{path}.{name}".lstrip(".")
        if name not in types:
            found.append(f"{at}: unknown")
        elif value is not None:
            found += _value(types[name], value, at)
    return found


def _value(wanted: Any, value: Any, path: str) -> list[str]:
    origin, parts = typing.get_origin(wanted), [each for each in typing.get_args(wanted) if each is not type(None)]
    if origin is typing.Union:
        return _value(parts[0], value, path)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return [f"{path}: {value!r} is no object"]
        return [each for key, member in value.items() for each in _value(parts[1], member, f"{path}.{key}")]
    if origin is not None and issubclass(origin, Sequence):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [each for index, member in enumerate(value) for each in _value(parts[0], member, f"{path}[{index}]")]
    if _types.is_input_type(wanted):
        return misfits(wanted, value, path) if isinstance(value, Mapping) else [f"{path}: {value!r} is no object"]
    if issubclass(wanted, pulumi.Resource):
        kind = wanted.pulumi_type
        return [] if str(value).split("::")[-2].split("$")[-1] == kind else [f"{path}: {value!r} is no {kind}"]
    if issubclass(wanted, enum.Enum):
        return [] if value in [each.value for each in wanted] else [f"{path}: {value!r} is none of {list(wanted)}"]
    return [] if isinstance(value, wanted) else [f"{path}: {value!r} is no {wanted.__name__}"]
