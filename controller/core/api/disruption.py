"""When nodes of a pool may be removed voluntarily, and how many at once. Read by a front end (core.api.front_end).

Disruption budgets have the members of NodePool's `spec.disruption.budgets` in later Karpenter versions
(https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets), written as a JSON list: `nodes` (a count,
or a percentage of the pool's nodes, rounded up), and optionally `reasons`, and `schedule` (five cron fields, UTC) with
`duration`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from controller.core.api.duration import duration_seconds
from controller.core.untrusted_json import UnreadableJsonError, read_json

REASONS: Final = ("expired", "drifted", "empty", "underutilized")
"""Reasons of removals, as budgets name them."""
_MAX_DURATION_SECONDS: Final = 7 * 86_400.0
_MAX_WINDOW_SECONDS: Final = 366 * 86_400.0
_MAX_DIGITS: Final = 19
_MEMBERS: Final = frozenset({"nodes", "reasons", "schedule", "duration"})
_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Five cron fields as sets: minutes, hours, days of the month, months, days of the week (0 is Sunday)."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Both day fields are restricted: a day then has to match one of them (cron's rule)."""

    def on(self, day: datetime) -> bool:
        """Return whether the schedule starts at some time of that day."""
        by_date, by_week = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        return day.month in self.months and (by_date or by_week if self.either_day else by_date and by_week)


@dataclass(frozen=True, slots=True)
class Window:
    """Recurring periods: each lasts `duration_seconds` from a start of the schedule on."""

    schedule: Schedule
    duration_seconds: float

    def active(self, now: float) -> bool:
        """Return whether `now` (Unix seconds) lies in one of the periods."""
        moment = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0)
        earliest = datetime.fromtimestamp(now - self.duration_seconds, UTC)
        times = [(hour, minute) for hour in self.schedule.hours for minute in self.schedule.minutes]
        day = moment.replace(hour=0, minute=0)
        while day + timedelta(days=1) > earliest:
            starts = (day.replace(hour=hour, minute=minute) for hour, minute in times)
            if self.schedule.on(day) and any(earliest < start <= moment for start in starts):
                return True
            day -= timedelta(days=1)
        return False


@dataclass(frozen=True, slots=True)
class Budget:
    """`count` nodes, or a `share` of them (0 to 1). Empty `reasons`: all. Without a window it is always active."""

    count: int | None
    share: float
    reasons: frozenset[str] = frozenset()
    window: Window | None = None

    def allows(self, nodes: int) -> int:
        """Return how many nodes of `nodes` the budget allows to leave."""
        return self.count if self.count is not None else -int(-self.share * nodes // 1)

    def active(self, now: float) -> bool:
        """Return whether the budget counts at `now` (Unix seconds)."""
        return self.window is None or self.window.active(now)


@dataclass(frozen=True, slots=True)
class DisruptionPolicy:
    """A pool's rules for voluntary removals of its nodes. None: not set."""

    empty_after_seconds: int | None = None
    """A node without pods is removed after so long; None: never for being empty alone."""
    expire_after_seconds: int | None = None
    """A node of this age is replaced; None: never for its age."""
    consolidation: bool = False
    """Nodes are removed or replaced where that saves money."""
    consolidation_threshold: float | None = None
    """The least score of a consolidation, 0 or more (deprovisioning/worth.py); None: the default."""
    budgets: tuple[Budget, ...] | None = None
    """Disruption budgets; None: the setting `disruptionBudgets` holds."""
    budgets_problem: str = ""
    """Why the budgets cannot be read: then no node may be removed."""
    drain_seconds: float | None = None
    """How long a node may drain. None: the setting `terminationGracePeriod` holds; infinite: as long as it takes."""
    replace_at_risk: bool = False
    """A node whose instance EC2 recommends to rebalance is replaced."""


def parse_budgets(text: str) -> tuple[Budget, ...]:
    """Parse a JSON list of budgets. Raises ValueError with every wrong entry, what is wrong and what to write."""
    try:
        entries = read_json(text)
    except UnreadableJsonError:
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError('is not a JSON list of objects: write [{"nodes": "10%"}], say')
    problems: list[str] = []
    budgets: list[Budget] = []
    for index, entry in enumerate(entries):
        try:
            budgets.append(_budget(entry))
        except ValueError as error:
            problems.append(f"[{index}]{error}")
    if problems:
        raise ValueError(" | ".join(problems))
    return tuple(budgets)


def _budget(entry: dict[str, Any]) -> Budget:
    if unknown := sorted(set(entry) - _MEMBERS):
        raise ValueError(f": unknown member {', '.join(unknown)}; known are {', '.join(sorted(_MEMBERS))}")
    count, share = _nodes(entry.get("nodes"))
    reasons = entry.get("reasons") or []
    wanted = frozenset(str(each).lower() for each in reasons) if isinstance(reasons, list) else frozenset({"?"})
    if wanted - set(REASONS):
        raise ValueError(f".reasons: {reasons!r} is not a list of {', '.join(REASONS)}")
    try:
        window = parse_window(entry)
    except ValueError as error:
        raise ValueError(f".{error}") from None
    if window is not None and window.duration_seconds > _MAX_DURATION_SECONDS:
        raise ValueError(f".duration: {entry['duration']!r} is above 168h")
    return Budget(count, share, wanted, window)


def parse_window(entry: Mapping[str, Any]) -> Window | None:
    """Parse the window of a JSON object's `schedule` and `duration`; None without both. Raises ValueError."""
    if ("schedule" in entry) != ("duration" in entry):
        raise ValueError("schedule and duration go together; set both or neither")
    if "schedule" not in entry:
        return None
    try:
        schedule, seconds = parse_schedule(str(entry["schedule"])), duration_seconds(str(entry["duration"]))
    except ValueError as error:
        raise ValueError(f"schedule, duration: {error}") from None
    if seconds < 60:
        raise ValueError(f"duration {entry['duration']!r} is below 1m")
    if seconds > _MAX_WINDOW_SECONDS:
        raise ValueError(f"duration {entry['duration']!r} is above 8784h, a year")
    return Window(schedule, seconds)


def _nodes(value: object) -> tuple[int | None, float]:
    text = str(value)
    if len(text) > _MAX_DIGITS:
        raise ValueError(f'.nodes: {text[:_MAX_DIGITS]}... is too long: write "2" or "10%"')
    if text.isascii() and text.isdecimal():
        return int(text), 0.0
    number = text.removesuffix("%")
    if text.endswith("%") and number.isascii() and number.isdecimal() and int(number) <= 100:
        return None, int(number) / 100
    raise ValueError(f'.nodes: {value!r} is neither a count nor a percentage: write "2" or "10%"')


def parse_schedule(text: str) -> Schedule:
    """Parse five cron fields (numbers, names, `*`, ranges, lists, steps) or a macro such as @daily; or ValueError."""
    fields = _MACROS.get(text.strip(), text).lower().split()
    if len(fields) != 5:
        raise ValueError(f'{text!r} is not a schedule of five cron fields: write "0 22 * * mon-fri", say')
    days = _field(fields[4], 0, 7, _DAYS, 0)
    return Schedule(
        minutes=_field(fields[0], 0, 59),
        hours=_field(fields[1], 0, 23),
        days=_field(fields[2], 1, 31),
        months=_field(fields[3], 1, 12, _MONTHS, 1),
        weekdays=frozenset(day % 7 for day in days),
        either_day=not fields[2].startswith("*") and not fields[4].startswith("*"),
    )


def _field(text: str, least: int, most: int, names: tuple[str, ...] = (), first: int = 0) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        step = _number(step_text, 1, most, (), 0) if slash else 1
        if span == "*":
            low, high = least, most
        else:
            start, dash, end = span.partition("-")
            low = _number(start, least, most, names, first)
            high = _number(end, least, most, names, first) if dash else (most if slash else low)
        if low > high:
            raise ValueError(f"{part!r} runs backwards")
        values.update(range(low, high + 1, step))
    return frozenset(values)


def _number(text: str, least: int, most: int, names: tuple[str, ...], first: int) -> int:
    if text in names:
        return names.index(text) + first
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and least <= int(text) <= most):
        raise ValueError(f"{text!r} is not a number from {least} to {most}")
    return int(text)
