"""What a column of a Table is, and how ages and fields become cells (k8s.io/cli-runtime and pkg/printers)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Obj = dict[str, Any]
Cell = Callable[[Obj, datetime], Any]

WIDE = 1
"""Priority of columns that show only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its definition and how a cell is read from an object."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def definition(self) -> dict[str, Any]:
        """`metav1.TableColumnDefinition`."""
        return {
            "name": self.name, "type": self.type, "format": self.format,
            "description": self.description or self.name, "priority": self.priority,
        }  # fmt: skip


def field(path: str, default: Any = None) -> Cell:
    """The value at a dotted path; `default` when it is absent or null."""
    keys = path.split(".")

    def cell(obj: Obj, _: datetime) -> Any:
        value = value_at(obj, keys)
        return default if value is None else value

    return cell


def value_at(obj: Any, keys: list[str]) -> Any:
    """The value under a chain of keys, or None."""
    for key in keys:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


def age(timestamp: Any, now: datetime) -> str:
    """The time since a timestamp as kubectl prints it."""
    if not isinstance(timestamp, str):
        return "<unknown>"
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<unknown>"
    seconds = int((now.astimezone(UTC) - then).total_seconds())
    return "<invalid>" if seconds < -1 else human_duration(max(seconds, 0))


def human_duration(seconds: int) -> str:
    """Seconds in at most two units: 119s, 3m5s, 5h20m, 3d4h, 2y30d (duration.HumanDuration)."""
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


NAME = Column("Name", field("metadata.name"), format="name", description="Name must be unique within a namespace.")
AGE = Column("Age", lambda obj, now: age(obj["metadata"].get("creationTimestamp"), now))
CREATED = Column("Created At", field("metadata.creationTimestamp"), type="date")
