"""What a person would see, as text."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console, RenderableType


def drawn(what: RenderableType, width: int) -> str:
    """As a terminal of so many columns shows it, without colours and the blanks at the end of lines."""
    return capture(lambda console: console.print(what), width)


def capture(show: Callable[[Console], None], width: int) -> str:
    """What `show` prints on such a terminal."""
    console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False)
    show(console)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"
