"""Disruption budgets: how many nodes of a Provisioner may be on their way out at once, and when.

The annotation `karpenter.sh/disruption-budgets` on the Provisioner, or else the setting `disruptionBudgets`, is a JSON
list with the members of NodePool's `spec.disruption.budgets` in later Karpenter versions
(https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets): `nodes` (a count, or a percentage of the
Provisioner's nodes, rounded up), and optionally `reasons`, and `schedule` (five cron fields, UTC) with `duration`. The
strictest budget that is active and names the reason decides. If none names it, 10 % is allowed, as in those versions;
empty nodes have no such default. A budget that cannot be parsed allows nothing until it is corrected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from controller.core.api.duration import duration_seconds
from controller.core.api.provisioner import Provisioner

BUDGETS_ANNOTATION: Final = "karpenter.sh/disruption-budgets"
REASONS: Final = ("expired", "drifted", "empty", "underutilized")
DEFAULT_SHARE: Final = 0.10
_MAX_DURATION_SECONDS: Final = 7 * 86_400.0
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
        """Whether the schedule starts at some time of that day."""
        by_date, by_week = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        return day.month in self.months and (by_date or by_week if self.either_day else by_date and by_week)


@dataclass(frozen=True, slots=True)
class Budget:
    """`count` nodes, or a `share` of them (0 to 1). Empty `reasons`: all. Without a schedule it is always active."""

    count: int | None
    share: float
    reasons: frozenset[str] = frozenset()
    schedule: Schedule | None = None
    duration_seconds: float = 0.0

    def allows(self, nodes: int) -> int:
        """How many of that many nodes."""
        return self.count if self.count is not None else -int(-self.share * nodes // 1)

    def active(self, now: float) -> bool:
        """Whether `now` (Unix seconds) lies within `duration` after a start of the schedule."""
        if self.schedule is None:
            return True
        moment = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0)
        earliest = datetime.fromtimestamp(now - self.duration_seconds, UTC)
        day = moment.replace(hour=0, minute=0)
        while day + timedelta(days=1) > earliest:
            if self.schedule.on(day):
                starts = (
                    day.replace(hour=hour, minute=minute)
                    for hour in self.schedule.hours
                    for minute in self.schedule.minutes
                )
                if any(earliest < start <= moment for start in starts):
                    return True
            day -= timedelta(days=1)
        return False


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many nodes may leave at the same time; `because` names the rule that set it."""

    nodes: int
    because: str


def allowance(
    provisioner: Provisioner, reason: str, nodes: int, now: float, setting: tuple[Budget, ...] = ()
) -> Allowance:
    """How many of a Provisioner's `nodes` may leave for `reason` (one of REASONS) at `now`, those leaving included.

    `setting`: budgets of Provisioners without the annotation.
    """
    text = provisioner.object_annotations.get(BUDGETS_ANNOTATION)
    stated, where = setting, "setting disruptionBudgets"
    if text is not None:
        where = f"disruption budget of Provisioner {provisioner.name}"
        try:
            stated = parse_budgets(text)
        except ValueError as error:
            return Allowance(0, f"annotation {BUDGETS_ANNOTATION} of Provisioner {provisioner.name}: {error}")
    named = [entry for entry in stated if not entry.reasons or reason in entry.reasons]
    active = [entry.allows(nodes) for entry in named if entry.active(now)]
    if active:
        return Allowance(min(active), where)
    if named or reason == "empty":
        return Allowance(nodes, f"no disruption budget of Provisioner {provisioner.name} is active")
    default = Budget(None, DEFAULT_SHARE).allows(nodes)
    return Allowance(default, f"default disruption budget of 10 % (set {BUDGETS_ANNOTATION} to change it)")


def parse_budgets(text: str) -> tuple[Budget, ...]:
    """Parse a JSON list of budgets. Raises ValueError with every wrong entry, what is wrong and what to write."""
    try:
        entries = json.loads(text)
    except ValueError:
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
    if ("schedule" in entry) != ("duration" in entry):
        raise ValueError(": schedule and duration go together; set both or neither")
    if "schedule" not in entry:
        return Budget(count, share, wanted)
    try:
        duration = duration_seconds(str(entry["duration"]))
        schedule = parse_schedule(str(entry["schedule"]))
    except ValueError as error:
        raise ValueError(f".schedule, .duration: {error}") from None
    if not 60 <= duration <= _MAX_DURATION_SECONDS:
        raise ValueError(f".duration: {entry['duration']!r} is not between 1m and 168h")
    return Budget(count, share, wanted, schedule, duration)


def _nodes(value: object) -> tuple[int | None, float]:
    text = str(value)
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
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        raise ValueError(f"{text!r} is not a number from {least} to {most}")
    return int(text)
