"""The clock of everything outside the core, which takes `now` as an argument instead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

import structlog

CLOSE_SECONDS: Final = 2.0
"""Smaller differences between two clocks are ignored: HTTP dates are whole seconds, and answers take time."""


class Clock(Protocol):
    """Wall and monotonic time, and an interruptible wait. Tests and simulations use a manual one."""

    def now(self) -> float:
        """Return Unix time in seconds."""

    def monotonic(self) -> float:
        """Return the seconds from an arbitrary start that never goes back."""

    def processor(self) -> float:
        """Return the processor time of the calling thread, in seconds from an arbitrary start."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set (True) or `seconds` passed (False)."""


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def processor(self) -> float:
        return time.thread_time()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


class ServerClock(SystemClock):
    """The machine's clock, corrected by its offset from the API server's.

    Ages and deadlines are computed from timestamps in objects, which are the server's: on a machine whose clock is ten
    minutes fast, nodes would expire ten minutes early.
    """

    def __init__(self, local: Callable[[], float] | None = None) -> None:
        """`local`: Unix time in seconds, instead of the machine's."""
        self._local = local or super().now
        self._offset_seconds = 0.0
        self._log = structlog.get_logger("clock")

    def now(self) -> float:
        return self._local() + self._offset_seconds

    def compare(self, server_time: float, took_seconds: float) -> None:
        """Compare with the server's time in an answer, in whole seconds (rounded down), that took `took_seconds`."""
        if took_seconds > CLOSE_SECONDS / 2:
            return  # too slow to compare: the answer may be that old
        offset_seconds = server_time + 0.5 - (self._local() - took_seconds / 2)
        if abs(offset_seconds - self._offset_seconds) <= CLOSE_SECONDS:
            return
        self._offset_seconds = offset_seconds if abs(offset_seconds) > CLOSE_SECONDS else 0.0
        if self._offset_seconds:
            text = "This machine's clock differs from the API server's, which is used"
            self._log.warning(text, behind_seconds=round(self._offset_seconds, 1))
        else:
            self._log.info("This machine's clock agrees with the API server's again")
