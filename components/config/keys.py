"""Sections of the stack configuration as frozen dataclasses, and one strict reader for all of them.

A section's field is a key: its name in camelCase, its type from the annotation, the rest from `key(...)`. The same
declarations make the reader and the reference page, so that neither can be wrong alone.
Reading goes on after a problem, with the key counted as absent, so that a user sees all problems at once.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from controller.core.api.frozen import FrozenMap
from controller.core.api.strict import Report, did_you_mean, kind_of, step

T = TypeVar("T")

Document = FrozenMap[str, Any]
"""An object whose shape is not ours: a Provisioner's spec, an add-on's values."""

_SCALARS = {str: "a string", bool: "true or false", int: "an integer", float: "a number"}


@dataclass(frozen=True, slots=True)
class Rule:
    """What a key means, and what its value must be beyond its type."""

    doc: str
    allowed: tuple[str, ...] = ()
    pattern: str = ""
    form: str = ""
    """The pattern in words, for the remedy."""
    minimum: float | None = None
    maximum: float | None = None
    check: Callable[[Any], None] | None = None
    """Raises ValueError with what is wrong and, after a colon, what to write."""
    source: str = ""
    """Key of the ConfigMap that the value goes to."""


def key(
    doc: str,
    *,
    default: Any = MISSING,
    allowed: tuple[str, ...] = (),
    pattern: str = "",
    form: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    check: Callable[[Any], None] | None = None,
    source: str = "",
) -> Any:
    """One key; without a default it is required."""
    rule = Rule(doc, allowed, pattern, form, minimum, maximum, check, source)
    return field(default=default, metadata={"rule": rule})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(key,))
def section(cls: type[T]) -> type[T]:
    """A section of the configuration: a frozen dataclass whose fields are `key`s."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


@dataclass(frozen=True, slots=True)
class KeyField:
    """One key of a section as it was declared."""

    attribute: str
    name: str
    hint: Any
    required: bool
    default: Any
    rule: Rule


def key_fields(cls: type[Any]) -> Iterator[KeyField]:
    """The keys of a section, in order."""
    hints = get_type_hints(cls)
    for each in dataclasses.fields(cls):
        required = each.default is MISSING
        yield KeyField(each.name, camel(each.name), hints[each.name], required, each.default, each.metadata["rule"])


def camel(name: str) -> str:
    """subnet_ids → subnetIds."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def read_section(cls: type[T], report: Report, value: object, path: str) -> T | None:
    """A section from its JSON; None, and a problem, when the value is no object.

    A required key that is missing or unreadable is a problem too, and gets a stand-in: so the rules between keys and
    the other sections are judged as well. Whoever uses the section looks at the report first.
    """
    if not isinstance(value, Mapping):
        report.add(path, f"must be an object, not {kind_of(value)}")
        return None
    known = {each.name: each for each in key_fields(cls)}
    for name in value:
        if name not in known:
            report.add(step(path, str(name)), "unknown key", did_you_mean(str(name), known))
    values: dict[str, Any] = {}
    for name, each in known.items():
        at = step(path, name)
        if value.get(name) is None:
            if each.required:
                report.add(at, "is missing", each.rule.doc)
                values[each.attribute] = stand_in(each.hint)
            continue
        read = read_value(each.hint, each.rule, report, value[name], at)
        if read is not None:
            _check(each.rule, report, read, at)
            values[each.attribute] = read
        elif each.required:
            values[each.attribute] = stand_in(each.hint)
    return cls(**values)


def stand_in(hint: Any) -> Any:
    """An empty value of a key's type; of a section, one with stand-ins for its required keys."""
    hint = plain(hint)
    if dataclasses.is_dataclass(hint):
        required = (each for each in key_fields(hint) if each.required)  # type: ignore[arg-type]
        return hint(**{each.attribute: stand_in(each.hint) for each in required})  # type: ignore[operator]
    return hint() if hint in _SCALARS else get_origin(hint)()


def _check(rule: Rule, report: Report, value: Any, path: str) -> None:
    if rule.check is not None:
        try:
            rule.check(value)
        except ValueError as error:
            report.refuse(path, error)


def read_value(hint: Any, rule: Rule, report: Report, value: object, path: str) -> Any:
    """A value of a key; None, and a problem, when it is not what the key takes."""
    hint = plain(hint)
    if hint in _SCALARS:
        return _scalar(hint, rule, report, value, path)
    if dataclasses.is_dataclass(hint):
        return read_section(hint, report, value, path)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        return _list(get_args(hint)[0], rule, report, value, path)
    if not isinstance(value, Mapping):
        report.add(path, f"must be an object, not {kind_of(value)}")
        return None
    if get_args(hint)[1] is Any:
        return FrozenMap(value)
    members = {str(k): read_value(get_args(hint)[1], rule, report, v, step(path, str(k))) for k, v in value.items()}
    return FrozenMap({name: member for name, member in members.items() if member is not None})


def plain(hint: Any) -> Any:
    """The type of `X | None` is X: an absent section is None."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(arg for arg in get_args(hint) if arg is not type(None))
    return hint


def _list(member: Any, rule: Rule, report: Report, value: object, path: str) -> tuple[Any, ...] | None:
    if not isinstance(value, (list, tuple)):
        report.add(path, f"must be a list, not {kind_of(value)}")
        return None
    read = [read_value(member, rule, report, each, f"{path}[{index}]") for index, each in enumerate(value)]
    return tuple(stand_in(member) if each is None else each for each in read)  # later paths count from the same start


def _scalar(hint: type, rule: Rule, report: Report, value: object, path: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not hint:
        report.add(path, f"must be {_SCALARS[hint]}, not {value!r}", _remedy(hint, rule, value))
        return None
    if isinstance(value, str):
        return _text(rule, report, value, path)
    if (rule.minimum is not None and value < rule.minimum) or (rule.maximum is not None and value > rule.maximum):  # type: ignore[operator]
        report.add(path, f"{value} is out of range", f"write a number {_bounds(rule)}")
        return None
    return value


def _remedy(hint: type, rule: Rule, value: object) -> str:
    """For a value of another type: YAML reads 1.30 as a number, whose text is no version any more."""
    if hint is not str or not isinstance(value, (int, float)):
        return ""
    lost = rule.pattern and not re.fullmatch(rule.pattern, str(value))
    return f"write {rule.form}" if lost else f'quote it: "{value}"'


def _bounds(rule: Rule) -> str:
    if rule.maximum is None:
        return f"from {rule.minimum:g} on"
    return f"up to {rule.maximum:g}" if rule.minimum is None else f"from {rule.minimum:g} to {rule.maximum:g}"


def _text(rule: Rule, report: Report, value: str, path: str) -> str | None:
    if rule.allowed and value not in rule.allowed:
        report.add(path, f"{value!r} is not supported", f"use one of {', '.join(rule.allowed)}")
        return None
    if rule.pattern and not re.fullmatch(rule.pattern, value):
        report.add(path, f"{value!r} is malformed", f"write {rule.form}")
        return None
    return value
