"""The shell's clock. The core never reads one: it takes `now` as an argument."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog

CLOSE_SECONDS: Final = 2.0
"""Clocks that differ by less are taken for the same: HTTP tells whole seconds, and answers take their time."""


class Clock(Protocol):
    """Wall and monotonic time, and an interruptible wait; tests pass one that they turn by hand."""

    def now(self) -> float:
        """Unix time in seconds."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never goes back."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set (True) or `seconds` passed (False)."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


class ServerClock(SystemClock):
    """The machine's clock, put right where the API server's differs.

    Ages and deadlines are counted from times in objects, and those are the server's: a machine that is ten minutes
    ahead would let nodes expire, and give up pods that still end, ten minutes too soon.
    """

    def __init__(self, local: Callable[[], float] | None = None) -> None:
        """`local`: the machine's Unix time in seconds, if it is not what it says itself."""
        self._local = local or super().now
        self._behind = 0.0
        self._log = structlog.get_logger("clock")

    def now(self) -> float:
        return self._local() + self._behind

    def told(self, server_time: float, took_seconds: float) -> None:
        """An answer that took so long said, in whole seconds (rounded down), what time it is at the server."""
        if took_seconds > CLOSE_SECONDS / 2:
            return  # nobody knows when in between it was said
        found = server_time + 0.5 - (self._local() - took_seconds / 2)
        if abs(found - self._behind) <= CLOSE_SECONDS:
            return
        self._behind = found if abs(found) > CLOSE_SECONDS else 0.0
        if self._behind:
            text = "This machine's clock is not the API server's, which counts"
            self._log.warning(text, behind_seconds=round(self._behind, 1))
        else:
            self._log.info("This machine's clock agrees with the API server's again")
