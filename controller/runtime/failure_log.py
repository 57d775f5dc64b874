"""What goes wrong again and again, said once when it begins and once when it ends, however many suffer from it."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass

import structlog

from controller.runtime.clock import Clock

FORGET_SECONDS = 600.0
"""A trouble that nobody met for so long is over without a word: whoever met it may be gone. Met again, it is news."""


@dataclass(slots=True)
class _Trouble:
    begun: float
    last: float
    failures: int = 0


class FailureLog:
    """Open troubles by what they are about. Safe for several threads."""

    def __init__(self, clock: Clock, log_name: str) -> None:
        self._clock = clock
        self._log = structlog.get_logger(log_name)
        self._lock = threading.Lock()
        self._open: dict[tuple[Hashable, Hashable], _Trouble] = {}

    def met(self, subject: Hashable, sort: Hashable, message: str, error: Exception, **fields: object) -> None:
        """Somebody met a trouble of this sort; the first says so, with the error of its meeting."""
        now = self._clock.monotonic()
        with self._lock:
            self._open = {key: held for key, held in self._open.items() if now - held.last <= FORGET_SECONDS}
            first = (subject, sort) not in self._open
            trouble = self._open.setdefault((subject, sort), _Trouble(now, now))
            trouble.last, trouble.failures = now, trouble.failures + 1
        (self._log.error if first else self._log.debug)(message, error=f"{type(error).__name__}: {error}", **fields)

    def over(self, subject: Hashable, message: str, **fields: object) -> None:
        """What the troubles of the subject prevented works again."""
        if not self._open:
            return
        with self._lock:
            ended = [self._open.pop(key) for key in list(self._open) if key[0] == subject]
        if ended:
            seconds = self._clock.monotonic() - min(trouble.begun for trouble in ended)
            failures = sum(trouble.failures for trouble in ended)
            self._log.info(message, after_seconds=round(seconds, 1), failures=failures, **fields)
