"""The form of records that outlive the process: JSON objects with a version, read by older and newer controllers.

While a new controller replaces an old one, or is rolled back, each reads what the other wrote. Within a version members
are only ever added: a reader ignores those that it does not know, and a record that is read and written again keeps
them. What changes the meaning of a member needs the next version, which older controllers do not read. Records without
a version are of version 1: they were written before records had one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.untrusted_json import UnreadableJsonError, read_object, whole

VERSION: Final = 1
MEMBER: Final = "version"


class Versioned(Protocol):
    """A record: a frozen dataclass with the members that another version of the controller added."""

    @property
    def unknown(self) -> FrozenMap[str, Any]:
        """Kept when the record is written again."""


T = TypeVar("T")
R = TypeVar("R", bound=Versioned)


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
    return json.dumps({**unknown, **members, MEMBER: VERSION}, sort_keys=True, default=sorted)


class RecordFormat(Generic[R]):
    """How the records of one class are written to JSON and parsed.

    `members`: by the class's field, its name in JSON and the function that checks its decoded value.
    """

    def __init__(self, make: Callable[..., R], members: Mapping[str, tuple[str, Callable[[Any], object]]]) -> None:
        self._make, self._members = make, members

    def write(self, record: R) -> str:
        """Return the record as JSON, with the members that another version added; sets become sorted lists."""
        members = {name: getattr(record, attribute) for attribute, (name, _) in self._members.items()}
        return write_versioned(members, record.unknown)

    def parse(self, text: str) -> R:
        """Parse a record. Raises UnreadableJsonError."""
        members = read_versioned(text)
        try:
            values = {attribute: check(members[name]) for attribute, (name, check) in self._members.items()}
        except (TypeError, KeyError) as error:
            raise UnreadableJsonError(f"has no valid members: {type(error).__name__}: {error}") from None
        known = {name for name, _ in self._members.values()}
        return self._make(**values, unknown=unknown_members(members, known))


def unknown_members(members: Mapping[str, Any], known: Collection[str]) -> FrozenMap[str, Any]:
    """Return members that another version added, to be kept when the record is written again."""
    return FrozenMap({name: value for name, value in members.items() if name not in known})
