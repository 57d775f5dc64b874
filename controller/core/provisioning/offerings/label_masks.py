"""Evaluate requirements on many rows: once per distinct label value, then by array look-up.

A row is a node option or an existing node. Its label value for a key is what the label is or may become: one value, no
label, or a set of values if the Provisioner leaves the label open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import numpy as np

from controller.core.provisioning.resource_space import Bools, Ints
from controller.core.scheduling.requirements import Requirement

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")

LabelValue = Requirement | str | None
"""A known value, the set of values still possible, or None: no label."""


def value_accepts(value: LabelValue, requirement: Requirement) -> bool:
    """Return whether a node with this label value, or able to get it, satisfies the requirement."""
    if value is None or isinstance(value, str):
        return requirement.accepts(value)
    return requirement.intersection(value).satisfiable


def settle(requirement: Requirement) -> LabelValue:
    """Simplify a requirement to a label value: its only value, or None if it requires the label's absence."""
    if not requirement.complement and not requirement.contradiction:
        if not requirement.values:
            return None
        if len(requirement.values) == 1:
            return next(iter(requirement.values))
    return requirement


class BoundedCache(dict[T, V]):
    """A cache that drops all its entries before it would have more than `most` (infinite: no limit)."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: T, value: V) -> None:
        if len(self) >= self._most:
            self.clear()
        super().__setitem__(key, value)


class LabelColumns:
    """Label values of `rows` rows by key, read on demand from `values_of(key)`, and cached answers to requirements."""

    def __init__(self, rows: int, values_of: Callable[[str], Sequence[LabelValue]], most: float = math.inf) -> None:
        """`most`: columns and answers that are cached."""
        self._rows = rows
        self._values_of = values_of
        self._columns: BoundedCache[str, tuple[Ints, list[LabelValue]]] = BoundedCache(most)
        self._answers: BoundedCache[Requirement, Bools] = BoundedCache(most)

    def column(self, key: str) -> tuple[Ints, list[LabelValue]]:
        """Return a code per row, and the label value of each code."""
        if (column := self._columns.get(key)) is None:
            column = self._columns[key] = encode(self._values_of(key))
        return column

    def accepts(self, requirement: Requirement) -> Bools:
        """Return for each row whether it satisfies the requirement. Shared: do not change it."""
        if (answer := self._answers.get(requirement)) is None:
            codes, values = self.column(requirement.key)
            table = np.fromiter((value_accepts(value, requirement) for value in values), np.bool_, len(values))
            answer = table[codes] if self._rows else np.zeros(0, np.bool_)
            self._answers[requirement] = answer
        return answer


def encode(values: Sequence[T]) -> tuple[Ints, list[T]]:
    """Replace values by codes, numbered in order of first appearance; the codes, and the distinct values."""
    index: dict[T, int] = {}
    codes = np.fromiter((index.setdefault(value, len(index)) for value in values), np.int64, len(values))
    return codes, list(index)
