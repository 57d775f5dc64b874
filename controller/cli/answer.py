"""An answer: a verdict in a sentence, facts, and sections of reasons. Printed for people, or as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from controller.cli import output


@dataclass(frozen=True, slots=True)
class Section:
    """Reasons under a title."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a user asked about. `facts` by name, in order; empty ones are left out."""

    subject: str
    verdict: str
    facts: Mapping[str, str]
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "facts": {name: value for name, value in self.facts.items() if value},
            "reasons": {each.title: list(each.lines) for each in self.sections if each.lines},
            "notes": list(self.notes),
        }


def give(answer: Answer, form: str) -> None:
    """Print it in the form that was asked for."""
    if form != "table":
        output.structured(answer.document(), form)
        return
    show(answer, output.console())


def show(answer: Answer, console: Console) -> None:
    """Print it for a person."""
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
