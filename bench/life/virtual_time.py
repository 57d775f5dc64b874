"""Virtual time: one thread calls the controller's loops and the cluster's events in the order of their times.

A step takes no virtual time. The processor time of the controller's own steps is counted.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from controller.runtime.cluster_state import ClusterState
from controller.runtime.workers import Pause, Worker


class VirtualClock:
    """Implements Clock. Wall and monotonic time are one; whoever waits moves it on."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def processor(self) -> float:
        return 0.0  # what a step may take must not change the day

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if not event.is_set():
            self._now += max(0.0, seconds)
        return event.is_set()

    def reach(self, at: float) -> None:
        """Move on to `at`; never back."""
        self._now = max(self._now, at)


@dataclass(slots=True)
class _Turn:
    """A loop, and the pause that its last step asked for."""

    worker: Worker
    since: float
    pause: Pause

    def due_at(self, version: int) -> float:
        changed = self.pause.version is not None and version > self.pause.version
        return self.since + (self.pause.settle_seconds if changed else self.pause.seconds)


class VirtualTime:
    """Loops come by `run` (instead of `Worker.start`), events by `at`; `until` lets time pass."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.processor_seconds = 0.0
        """Of the controller's steps."""
        self.by_step: Counter[str] = Counter()
        """Microseconds of processor time by loop."""
        self._turns: list[_Turn] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def run(self, worker: Worker) -> None:
        """Take a loop. Watches are left out: whoever feeds the cluster state calls `counted`."""
        if not worker.name.startswith("watch-"):
            self._turns.append(_Turn(worker, self.clock.monotonic(), Pause(0.0)))

    def at(self, when: float, event: Callable[[], None]) -> None:
        """Call `event` at this time (of the clock), or at once where it is past."""
        heapq.heappush(self._events, (when, next(self._numbers), event))

    def counted(self, name: str, work: Callable[[], object]) -> None:
        """Do work that is the controller's."""
        began = time.thread_time()
        work()
        took = time.thread_time() - began
        self.processor_seconds += took
        self.by_step[name] += int(took * 1e6)

    def until(self, when: float, state: ClusterState) -> None:
        """Let time pass until then."""
        while True:
            version = state.snapshot().version
            turn = min(self._turns, key=lambda each: each.due_at(version))
            due = turn.due_at(version)
            if self._events and self._events[0][0] <= due:
                if self._events[0][0] > when:
                    break
                at, _, event = heapq.heappop(self._events)
                self.clock.reach(at)
                event()
            elif due > when:
                break
            else:
                self.clock.reach(due)
                self._step(turn)
        self.clock.reach(when)

    def _step(self, turn: _Turn) -> None:
        def step() -> None:
            turn.pause = turn.worker.step()

        self.counted(turn.worker.name, step)
        turn.since = self.clock.monotonic()
