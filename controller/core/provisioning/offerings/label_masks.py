"""Label columns: "which of these rows satisfy that requirement" answered once per distinct value, then by array.

Rows are node options that a node could have (a Provisioner with an instance type) or nodes that exist. A row's cell
for a key is what its label is or may become: a single value, nothing, or, where the Provisioner leaves it open, a set.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from controller.core.provisioning.resource_space import Bools, Ints
from controller.core.scheduling.requirements import Requirement

T = TypeVar("T", bound=Hashable)

Cell = Requirement | str | None
"""A known value, a set of values still possible, or no label."""


def value_accepts(cell: Cell, requirement: Requirement) -> bool:
    """Whether a node with (or able to get) this label satisfies the requirement."""
    if cell is None or isinstance(cell, str):
        return requirement.accepts(cell)
    return requirement.intersection(cell).satisfiable


def settle(requirement: Requirement) -> Cell:
    """The simplest cell for a requirement: its only value, or None when it demands absence."""
    if not requirement.complement and not requirement.contradiction:
        if not requirement.values:
            return None
        if len(requirement.values) == 1:
            return next(iter(requirement.values))
    return requirement


class LabelColumns:
    """Cells by key, made on demand by `cells(key)`, and the answers to requirements, cached."""

    def __init__(self, rows: int, cells: Callable[[str], Sequence[Cell]], most: int | None = None) -> None:
        """`most`: so many columns, and answers, are kept at a time (None: all)."""
        self._rows = rows
        self._most = most
        self._cells = cells
        self._columns: dict[str, tuple[Ints, list[Cell]]] = {}
        self._answers: dict[Requirement, Bools] = {}

    def column(self, key: str) -> tuple[Ints, list[Cell]]:
        """A code per row, and the cell of each code."""
        column = self._columns.get(key)
        if column is None:
            self._make_room(self._columns)
            column = self._columns[key] = encode(self._cells(key))
        return column

    def accepts(self, requirement: Requirement) -> Bools:
        """Per row, whether it satisfies the requirement. The array is shared: don't change it."""
        answer = self._answers.get(requirement)
        if answer is None:
            codes, cells = self.column(requirement.key)
            table = np.fromiter((value_accepts(cell, requirement) for cell in cells), np.bool_, len(cells))
            answer = table[codes] if self._rows else np.zeros(0, np.bool_)
            self._make_room(self._answers)
            self._answers[requirement] = answer
        return answer

    def _make_room(self, held: dict[Any, Any]) -> None:
        if self._most is not None and len(held) >= self._most:
            held.clear()


def encode(values: Sequence[T]) -> tuple[Ints, list[T]]:
    """Codes of values in the order of first appearance, and the distinct values."""
    index: dict[T, int] = {}
    codes = np.fromiter((index.setdefault(value, len(index)) for value in values), np.int64, len(values))
    return codes, list(index)
