"""Call reconcilers in passes, woken by changes of the cluster state; no exception ends a loop.

A reconciler gets a snapshot, acts, and returns the seconds until its next pass if nothing changes. A failure is logged
once and retried with exponential back-off, and its recovery is logged once: `Loop` does so for whole passes,
`ItemBackoff` for single objects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable
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
"""The longest pause between two passes, whatever a reconciler asks for: a missed change is seen by the next pass."""
STUCK_SECONDS = 600.0
"""A loop whose last pass ended this long ago hangs. The longest pass launches a thousand nodes under throttling."""


class Reconciler(Protocol):
    """The work of one loop."""

    @property
    def name(self) -> str:
        """Name in logs and metrics, and of the thread."""

    def reconcile(self, snapshot: Snapshot) -> float:
        """Bring the cluster closer to its desired state; return the seconds until the next pass if nothing changes."""


class SnapshotSource(Protocol):
    """Source of a loop's snapshots."""

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot."""

    def wait_for_change(self, version: int, stop: Flag, timeout_seconds: float) -> Snapshot:
        """Wait for a snapshot newer than `version`; return the newest one when time is up or `stop` is set."""


@dataclass(frozen=True, slots=True)
class BackoffTimes:
    """Exponential back-off: `first_seconds`, doubled with every consecutive failure, up to `most_seconds`."""

    first_seconds: float = 0.2
    most_seconds: float = 30.0

    def delay_seconds(self, failures: int) -> float:
        """Return the delay after this many consecutive failures (1 or more)."""
        return min(self.most_seconds, self.first_seconds * 2.0 ** min(failures - 1, 32))


@dataclass(frozen=True, slots=True)
class Rest:
    """The least time between two passes: `share` times what the first of them took, `most_seconds` at most.

    So a loop has a bounded part of the process while thousands of objects change.
    """

    share: float = 0.0
    most_seconds: float = 0.0


NO_REST = Rest()


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
        rest: Rest = NO_REST,
        backoff: BackoffTimes | None = None,
        recorder: Recorder = SILENT,
    ) -> None:
        """`settle_seconds`: least time between two passes, so that a burst of changes causes one pass;
        `rest` may make it longer.
        """
        self._reconciler = reconciler
        self._source = source
        self._clock = clock
        self._stop = stop
        self._recorder = recorder
        self._settle_seconds = settle_seconds
        self._rest = rest
        self._backoff = ItemBackoff(clock, reconciler.name, backoff)
        self._worker = Worker(reconciler.name, self.step, stop, self._wait)
        self._passed_at = clock.monotonic()
        """When the last pass ended (monotonic seconds), for the liveness probe."""

    @property
    def name(self) -> str:
        return self._reconciler.name

    def start(self, run: Run = Worker.start) -> None:
        self._passed_at = self._clock.monotonic()
        run(self._worker)

    def stuck(self) -> str:
        """Return why the loop needs a restart; empty when it makes progress or was not started."""
        if not self._worker.started or self._stop.is_set():
            return ""
        if not self._worker.alive:
            return "its thread is gone"
        silent = self._clock.monotonic() - self._passed_at
        return f"its last pass ended {silent:.0f} s ago" if silent > STUCK_SECONDS else ""

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the current pass to end after `stop` was set; return False when it did not in time."""
        return self._worker.join(timeout_seconds)

    def step(self) -> Pause:
        """Make one pass with the newest snapshot. After a failure, changes do not end the back-off early."""
        snapshot, began = self._source.snapshot(), self._clock.monotonic()
        delay, failed = self._pass(snapshot)
        if failed:
            return Pause(delay)
        rest = min(self._rest.most_seconds, self._rest.share * (self._passed_at - began))
        settle = max(self._settle_seconds, rest)
        return Pause(max(settle, min(delay, IDLE_SECONDS)), snapshot.version, settle)

    def _wait(self, pause: Pause) -> None:
        if pause.version is None:
            self._clock.wait(self._stop, pause.seconds)
        elif not self._clock.wait(self._stop, pause.settle_seconds):
            self._source.wait_for_change(pause.version, self._stop, pause.seconds - pause.settle_seconds)

    def _pass(self, snapshot: Snapshot) -> tuple[float, bool]:
        """Reconcile, log and measure; return the seconds until the next pass, and whether this one failed."""
        began = self._clock.monotonic()
        failed = False
        try:
            delay = self._reconciler.reconcile(snapshot)
        except Exception as error:  # noqa: BLE001 - the loop goes on; the failure is logged with its trace
            failed = True
            delay = self._backoff.failed(self.name, error, "Pass failed")
            self._recorder.count(RECONCILE_ERRORS, self.name)
        else:
            self._backoff.succeeded(self.name)
        self._recorder.count(RECONCILE_TOTAL, self.name, "error" if failed else "success")
        self._passed_at = self._clock.monotonic()
        self._recorder.observe(RECONCILE_TIME, self._passed_at - began, self.name)
        return delay, failed


class ItemBackoff:
    """Back-off by item, so that a failing object delays no other. Thread-safe."""

    def __init__(self, clock: Clock, log_name: str, times: BackoffTimes | None = None) -> None:
        self._clock = clock
        self._times = times or BackoffTimes()
        self._log = structlog.get_logger(log_name)
        self._lock = threading.Lock()
        self._failures: dict[Hashable, tuple[int, float, str]] = {}
        """By item: failures in a row, when to try again (monotonic seconds), and the text last logged."""

    def ready(self, key: Hashable) -> bool:
        """Return whether the item may be tried now."""
        with self._lock:
            entry = self._failures.get(key)
        return entry is None or self._clock.monotonic() >= entry[1]

    def failed(self, key: Hashable, error: Exception, message: str, **fields: object) -> float:
        """Count a failure, and log it unless the item's last one had the same text; return the delay in seconds."""
        text = f"{type(error).__name__}: {error}"
        with self._lock:
            count, _, logged = self._failures.get(key, (0, 0.0, ""))
            delay = self._times.delay_seconds(count + 1)
            self._failures[key] = (count + 1, self._clock.monotonic() + delay, text)
        if text != logged:
            expected = isinstance(error, NodelessError)
            self._log.error(message, error=text, retry_in_seconds=round(delay, 2), exc_info=not expected, **fields)
        return delay

    def postpone(self, key: Hashable) -> None:
        """Back off without logging, for refusals that are no errors."""
        with self._lock:
            count = self._failures.get(key, (0, 0.0, ""))[0]
            self._failures[key] = (count + 1, self._clock.monotonic() + self._times.delay_seconds(count + 1), "")

    def succeeded(self, key: Hashable) -> None:
        """Forget the item's failures; log the recovery if they were logged."""
        if not self._failures:
            return
        with self._lock:
            count, _, logged = self._failures.pop(key, (0, 0.0, ""))
        if logged:
            self._log.info("Recovered", item=str(key), failures=count)

    def attempt(
        self, key: Hashable, work: Callable[[], object], message: str, *errors: type[Exception], **fields: object
    ) -> bool:
        """Call `work` for the item; if it raises one of `errors`, log `message` and back off. True on success."""
        try:
            work()
        except errors as error:
            self.failed(key, error, message, **fields)
            return False
        self.succeeded(key)
        return True

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget items that are not among `keys`: they do not exist any more."""
        with self._lock:
            for key in [key for key in self._failures if key not in keys]:
                del self._failures[key]

    def next_try_seconds(self) -> float:
        """Return the seconds until the first failed item may be tried again; IDLE_SECONDS when none failed."""
        with self._lock:
            soonest = min((at for _, at, _ in self._failures.values()), default=None)
        return IDLE_SECONDS if soonest is None else max(0.0, soonest - self._clock.monotonic())
