"""Read data from AWS again when it is due; a read that fails is tried at the next call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from controller.errors import CloudError
from controller.runtime.clock import Clock

Read = Callable[[], int]
"""Reads one kind of data; returns how many entries there are. Raises CloudErrors."""


class RefreshSchedule:
    """Reads by name, each with its interval in seconds. Safe for many threads."""

    def __init__(
        self, clock: Clock, logger: structlog.typing.FilteringBoundLogger, reads: Mapping[str, tuple[Read, float]]
    ) -> None:
        self._clock = clock
        self._log = logger
        self._reads = dict(reads)
        self._due_at: dict[str, float] = {}
        self._failing: set[str] = set()
        self._lock = threading.Lock()

    def run_due(self) -> None:
        """Read what is due. A failure and its end are logged once each."""
        with self._lock:
            for what, (read, interval_seconds) in self._reads.items():
                if self._clock.monotonic() >= self._due_at.get(what, 0.0):
                    self._run(what, read, interval_seconds)

    def _run(self, what: str, read: Read, interval_seconds: float) -> None:
        try:
            count = read()
        except CloudError as error:
            if what not in self._failing:
                self._log.warning("Reading from AWS fails; the earlier content is used", what=what, error=str(error))
            self._failing.add(what)
            return
        self._due_at[what] = self._clock.monotonic() + interval_seconds
        if what in self._failing:
            self._failing.discard(what)
            self._log.info("Reading from AWS works again", what=what, count=count)
