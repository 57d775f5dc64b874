"""Tables: the columns of a type, built in or declared by a CRD's additionalPrinterColumns."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from sandbox.apiserver.api import API
from sandbox.apiserver.kinds.resources import Resource
from sandbox.apiserver.tables.columns import AGE, NAME, Cell, Column, Obj, age
from sandbox.apiserver.tables.printers import COLUMNS

_STEP = re.compile(r"\.((?:\\.|[^.\[\]\\])+)|\[(\d+|\*)\]|\[\?\(@\.(\w+)==['\"]([^'\"]*)['\"]\)\]|\['([^']+)'\]")


def columns_of(api: API, resource: Resource) -> list[Column]:
    """The columns of a type: a CRD's, those of a built-in kind, else name and age."""
    custom = api.custom_type(resource)
    if custom is None:
        return COLUMNS.get(resource.storage_key, [NAME, AGE])
    declared = custom.columns or ({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},)
    return [NAME, *(_declared(column) for column in declared)]


def table_row(columns: list[Column], obj: Obj, now: datetime) -> list[Any]:
    """The cells of one row."""
    return [column.cell(obj, now) for column in columns]


def _declared(column: dict[str, Any]) -> Column:
    return Column(
        name=column["name"],
        cell=_cell(column["jsonPath"], column["type"]),
        type=column["type"],
        priority=column.get("priority", 0),
        format=column.get("format", ""),
        description=column.get("description", ""),
    )


def _cell(path: str, kind: str) -> Cell:
    steps = [match.groups() for match in _STEP.finditer(path)]

    def cell(obj: Obj, now: datetime) -> Any:
        found = _find([obj], steps)
        if not found or found[0] is None:
            return None
        if kind == "date":
            return age(found[0], now)
        if kind in ("integer", "number", "boolean"):
            return found[0]
        return ",".join(_text(value) for value in found)

    return cell


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _find(values: list[Any], steps: list[tuple[str | None, ...]]) -> list[Any]:
    """The values that a simple JSONPath leads to: fields, indices, `[*]`, and filters on equality."""
    for name, index, key, wanted, quoted in steps:
        following: list[Any] = []
        for value in values:
            if (field := name or quoted) is not None:
                if isinstance(value, dict) and (plain := field.replace("\\", "")) in value:
                    following.append(value[plain])
            elif not isinstance(value, list):
                continue
            elif key is not None:
                following += [
                    element for element in value if isinstance(element, dict) and str(element.get(key)) == wanted
                ]
            elif index == "*":
                following += value
            elif index is not None and int(index) < len(value):
                following.append(value[int(index)])
        values = following
    return values
