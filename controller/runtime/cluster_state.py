"""Own the cluster state: one queue, one thread that changes the `Cluster`, immutable snapshots for all readers.

The owner applies all queued changes, publishes one snapshot, and wakes the waiters. Changes by reconcilers
(nominations, marks, answers to their own writes) go through the same queue, as functions. If no thread was started
(see `workers.Run`), every change is applied at once by its caller.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from controller.core.state.change import Change
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.runtime.clock import Clock
from controller.runtime.executors import Flag
from controller.runtime.workers import Pause, Run, Worker

_log = structlog.get_logger("kube")

_PUBLISH_INTERVAL_SECONDS = 0.01
"""At most 100 snapshots a second under load; the first change after a pause is published at once."""
_PUBLISH_SHARE = 0.005
"""A snapshot copies the map of each kind that changed, which takes 3 to 10 ms for 100,000 pods, and as long again once
it is freed: the interval grows so that copies take no more than this share of the time."""
_MOST_INTERVAL_SECONDS = 0.75
_TICK_SECONDS = 1.0
"""Between two checks for expired nominations while no change arrives."""
_MAX_BATCH = 10_000
"""Most changes between two snapshots."""
_STOP_SECONDS = 5.0
"""How long stopping waits for the owner thread."""
_STOP_POLL_SECONDS = 1.0
"""How soon a waiter sees that its stop flag was set, unless `wake` is called: a dozen idle loops look this often."""


@dataclass(frozen=True, slots=True)
class _Task:
    fn: Callable[[Cluster], None]
    done: Future[Snapshot]


_Item: TypeAlias = Change | _Task | None
"""None wakes the owner, so that it sees its stop flag."""


class ClusterState:
    """Readers use `snapshot`, `wait_for_change` and `wait_synced` from any thread; writers `take` and `submit`."""

    def __init__(self, cluster: Cluster, clock: Clock, run: Run = Worker.start) -> None:
        self.malformed = 0
        """Objects refused so far: invalid Provisioners and templates, and unreadable objects of any kind."""
        self._cluster = cluster
        self._clock = clock
        self._run = run
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._snapshot = cluster.snapshot()
        self._stopping = threading.Event()
        self._owner = Worker("cluster-state", self._step, self._stopping, self._wait_for_item)
        self._first: _Item = None
        """The item that ended the owner's last wait."""

    def start(self) -> None:
        self._run(self._owner)

    def stop(self) -> None:
        """Stop the owner. The last snapshot stays readable, waiters return, and queued tasks are cancelled."""
        self._stopping.set()
        self._queue.put(None)
        self._owner.join(_STOP_SECONDS)
        self._cancel_tasks()
        self.wake()

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def wait_for_change(self, version: int, stop: Flag, timeout_seconds: float) -> Snapshot:
        """Wait for a snapshot newer than `version`; return the newest one when time is up or `stop` is set."""
        return self._wait(lambda snapshot: snapshot.version > version, stop, timeout_seconds)

    def wake(self) -> None:
        """Let all waiters look at their stop flags at once."""
        with self._changed:
            self._changed.notify_all()

    def wait_synced(self, stop: Flag, timeout_seconds: float) -> bool:
        """Wait until every watch has delivered its first list. False when time is up or `stop` is set before."""
        return self._wait(lambda snapshot: snapshot.synced, stop, timeout_seconds).synced

    @property
    def stuck(self) -> str:
        """Why the process needs a restart: the owner's thread is gone. Empty otherwise."""
        started = self._owner.started and not self._stopping.is_set()
        return "the thread that keeps the cluster state is gone" if started and not self._owner.alive else ""

    def submit(self, fn: Callable[[Cluster], None]) -> Future[Snapshot]:
        """Run `fn` in the owner, after all that was queued before. The future's result is the snapshot with its effect.

        An exception of `fn` is logged and set on the future. After `stop` nothing runs and the future is cancelled.
        """
        task = _Task(fn, Future())
        self._put(task)
        return task.done

    def take(self, change: Change) -> None:
        self._put(change)

    def _put(self, item: _Item) -> None:
        self._queue.put(item)
        if self._stopping.is_set():
            self._cancel_tasks()
        elif not self._owner.started:
            self._step()

    def _wait(self, want: Callable[[Snapshot], bool], stop: Flag, timeout_seconds: float) -> Snapshot:
        deadline = self._clock.monotonic() + timeout_seconds
        with self._changed:
            while not (want(self._snapshot) or self._stopping.is_set() or stop.is_set()):
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, _STOP_POLL_SECONDS))
            return self._snapshot

    def _cancel_tasks(self) -> None:
        """Cancel queued tasks once the owner has ended."""
        if self._owner.alive:
            return
        while not self._queue.empty():
            item = self._queue.get()
            if isinstance(item, _Task):
                item.done.cancel()

    def _step(self) -> Pause:
        """Apply what is queued, up to a limit, and publish."""
        waiting: list[Future[Snapshot]] = []
        for item in self._queued():
            self._handle(item, waiting)
        self._cluster.expire(self._clock.now())
        began = self._clock.monotonic()
        if not self._publish(waiting):
            return Pause(_TICK_SECONDS)
        least = (self._clock.monotonic() - began) / _PUBLISH_SHARE
        return Pause(_TICK_SECONDS, settle_seconds=min(_MOST_INTERVAL_SECONDS, max(_PUBLISH_INTERVAL_SECONDS, least)))

    def _wait_for_item(self, pause: Pause) -> None:
        if pause.settle_seconds:
            self._stopping.wait(pause.settle_seconds)
        try:
            self._first = self._queue.get(timeout=pause.seconds)
        except queue.Empty:
            self._first = None

    def _queued(self) -> Iterator[_Item]:
        first, self._first = self._first, None
        if first is not None:
            yield first
        try:
            for _ in range(_MAX_BATCH):
                yield self._queue.get_nowait()
        except queue.Empty:
            return

    def _handle(self, item: _Item, waiting: list[Future[Snapshot]]) -> None:
        if isinstance(item, Change):
            try:
                self._apply(self._cluster, item)
            except Exception:  # noqa: BLE001 - a bug; the other changes are applied all the same
                _log.exception("Change could not be applied", kind=item.kind, type=item.type.value)
        elif isinstance(item, _Task) and item.done.set_running_or_notify_cancel():
            try:
                item.fn(self._cluster)
            except Exception as error:  # noqa: BLE001 - raised again from the submitter's future
                _log.exception("Submitted change of the cluster state failed")
                item.done.set_exception(error)
            else:
                waiting.append(item.done)

    def _apply(self, cluster: Cluster, change: Change) -> None:
        for refused in cluster.apply(change):
            self.malformed += 1
            _log.warning("Object is invalid and ignored", kind=refused.kind, name=refused.name, error=refused.error)

    def _publish(self, waiting: list[Future[Snapshot]]) -> bool:
        """Publish, and resolve the futures; return whether the snapshot is a new one."""
        before, snapshot = self._snapshot, self._cluster.snapshot()
        if snapshot is not before:
            with self._changed:
                self._snapshot = snapshot
                self._changed.notify_all()
            if snapshot.synced and not before.synced:
                _log.info("Cluster state is synced", node_count=len(snapshot.nodes), pod_count=len(snapshot.pods))
        for done in waiting:
            done.set_result(snapshot)
        return snapshot is not before
