"""Single keys from a terminal, without waiting for Enter."""

from __future__ import annotations

import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Read = Callable[[float], str]
"""Wait so many seconds for a key; empty when none came."""


@contextmanager
def keyboard() -> Iterator[Read]:
    """The keys of standard input while this lasts; where it is no terminal, none ever comes."""
    if not sys.stdin.isatty():
        yield _wait
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield _key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _key(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], max(0.0, seconds))
    return sys.stdin.read(1) if ready else ""


def _wait(seconds: float) -> str:
    select.select([], [], [], max(0.0, seconds))
    return ""
