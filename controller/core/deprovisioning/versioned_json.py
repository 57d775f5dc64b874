"""The form of records that outlive the process: JSON objects with a version, read by older and newer controllers.

While a new controller replaces an old one, or is rolled back, each reads what the other wrote. Within a version members
are only ever added: a reader ignores those that it does not know, and a record that is read and written again keeps
them. What changes the meaning of a member needs the next version, which older controllers do not read. Records without
a version are of version 1: they were written before records had one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.untrusted_json import UnreadableJsonError, read_object, whole

T = TypeVar("T")
VERSION: Final = 1
MEMBER: Final = "version"


class NewerRecordError(UnreadableJsonError):
    """The record is of a later version than this controller reads: it is left to the controller that wrote it."""


def read_versioned(text: str) -> dict[str, Any]:
    """Parse the members of a record, without its version. Raises NewerRecordError and UnreadableJsonError."""
    members = read_object(text)
    version = whole(members.pop(MEMBER, VERSION), 1)
    if version > VERSION:
        raise NewerRecordError(f"is of version {version}; this controller reads up to {VERSION}")
    return members


def read_annotation(node: Node, key: str, parse: Callable[[str], T]) -> T | None:
    """Return the record in an annotation of a node; None without one that can be read."""
    text = node.annotations.get(key)
    try:
        return None if text is None else parse(text)
    except UnreadableJsonError:
        return None


def write_versioned(members: Mapping[str, Any], unknown: Mapping[str, Any]) -> str:
    """Return the record's text, with the members that another version added."""
    return json.dumps({**unknown, **members, MEMBER: VERSION}, sort_keys=True)


def unknown_members(members: Mapping[str, Any], known: Collection[str]) -> FrozenMap[str, Any]:
    """Return members that another version added, to be kept when the record is written again."""
    return FrozenMap({name: value for name, value in members.items() if name not in known})
