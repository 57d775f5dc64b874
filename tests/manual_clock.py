"""A clock that tests turn by hand."""

from __future__ import annotations

import threading


class ManualClock:
    """Wall and monotonic time advance together, by `advance` or by whoever waits: waits take no real time.

    Waits of several threads overlap, as they do on a real clock: each moves the time to its own end, not past it.
    """

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._lock = threading.Lock()
        self.waits: list[float] = []
        """Every wait that was asked for, in seconds."""

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self._now += seconds

    def now(self) -> float:
        """Unix time in seconds."""
        return self._now

    def monotonic(self) -> float:
        """The same time: a monotonic clock's start is arbitrary."""
        return self._now

    def processor(self) -> float:
        """The same time: whatever takes time is work of the calling thread."""
        return self._now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Time passes at once, unless the event is set."""
        end = self._now + seconds
        self.waits.append(seconds)
        if event.is_set():
            return True
        with self._lock:
            self._now = max(self._now, end)
        return event.is_set()
