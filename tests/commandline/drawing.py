"""What a person would see, as text."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def drawn(what: RenderableType, width: int) -> str:
    """As a terminal of so many columns shows it, without colours and the blanks at the end of lines."""
    console = Console(file=io.StringIO(), width=width, no_color=True)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"
