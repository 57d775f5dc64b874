"""Strict reading of users' objects: every wrong type, unknown field and value out of range is a Problem.

Reading goes on after a problem, with the field counted as absent, so that users see all of them at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, TypeVar

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.quantity import nanos
from controller.errors import Problem

T = TypeVar("T")

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1


class Report:
    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def add(self, path: str, message: str, remedy: str = "") -> None:
        self._problems.append(Problem(path, message, remedy))

    def refuse(self, path: str, error: ValueError) -> None:
        """Add a reader's error, whose text is "what is wrong: what to write"."""
        message, _, remedy = str(error).partition(": ")
        self.add(path, message, remedy)

    def read(self, path: str, text: str, reader: Callable[[str], T]) -> T | None:
        """Parse the text by `reader`; add a problem and return None if that raises ValueError or it is no string."""
        if not isinstance(text, str):
            self.add(path, f"must be a string, not {text!r}", "quote it")
            return None
        try:
            return reader(text)
        except ValueError as error:
            self.refuse(path, error)
            return None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems so far, without duplicates."""
        return tuple(dict.fromkeys(self._problems))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remedy: the nearest known name, or all of them when none is near."""
    names = sorted(known)
    by_case = {each.lower(): each for each in names}
    near = by_case.get(name.lower()) or next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.7)), "")
    return f"did you mean {near!r}?" if near else f"known: {', '.join(names)}"


def step(path: str, key: str) -> str:
    """Return the path of a map's entry: `labels.team`, or `labels["example.com/team"]` with dots or slashes."""
    if key.replace("_", "").replace("-", "").isalnum():
        return f"{path}.{key}" if path else key
    return f'{path}["{key}"]'


def kind_of(value: object) -> str:
    """Return a JSON value's type in words."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "an object" if isinstance(value, dict) else "null"


class Fields:
    """One object of a user's document, read by field. `known` are the fields it may have; null counts as absent."""

    def __init__(self, report: Report, value: object, path: str, known: Collection[str]) -> None:
        self.report = report
        self.path = path
        self._document: dict[str, Any] = value if isinstance(value, dict) else {}
        if value is not None and not isinstance(value, dict):
            report.add(path, f"must be an object, not {kind_of(value)}")
        for name in self._document:
            if name not in known:
                remedy = did_you_mean(name, known) if isinstance(name, str) else ""
                report.add(self.at(name), "unknown field", remedy)

    def at(self, name: str) -> str:
        return step(self.path, str(name))

    def problem(self, name: str, message: str, remedy: str = "") -> None:
        self.report.add(self.at(name), message, remedy)

    def has(self, name: str) -> bool:
        """Return whether the field is there and not null."""
        return self._document.get(name) is not None

    def raw(self, name: str) -> Any:
        """Return the field's value as decoded; None if it is absent."""
        return self._document.get(name)

    def child(self, name: str, known: Collection[str]) -> Fields:
        """Return an object inside this one; an absent one is empty."""
        return Fields(self.report, self.raw(name), self.at(name), known)

    def text(self, name: str, allowed: Collection[str] = ()) -> str | None:
        """Return a string, one of `allowed` if that is given."""
        value = self.raw(name)
        if value is None:
            return None
        if not self._is_string(self.at(name), value):
            return None
        if allowed and value not in allowed:
            self.problem(name, f"{value!r} is not supported", _one_of(value, allowed))
            return None
        return str(value)

    def integer(self, name: str, minimum: int = -MAX_INT64, maximum: int = MAX_INT64) -> int | None:
        """Return an integer within bounds, both included."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(name, f"must be an integer, not {value!r}")
            return None
        if not minimum <= value <= maximum:
            bounds = f"{minimum} or more" if maximum >= MAX_INT32 else f"from {minimum} to {maximum}"
            self.problem(name, f"{value} is out of range", f"it must be {bounds}")
            return None
        return value

    def boolean(self, name: str) -> bool | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, bool):
            self.problem(name, f"must be true or false, not {value!r}")
            return None
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        return tuple(value for path, value in self.members(name) if self._is_string(path, value))

    def _is_string(self, path: str, value: Any) -> bool:
        if not isinstance(value, str):
            self.report.add(path, f"must be a string, not {value!r}", _quote(value))
        return isinstance(value, str)

    def members(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield the members of a list, each with its path."""
        value = self.raw(name)
        if value is None:
            return
        if not isinstance(value, (list, tuple)):
            self.problem(name, f"must be a list, not {kind_of(value)}")
            return
        for index, member in enumerate(value):
            yield f"{self.at(name)}[{index}]", member

    def objects(self, name: str, known: Collection[str]) -> Iterator[Fields]:
        """Yield the members of a list that must be objects; others, null too, are problems."""
        for path, member in self.members(name):
            if isinstance(member, dict):
                yield Fields(self.report, member, path, known)
            else:
                self.report.add(path, f"must be an object, not {kind_of(member)}")

    def entries(self, name: str) -> Iterator[tuple[str, str, Any]]:
        """Yield the entries of a map: path, key, value."""
        value = self.raw(name)
        if value is None:
            return
        if not isinstance(value, dict):
            self.problem(name, f"must be a map, not {kind_of(value)}")
            return
        for key, member in value.items():
            yield step(self.at(name), str(key)), str(key), member

    def string_map(self, name: str) -> FrozenMap[str, str]:
        members = {key: value for path, key, value in self.entries(name) if self._is_string(path, value)}
        return FrozenMap(members) if members else EMPTY

    def quantities(self, name: str) -> dict[str, str | int | float]:
        """Return a map of quantities, as written; those that cannot be read are problems."""
        return {
            key: value for path, key, value in self.entries(name) if amount_nanos(self.report, path, value) is not None
        }


def amount_nanos(report: Report, path: str, value: Any) -> int | None:
    """Parse a quantity to nano-units; add a problem and return None if it is none."""
    try:
        return nanos(value)
    except ValueError as error:
        report.refuse(path, error)
    except TypeError:  # unhashable: the parser's cache cannot look it up
        report.add(path, f"must be a quantity, not {kind_of(value)}")
    return None


def _one_of(value: str, allowed: Collection[str]) -> str:
    near = did_you_mean(value, allowed)
    choices = f"use one of {', '.join(sorted(allowed))}"
    return f"{near} {choices}" if near.startswith("did") else choices


def _quote(value: object) -> str:
    if isinstance(value, bool):
        return f'quote it: "{str(value).lower()}"'
    return f'quote it: "{value}"' if isinstance(value, (int, float)) else ""
