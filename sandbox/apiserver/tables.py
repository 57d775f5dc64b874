"""Tables: the columns that `kubectl get` prints, for built-in kinds and by a CRD's additionalPrinterColumns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sandbox.apiserver.api import API
from sandbox.apiserver.resources import Resource

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its definition and how a cell is read from an object. `priority` above 0 shows only with -o wide."""

    name: str
    type: str
    cell: Callable[[Obj, datetime], Any]
    priority: int = 0
    format: str = ""
    description: str = ""

    def definition(self) -> dict[str, Any]:
        """`metav1.TableColumnDefinition`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def _path(*keys: str) -> Callable[[Obj, datetime], Any]:
    def cell(obj: Obj, _: datetime) -> Any:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    return cell


def age(timestamp: Any, now: datetime) -> str:
    """A duration as kubectl prints it (k8s.io/apimachinery/pkg/util/duration HumanDuration)."""
    if not isinstance(timestamp, str):
        return "<unknown>"
    try:
        then = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    except ValueError:
        return "<unknown>"
    seconds = int((now.astimezone(UTC) - then).total_seconds())
    if seconds < -1:
        return "<invalid>"
    return human_duration(max(seconds, 0))


def human_duration(seconds: int) -> str:
    """Seconds in at most two units: 119s, 3m5s, 5h20m, 3d4h, 2y30d."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(first: int, unit: str, second: int, second_unit: str) -> str:
    return f"{first}{unit}{second}{second_unit}" if second else f"{first}{unit}"


NAME = Column(
    "Name", "string", _path("metadata", "name"), format="name", description="Name must be unique within a namespace."
)
AGE = Column(
    "Age",
    "string",
    lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now),
    description="CreationTimestamp of the object.",
)
CREATED = Column("Created At", "date", _path("metadata", "creationTimestamp"))


def columns_of(api: API, resource: Resource) -> list[Column]:
    """The columns of a type: a CRD's, ours for the built-in kind, else name and age."""
    custom = api.custom_type(resource)
    if custom is not None:
        extra = [custom_column(column) for column in custom.columns]
        return [
            NAME,
            *(
                extra
                or [
                    Column(
                        "Age",
                        "date",
                        custom_column({"jsonPath": ".metadata.creationTimestamp", "type": "date", "name": "Age"}).cell,
                    )
                ]
            ),
        ]
    return [NAME, AGE]


def table_row(columns: list[Column], obj: Obj, now: datetime) -> list[Any]:
    """The cells of one row."""
    return [column.cell(obj, now) for column in columns]


def custom_column(column: dict[str, Any]) -> Column:
    """A column of `additionalPrinterColumns`; its path is the simple form of JSONPath that CRDs use."""
    keys = [key for key in column["jsonPath"].replace("\\.", "\0").lstrip(".").split(".") if key]
    kind = column["type"]
    read = _path(*(key.replace("\0", ".") for key in keys))

    def cell(obj: Obj, now: datetime) -> Any:
        value = read(obj, now)
        if value is None:
            return "" if kind == "date" else None
        if kind == "date":
            return age(value, now)
        return value if kind in ("integer", "number", "boolean") else str(value)

    return Column(
        column["name"], kind, cell, column.get("priority", 0), column.get("format", ""), column.get("description", "")
    )
