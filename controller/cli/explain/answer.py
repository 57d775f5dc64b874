"""The answer of `explain`: a verdict, facts, and sections of reasons, as text or JSON values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """`facts` by name, in order; empty ones are not shown."""

    subject: str
    verdict: str
    facts: Mapping[str, str]
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "facts": {json_key(name): value for name, value in self.facts.items() if value},
            "reasons": {json_key(each.title): list(each.lines) for each in self.sections if each.lines},
            "notes": list(self.notes),
        }


def json_key(title: str) -> str:
    """Return a title as the key of JSON: "Why, and what would help" is whyAndWhatWouldHelp."""
    first, *more = (match[0] for match in re.finditer(r"[A-Za-z0-9]+", title))
    return first.lower() + "".join(word.capitalize() for word in more)


def show(answer: Answer, console: Console) -> None:
    console.print(Text.assemble((answer.subject, "bold"), ": ", answer.verdict))
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in answer.facts.items():
        if value:
            table.add_row(Text(name, style="dim"), Text(value))
    if table.row_count:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
    for section in answer.sections:
        if section.lines:
            console.print()
            console.print(Text(section.title, style="bold"))
            for line in section.lines:
                console.print(Padding(Text(line), (0, 0, 0, 2), expand=False))
    if answer.notes:
        console.print()
    for note in answer.notes:
        console.print(Text(f"Note: {note}", style="dim"))
