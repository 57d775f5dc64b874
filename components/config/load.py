"""The edge: a stack's configuration in, one frozen value out, or one error with every problem. Without Pulumi."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args, get_origin

from components.config.checks import check
from components.config.inputs import NodeLessArgs
from components.config.keys import Document, camel, key_fields, plain, read_section
from components.config.objects import stack_objects
from components.config.schema import StackConfig
from controller.core.api.strict import Report
from controller.errors import ValidationError

PROJECT = "nodeless"
MARKED = "secret_keys"
"""The argument that names the keys with a secret."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What an environment is to be."""

    config: StackConfig
    objects: tuple[Document, ...]
    """Its Provisioners and AWSNodeTemplates, valid, templates first."""
    secret_keys: frozenset[str] = frozenset()
    """Top-level keys that hold a secret."""


def load(arguments: NodeLessArgs, folder: Path, report: Report | None = None) -> Stack:
    """The stack of these arguments. Raises ValidationError with every problem, each under its key path, after those of
    `report`.

    `folder` is the project's: paths of manifests count from it. Keys may have Python's spelling or that of stack files.
    """
    keys = dict(arguments)
    secret = cast("Sequence[str]", keys.pop(MARKED, ()))
    document = spelled(StackConfig, keys)
    return replace(parse(document, folder, report), secret_keys=frozenset(map(camel, secret)))


def spelled(hint: Any, value: Any) -> Any:
    """A key's value with the names that stack files have. What is not as declared stays, for the reader to judge."""
    hint = plain(hint)
    if get_origin(hint) is tuple and isinstance(value, (list, tuple)):
        return [spelled(get_args(hint)[0], each) for each in value]
    if not dataclasses.is_dataclass(hint) or not isinstance(value, Mapping):
        return value
    known = {each.attribute: each for each in key_fields(hint)}  # type: ignore[arg-type]
    known.update({each.name: each for each in known.values()})
    return {
        known[name].name if name in known else name: spelled(known[name].hint, member) if name in known else member
        for name, member in value.items()
    }


def values(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The project's keys out of Pulumi's: what is no text arrives as JSON, other projects' keys are not ours."""
    structured = {each.name for each in key_fields(StackConfig) if plain(each.hint) is not str}
    ours: dict[str, Any] = {}
    for full, value in raw.items():
        namespace, _, name = full.partition(":")
        if namespace == PROJECT:
            ours[name] = _decoded(value) if name in structured else value
    return ours


def parse(document: Mapping[str, Any], folder: Path, report: Report | None = None) -> Stack:
    """The stack of these keys. Raises ValidationError with their problems after those of `report`."""
    report, between = report or Report(), Report()
    config = read_section(StackConfig, report, document, "")
    assert config is not None, "a mapping is an object"
    unread = [problem.path for problem in report.problems]
    check(config, between)
    all_read = not any(path.startswith(("nodeTemplates", "manifests")) for path in unread)
    objects = stack_objects(config, folder, between, all_read=all_read)
    # What a stand-in breaks is no problem of the user's.
    follow = [each for each in between.problems if not any(_within(each.path, path) for path in unread)]
    if report.problems or follow:
        raise ValidationError("Stack configuration", [*report.problems, *follow])
    return Stack(config, objects)


def _within(one: str, other: str) -> bool:
    """Whether one key path is the other or leads to it."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in ("", ".", "[", " ")


def _decoded(value: Any) -> Any:
    """A value that is no JSON stays as it is: the reader says what it must be."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
