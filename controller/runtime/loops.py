"""How reconcilers are called: in passes, woken by changes of the cluster state, never ended by an exception.

A reconciler gets a snapshot, acts, and returns when it wants the next one although nothing changed. A failure is logged
once, retried with exponential back-off, and its recovery is logged once: of a whole pass by `Loop`, of one object of
many by `ItemBackoff`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Protocol

import structlog

from controller.core.state.snapshot import Snapshot
from controller.errors import NodelessError
from controller.runtime.clock import Clock
from controller.runtime.executors import Flag
from controller.runtime.metrics import RECONCILE_ERRORS, RECONCILE_TIME, RECONCILE_TOTAL, SILENT, Recorder
from controller.runtime.workers import Pause, Run, Worker

IDLE_SECONDS = 60.0
"""A pass is made at least this often, whatever a reconciler asks for: a change that was missed is found by the next."""
STUCK_SECONDS = 600.0
"""A loop without the end of a pass for so long hangs. The longest pass launches a thousand nodes under throttling."""


class Reconciler(Protocol):
    """One loop's work."""

    @property
    def name(self) -> str:
        """For logs and thread names."""

    def reconcile(self, snapshot: Snapshot) -> float:
        """Bring the world closer to what `snapshot` asks for; seconds until the next look though nothing changed."""


class SnapshotSource(Protocol):
    """Where loops get their snapshots from."""

    def snapshot(self) -> Snapshot:
        """The newest snapshot."""

    def wait_for_change(self, version: int, stop: Flag, timeout_seconds: float) -> Snapshot:
        """Wait for a snapshot newer than `version`; the newest there is when time is up or `stop` is set."""


@dataclass(frozen=True, slots=True)
class BackoffTimes:
    """`first_seconds`, doubled with every failure in a row, up to `most_seconds`."""

    first_seconds: float = 0.2
    most_seconds: float = 30.0

    def delay_seconds(self, failures: int) -> float:
        """The wait after so many failures in a row (1 or more)."""
        return min(self.most_seconds, self.first_seconds * 2.0 ** min(failures - 1, 32))


class Loop:
    """Passes of one reconciler, as the steps of a worker, until `stop` is set."""

    def __init__(
        self,
        reconciler: Reconciler,
        source: SnapshotSource,
        clock: Clock,
        stop: threading.Event,
        *,
        settle_seconds: float = 0.05,
        backoff: BackoffTimes | None = None,
        recorder: Recorder = SILENT,
    ) -> None:
        """`settle_seconds`: the least time between two passes, so that a burst of changes makes one pass."""
        self._reconciler = reconciler
        self._source = source
        self._clock = clock
        self._stop = stop
        self._recorder = recorder
        self._settle_seconds = settle_seconds
        self._backoff = backoff or BackoffTimes()
        self._failures = 0
        self._said = ""
        self._log = structlog.get_logger(reconciler.name)
        self._worker = Worker(reconciler.name, self.step, stop, self._wait)
        self._passed_at = clock.monotonic()
        """When a pass ended last, on the monotonic clock: for health."""

    @property
    def name(self) -> str:
        """The reconciler's."""
        return self._reconciler.name

    def start(self, run: Run = Worker.start) -> None:
        """Make passes from now on."""
        self._passed_at = self._clock.monotonic()
        run(self._worker)

    def stuck(self) -> str:
        """Why only a restart would help this loop; empty when it moves, or was not started."""
        if not self._worker.started or self._stop.is_set():
            return ""
        if not self._worker.alive:
            return "its thread is gone"
        silent = self._clock.monotonic() - self._passed_at
        return f"its last pass ended {silent:.0f} s ago" if silent > STUCK_SECONDS else ""

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the pass at hand to end after `stop` was set; False when it did not in time."""
        return self._worker.join(timeout_seconds)

    def step(self) -> Pause:
        """Make one pass with the newest snapshot. After a failure changes do not wake the loop before its back-off."""
        snapshot = self._source.snapshot()
        delay = self._pass(snapshot)
        if self._failures:
            return Pause(delay)
        return Pause(max(self._settle_seconds, min(delay, IDLE_SECONDS)), snapshot.version, self._settle_seconds)

    def _wait(self, pause: Pause) -> None:
        if pause.version is None:
            self._clock.wait(self._stop, pause.seconds)
        elif not self._clock.wait(self._stop, pause.settle_seconds):
            self._source.wait_for_change(pause.version, self._stop, pause.seconds - pause.settle_seconds)

    def _pass(self, snapshot: Snapshot) -> float:
        began = self._clock.monotonic()
        try:
            delay = self._reconciler.reconcile(snapshot)
        except Exception as error:  # noqa: BLE001 - the loop outlives everything; what happened is logged with its trace
            self._failures += 1
            delay = self._backoff.delay_seconds(self._failures)
            self._say(error, delay)
            self._recorder.count(RECONCILE_ERRORS, self.name)
            self._recorder.count(RECONCILE_TOTAL, self.name, "error")
        else:
            self._recorder.count(RECONCILE_TOTAL, self.name, "success")
            if self._failures:
                self._log.info("Recovered", failures=self._failures)
            self._failures, self._said = 0, ""
        self._passed_at = self._clock.monotonic()
        self._recorder.observe(RECONCILE_TIME, self._passed_at - began, self.name)
        return delay

    def _say(self, error: Exception, delay: float) -> None:
        text = f"{type(error).__name__}: {error}"
        if text != self._said:
            self._said = text
            expected = isinstance(error, NodelessError)
            self._log.error("Pass failed", error=text, retry_in_seconds=round(delay, 2), exc_info=not expected)


class ItemBackoff:
    """Back-off for one object of many, so that a failing one holds back itself alone. Safe for several threads."""

    def __init__(self, clock: Clock, log_name: str, times: BackoffTimes | None = None) -> None:
        self._clock = clock
        self._times = times or BackoffTimes()
        self._log = structlog.get_logger(log_name)
        self._lock = threading.Lock()
        self._failures: dict[Hashable, tuple[int, float, str]] = {}

    def ready(self, key: Hashable) -> bool:
        """Whether the item may be tried now."""
        with self._lock:
            entry = self._failures.get(key)
        return entry is None or self._clock.monotonic() >= entry[1]

    def failed(self, key: Hashable, error: Exception, message: str, **fields: object) -> float:
        """Note a failure and log it unless the same text was the last for this item; seconds until the next try."""
        text = f"{type(error).__name__}: {error}"
        with self._lock:
            count, _, said = self._failures.get(key, (0, 0.0, ""))
            delay = self._times.delay_seconds(count + 1)
            self._failures[key] = (count + 1, self._clock.monotonic() + delay, text)
        if text != said:
            expected = isinstance(error, NodelessError)
            self._log.error(message, error=text, retry_in_seconds=round(delay, 2), exc_info=not expected, **fields)
        return delay

    def postpone(self, key: Hashable) -> None:
        """Back off without a word: somebody's refusal that is no error of ours."""
        with self._lock:
            count = self._failures.get(key, (0, 0.0, ""))[0]
            self._failures[key] = (count + 1, self._clock.monotonic() + self._times.delay_seconds(count + 1), "")

    def succeeded(self, key: Hashable) -> None:
        """Forget the item's failures; if they were said, so is that they are over."""
        if not self._failures:
            return
        with self._lock:
            count, _, said = self._failures.pop(key, (0, 0.0, ""))
        if said:
            self._log.info("Recovered", item=str(key), failures=count)

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget every item that is not among `keys`: it does not exist any more."""
        with self._lock:
            for key in [key for key in self._failures if key not in keys]:
                del self._failures[key]

    def next_try_seconds(self) -> float:
        """Until the soonest failed item may be tried again; a minute when none failed."""
        with self._lock:
            soonest = min((at for _, at, _ in self._failures.values()), default=None)
        return IDLE_SECONDS if soonest is None else max(0.0, soonest - self._clock.monotonic())
