"""Log a recurring failure once at its onset and once at its recovery, however many callers meet it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field

import structlog

from controller.runtime.clock import Clock

FORGET_SECONDS = 600.0
"""A failure that does not recur for this long is forgotten without logging a recovery: its callers may be gone."""


@dataclass(frozen=True, slots=True)
class Words:
    """The messages at the onset and at the recovery of a failure, and the level of the first."""

    begins: str
    ends: str
    level: str = "error"


@dataclass(slots=True)
class _Failure:
    words: Words
    began: float
    last: float
    count: int = 0
    failing: set[Hashable] = field(default_factory=set)
    """Whose calls fail now."""
    affected: set[str] = field(default_factory=set)
    """Whose calls failed at any time of the failure."""


class FailureLog:
    """Unrecovered failures and whom each affects. Thread-safe."""

    def __init__(self, clock: Clock, log_name: str, affected_field: str = "") -> None:
        """`affected_field`: the recovery's field that names all who were affected; empty: it names nobody."""
        self._clock, self._affected_field = clock, affected_field
        self._log = structlog.get_logger(log_name)
        self._lock = threading.Lock()
        self._open: dict[Hashable, _Failure] = {}

    def failed(self, who: Hashable, what: Hashable, words: Words, error: Exception, **fields: object) -> None:
        """Note that `who` met the failure `what`; the first time is logged at its level, the others for debugging."""
        now = self._clock.monotonic()
        with self._lock:
            self._open = {key: each for key, each in self._open.items() if now - each.last <= FORGET_SECONDS}
            first = what not in self._open
            failure = self._open.setdefault(what, _Failure(words, now, now))
            failure.last, failure.count = now, failure.count + 1
            failure.failing.add(who)
            failure.affected.add(str(who))
        say = getattr(self._log, words.level) if first else self._log.debug
        say(words.begins, error=f"{type(error).__name__}: {error}", **fields)

    def recovered(self, who: Hashable, *, but: Collection[Hashable] = (), **fields: object) -> None:
        """Note that `who` met none of its failures again, except those in `but`.

        A failure ends when it affects no caller any more: its duration and its number of occurrences are logged. Those
        with the same words that end together are one line.
        """
        if not self._open:
            return
        ended: dict[Words, list[_Failure]] = {}
        with self._lock:
            for what in [key for key in self._open if key not in but]:
                self._open[what].failing.discard(who)
                if not self._open[what].failing:
                    failure = self._open.pop(what)
                    ended.setdefault(failure.words, []).append(failure)
        for words, failures in ended.items():
            seconds = self._clock.monotonic() - min(each.began for each in failures)
            count = sum(each.count for each in failures)
            if self._affected_field:
                fields[self._affected_field] = sorted(set().union(*(each.affected for each in failures)))
            self._log.info(words.ends, after_seconds=round(seconds, 1), failures=count, **fields)

    def current(self) -> tuple[Hashable, ...]:
        """Return the failures that somebody meets, in the order of their onset."""
        with self._lock:
            return tuple(self._open)
