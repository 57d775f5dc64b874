"""Results of checks: ok, warning, problem or unknown, each with a remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.cli.formatting import count
from controller.errors import NodelessError


class Level(Enum):
    """Level of a finding; its value is the word that is shown."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


MOST_FOR_SUBJECT = 0.4
"""Of the width: on a narrow terminal long subjects take two lines, so that there is room for the text."""
STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red", Level.UNKNOWN: "dim"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One result; `remedy` may be empty."""

    level: Level
    subject: str
    text: str
    remedy: str = ""

    def document(self) -> dict[str, str]:
        members = {"level": self.level.value, "subject": self.subject, "text": self.text, "remedy": self.remedy}
        return {key: value for key, value in members.items() if value}


Check = Callable[[], Iterable[Finding]]


def ok(subject: str, text: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(Level.OK, subject, text)


def warning(subject: str, text: str, remedy: str = "") -> Finding:
    """Return a finding about something that works, but may surprise."""
    return Finding(Level.WARNING, subject, text, remedy)


def problem(subject: str, text: str, remedy: str = "") -> Finding:
    """Return a finding about something that does not work."""
    return Finding(Level.PROBLEM, subject, text, remedy)


def unknown(subject: str, text: str) -> Finding:
    """Return a finding about something that could not be checked."""
    return Finding(Level.UNKNOWN, subject, text)


def collect(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """Run all checks; one that fails becomes an `unknown` finding."""
    for subject, check in checks:
        try:
            yield from check()
        except NodelessError as error:
            yield unknown(subject, f"cannot be checked: {error}")


def document(findings: Iterable[Finding]) -> dict[str, Any]:
    findings = tuple(findings)
    counted = {level.value: sum(each.level is level for each in findings) for level in Level}
    return {"summary": counted, "findings": [each.document() for each in findings]}


def show(findings: Iterable[Finding], console: Console) -> None:
    findings = tuple(findings)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(max_width=int(console.width * MOST_FOR_SUBJECT), overflow="fold")
    table.add_column(overflow="fold")
    for each in findings:
        text = Text(each.text)
        if each.remedy:
            text.append(f"\n→ {each.remedy}", style="italic")
        table.add_row(Text(each.level.value, style=STYLES[each.level]), Text(each.subject), text)
    console.print(table)
    counted = Counter(each.level for each in findings)
    summary = [
        count(number, level.value) if level in (Level.WARNING, Level.PROBLEM) else f"{number} {level.value}"
        for level in Level
        if (number := counted[level])
    ]
    console.print(Text(f"\n{', '.join(summary)}", style="bold"))
