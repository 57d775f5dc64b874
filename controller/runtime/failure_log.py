"""Log a recurring failure once at its onset and once at its recovery, however many callers meet it."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass

import structlog

from controller.runtime.clock import Clock

FORGET_SECONDS = 600.0
"""A failure that does not recur for this long is forgotten without logging a recovery: its callers may be gone."""


@dataclass(slots=True)
class _Failure:
    began: float
    last: float
    count: int = 0


class FailureLog:
    """Unrecovered failures by subject and sort. Thread-safe."""

    def __init__(self, clock: Clock, log_name: str) -> None:
        self._clock = clock
        self._log = structlog.get_logger(log_name)
        self._lock = threading.Lock()
        self._open: dict[tuple[Hashable, Hashable], _Failure] = {}

    def failed(self, subject: Hashable, sort: Hashable, message: str, error: Exception, **fields: object) -> None:
        """Note that `subject` failed in this way; the first time is logged as an error, the others for debugging."""
        now = self._clock.monotonic()
        with self._lock:
            self._open = {key: each for key, each in self._open.items() if now - each.last <= FORGET_SECONDS}
            first = (subject, sort) not in self._open
            failure = self._open.setdefault((subject, sort), _Failure(now, now))
            failure.last, failure.count = now, failure.count + 1
        (self._log.error if first else self._log.debug)(message, error=f"{type(error).__name__}: {error}", **fields)

    def recovered(self, subject: Hashable, message: str, **fields: object) -> None:
        """Log that `subject` works again, and for how long and how often it failed; nothing if it did not fail."""
        if not self._open:
            return
        with self._lock:
            ended = [self._open.pop(key) for key in list(self._open) if key[0] == subject]
        if ended:
            seconds = self._clock.monotonic() - min(failure.began for failure in ended)
            count = sum(failure.count for failure in ended)
            self._log.info(message, after_seconds=round(seconds, 1), failures=count, **fields)
