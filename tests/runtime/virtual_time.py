"""One thread that calls the steps of all workers in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from controller.runtime.cluster_state import ClusterState
from controller.runtime.workers import Pause, Worker
from tests.manual_clock import ManualClock


@dataclass
class Turn:
    """A worker, and the pause that its last step asked for."""

    worker: Worker
    since: float
    pause: Pause = Pause(0.0)  # noqa: RUF009 - frozen

    def due_at(self, version: int) -> float:
        """On the clock's monotonic time, with a cluster state of this version."""
        changed = self.pause.version is not None and version > self.pause.version
        return self.since + (self.pause.settle_seconds if changed else self.pause.seconds)


class VirtualTime:
    """Runs workers without a thread: `run` takes them, `turn` calls the step that is due first."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.turns: list[Turn] = []
        self.calls: Counter[str] = Counter()

    def run(self, worker: Worker) -> None:
        """Instead of `Worker.start`. Streams block, and are left out: changes are fed in by a worker of the test."""
        if not worker.name.startswith("watch-"):
            self.turns.append(Turn(worker, self.clock.monotonic()))

    def turn(self, state: ClusterState | None = None) -> None:
        """Let time pass until a step is due, and call it. Of several, the one that was waiting longest.

        `state` is for steps that a newer snapshot wakes.
        """
        version = state.snapshot().version if state is not None else 0
        turn = min(self.turns, key=lambda each: each.due_at(version))
        self.clock.advance(max(0.0, turn.due_at(version) - self.clock.monotonic()))
        turn.pause = turn.worker.step()
        turn.since = self.clock.monotonic()
        self.calls[turn.worker.name] += 1

    def until(self, state: ClusterState, condition: Callable[[], object], what: str, at_most_seconds: float) -> None:
        """Turn until the condition holds; the limit is one of virtual time."""
        ends_at = self.clock.monotonic() + at_most_seconds
        while not condition():
            assert self.clock.monotonic() < ends_at, f"did not come true in time: {what}; calls were {self.calls}"
            self.turn(state)
