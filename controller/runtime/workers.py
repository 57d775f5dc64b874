"""Loops as steps: a step does its work once and returns when to call it again.

In the process each `Worker` calls its step on its own thread. A step knows nothing of threads: in virtual time, one
thread calls the steps of all workers in the order of their pauses. `Run` is that seam.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from controller.runtime.clock import Clock
from controller.runtime.executors import Flag


@dataclass(frozen=True, slots=True)
class Pause:
    """Call the step again after `seconds`.

    With `version`, a newer snapshot than that ends the pause early, but not before `settle_seconds`.
    """

    seconds: float
    version: int | None = None
    settle_seconds: float = 0.0


class Worker:
    """One step, called repeatedly until `stop` is set."""

    def __init__(self, name: str, step: Callable[[], Pause], stop: Flag, wait: Callable[[Pause], object]) -> None:
        """`wait` blocks the thread for a pause; it returns early when `stop` is set."""
        self.name = name
        self.step = step
        self._stop = stop
        self._wait = wait
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_seconds: float = threading.TIMEOUT_MAX) -> bool:
        """Wait until the thread has ended, after `stop` was set; return False when it did not in time."""
        if self.alive and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, timeout_seconds))
        return not self.alive

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wait(self.step())


Run: TypeAlias = Callable[[Worker], None]
"""How workers are run. `Worker.start`: each on its own thread."""


def periodic(name: str, step: Callable[[], float], clock: Clock, stop: threading.Event) -> Worker:
    """Return a worker whose step returns the seconds until its next call; changes of the cluster do not wake it."""
    return Worker(name, lambda: Pause(step()), stop, lambda pause: clock.wait(stop, pause.seconds))
