"""Pulumi.yaml, and the reference page of all keys, which is written from their declarations."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import yaml

from components.config.keys import key_fields, plain
from components.config.schema import StackConfig
from controller.core.api.frozen import FrozenMap

_SIMPLE = {str: "string", bool: "boolean", int: "integer", float: "number"}

PROJECT_HEADER = """# `pulumi up -s STACK` with stacks/Pulumi.STACK.yaml is the only step of an installation.
# There is no block `config`: by it the engine would refuse a value's type, one at a time, before the program can say
# all that is wrong. Keys: docs/reference/stack-config.md. Written by `uv run python scripts/stack_reference.py`.
"""

PROJECT = {
    "name": "nodeless",
    "description": "An EKS cluster with no node groups: every EC2 node comes from one small controller",
    "runtime": {"name": "python", "options": {"toolchain": "uv", "virtualenv": ".venv"}},
    "stackConfigDir": "stacks",
}

HEADER = """# Stack configuration

Every key of `stacks/Pulumi.STACK.yaml`, under the namespace `nodeless:`. Structured keys are set with
`pulumi config set --path 'nodeless:cluster.name' myeks` or in the file. The region is `aws:region`; tags on all AWS
resources are `aws:defaultTags`. Problems are shown all at once at preview, each with its key path and a remedy.

This page is written by `uv run python scripts/stack_reference.py`.
"""


def project_file() -> str:
    """Pulumi.yaml."""
    return PROJECT_HEADER + yaml.safe_dump(PROJECT, sort_keys=False, width=110, allow_unicode=True)


def page() -> str:
    """The reference page, in Markdown."""
    return "\n".join([HEADER, *_sections()]).rstrip() + "\n"


def _sections() -> Iterator[str]:
    for each in key_fields(StackConfig):
        yield f"## {each.name}\n"
        yield f"{each.rule.doc} {'Required.' if each.required else ''}".rstrip() + "\n"
        hint = plain(each.hint)
        member = get_args(hint)[0] if get_origin(hint) is tuple else hint
        if dataclasses.is_dataclass(member):
            yield "| Key | Type | Default | Meaning |"
            yield "| --- | --- | --- | --- |"
            yield from _rows(member, "[]." if get_origin(hint) is tuple else "")
            yield ""


def _rows(cls: Any, prefix: str) -> Iterator[str]:
    for each in key_fields(cls):
        hint = plain(each.hint)
        meaning = each.rule.doc
        if each.rule.form:
            meaning += f" Form: {each.rule.form}."
        if each.rule.allowed:
            meaning += f" One of {', '.join(f'`{value}`' for value in each.rule.allowed)}."
        name, default = f"`{prefix}{each.name}`", "**required**" if each.required else _shown(each.default)
        yield f"| {name} | {_type(hint)} | {default} | {meaning.replace('|', chr(92) + '|')} |"
        member = get_args(hint)[0] if get_origin(hint) is tuple else hint
        if dataclasses.is_dataclass(member):
            yield from _rows(member, f"{prefix}{each.name}{'[]' if get_origin(hint) is tuple else ''}.")


def _type(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"list of {_type(get_args(hint)[0])}"
    if get_origin(hint) is FrozenMap:
        return "object" if get_args(hint)[1] is Any else "map of strings"
    return _SIMPLE.get(hint, "object")


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    if value in ("", (), {}):
        return "empty"
    return f"`{json.dumps(value)}`"
