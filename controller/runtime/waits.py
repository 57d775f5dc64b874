"""What a leader waits for before it acts: one log line at its onset and its end, a gauge, and a line for /readyz."""

from __future__ import annotations

import threading

import structlog

from controller.runtime.clock import Clock
from controller.runtime.metrics import LEADER_WAITING, Recorder


class Waits:
    """Open waits by name. Thread-safe."""

    def __init__(self, clock: Clock, recorder: Recorder) -> None:
        self._clock, self._recorder = clock, recorder
        self._log = structlog.get_logger("waits")
        self._lock = threading.Lock()
        self._open: dict[str, tuple[float, str]] = {}
        """By name: since when (monotonic seconds), and for what."""

    def note(self, name: str, what: str) -> None:
        """Note that the wait `name` is for `what`; empty: for nothing any more."""
        with self._lock:
            since, before = self._open.get(name, (self._clock.monotonic(), ""))
            if what == before:
                return
            if what:
                self._open[name] = (since, what)
            else:
                del self._open[name]
            self._recorder.replace(LEADER_WAITING, {(each,): 1.0 for each in self._open})
        if not what:
            seconds = round(self._clock.monotonic() - since, 1)
            self._log.info("The leader no longer waits", wait=name, after_seconds=seconds, waited_for=before)
        elif not before:
            self._log.info("The leader waits before it acts", wait=name, waits_for=what)

    def text(self) -> str:
        with self._lock:
            return "; ".join(f"{name}: {what}" for name, (_, what) in sorted(self._open.items()))
