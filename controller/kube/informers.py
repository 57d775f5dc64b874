"""The cluster state, kept by the watches: one queue, one thread that owns the `Cluster`, immutable snapshots for all.

Watchers put changes on the queue. The owner thread takes all that is there, applies it, publishes one snapshot, and
wakes who waits. What reconcilers want to note in the state (nominations, marks, answers to their own writes) goes
through the same queue as functions.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

import structlog

from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.kube.client import KubeClient
from controller.kube.outages import Outages
from controller.kube.resources import CLUSTER_STATE, Resource
from controller.kube.watcher import Watcher, WatchOptions
from controller.runtime.clock import Clock

_log = structlog.get_logger("kube")

_PUBLISH_INTERVAL_SECONDS = 0.01
"""A storm of events becomes at most 100 snapshots a second; the first change after a pause is published at once."""
_TICK_SECONDS = 1.0
"""How often nominations that ran out are dropped while nothing else happens."""
_MAX_BATCH = 10_000
"""Changes between two snapshots, at most."""
_STOP_SECONDS = 5.0
"""How long stopping waits for the watches, and then for the owner thread."""
_STOP_POLL_SECONDS = 0.2
"""How soon a waiter sees that its stop event was set."""


@dataclass(frozen=True, slots=True)
class _Task:
    fn: Callable[[Cluster], None]
    done: Future[Snapshot]


_Item: TypeAlias = Change | _Task | None
"""None wakes the owner thread, so that it sees that it must end."""


class Informers:
    """Readers use `snapshot`, `wait_for_change` and `wait_synced` from any thread; writers `submit` and `learn`."""

    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        clock: Clock,
        resources: Iterable[Resource] = CLUSTER_STATE,
        options: WatchOptions | None = None,
    ) -> None:
        self.malformed = 0
        """Objects refused so far: invalid Provisioners and templates, and what no parser could read."""
        self.outages = Outages(clock)
        self._cluster = cluster
        self._clock = clock
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._watchers = [
            Watcher(resource, client, self.take, clock, options=options, outages=self.outages) for resource in resources
        ]
        self._changed = threading.Condition()
        self._snapshot = cluster.snapshot()
        self._stopping = threading.Event()
        self._owner = threading.Thread(target=self._own, name="cluster-state", daemon=True)

    def start(self) -> None:
        """Start watching. Returns at once; see `wait_synced`."""
        self._owner.start()
        for watcher in self._watchers:
            watcher.start()

    def stop(self) -> None:
        """Stop watching and end the threads. The last snapshot stays readable; waiters return."""
        for watcher in self._watchers:
            watcher.request_stop()
        deadline = self._clock.monotonic() + _STOP_SECONDS
        for watcher in self._watchers:
            watcher.stop(max(0.0, deadline - self._clock.monotonic()))
        self._stopping.set()
        self._queue.put(None)
        if self._owner.is_alive() and self._owner is not threading.current_thread():
            self._owner.join(_STOP_SECONDS)
        self._cancel_tasks()
        with self._changed:
            self._changed.notify_all()

    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self._snapshot

    def wait_for_change(self, version: int, stop: threading.Event, timeout_seconds: float) -> Snapshot:
        """Wait for a snapshot newer than `version`; the newest one there is when time is up or `stop` is set."""
        return self._wait(lambda snapshot: snapshot.version > version, stop, timeout_seconds)

    @property
    def stuck(self) -> str:
        """Why only a restart would help: the thread that owns the state is gone. Empty when all is well."""
        started = self._owner.ident is not None and not self._stopping.is_set()
        return "the thread that keeps the cluster state is gone" if started and not self._owner.is_alive() else ""

    def wait_synced(self, stop: threading.Event, timeout_seconds: float) -> bool:
        """Wait until every watch has delivered its first list. False when time is up or `stop` is set before."""
        return self._wait(lambda snapshot: snapshot.synced, stop, timeout_seconds).synced

    def submit(self, fn: Callable[[Cluster], None]) -> Future[Snapshot]:
        """Run `fn` in the owner thread, after all that came before. The future gives the snapshot that has its effect.

        An exception of `fn` is logged and set on the future. After `stop` nothing runs and the future is cancelled.
        """
        task = _Task(fn, Future())
        self._queue.put(task)
        if self._stopping.is_set():
            self._cancel_tasks()
        return task.done

    def take(self, change: Change) -> None:
        """Put a change on the queue, as the watchers do."""
        self._queue.put(change)

    def learn(self, resource: Resource, document: Mapping[str, Any]) -> Future[Snapshot]:
        """Take the API server's answer to our own write into the state, before the watch tells of it.

        An answer that is not the object (a Status, after a deletion that was complete) is left to the watch.
        """
        if document.get("kind", resource.kind) != resource.kind:
            return self.submit(lambda _cluster: None)
        change = Change(resource.kind, ChangeType.LEARNED, (document,))
        return self.submit(lambda cluster: self._apply(cluster, change))

    @property
    def last_event_age_seconds(self) -> float:
        """Since the quietest watch last heard from the server (bookmarks count), for health checks."""
        return max((watcher.heard_seconds_ago for watcher in self._watchers), default=0.0)

    def unsynced(self) -> tuple[str, ...]:
        """Kinds whose first list has not come, for readiness pages and log lines."""
        return tuple(sorted(watcher.resource.kind for watcher in self._watchers if not watcher.synced.is_set()))

    def _wait(self, want: Callable[[Snapshot], bool], stop: threading.Event, timeout_seconds: float) -> Snapshot:
        deadline = self._clock.monotonic() + timeout_seconds
        with self._changed:
            while not (want(self._snapshot) or self._stopping.is_set() or stop.is_set()):
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, _STOP_POLL_SECONDS))
            return self._snapshot

    def _cancel_tasks(self) -> None:
        """Nobody will run what is still on the queue: tell who waits for it."""
        if self._owner.is_alive():
            return
        while not self._queue.empty():
            item = self._queue.get()
            if isinstance(item, _Task):
                item.done.cancel()

    def _own(self) -> None:
        """The owner thread: nothing else touches the Cluster."""
        while not self._stopping.is_set():
            waiting: list[Future[Snapshot]] = []
            for item in self._batch():
                self._handle(item, waiting)
            self._cluster.expire(self._clock.now())
            if self._publish(waiting):
                self._stopping.wait(_PUBLISH_INTERVAL_SECONDS)

    def _batch(self) -> Iterator[_Item]:
        """What is on the queue, up to a limit; waits a tick for the first."""
        try:
            item = self._queue.get(timeout=_TICK_SECONDS)
            for _ in range(_MAX_BATCH):
                yield item
                item = self._queue.get_nowait()
            yield item
        except queue.Empty:
            return

    def _handle(self, item: _Item, waiting: list[Future[Snapshot]]) -> None:
        if isinstance(item, Change):
            try:
                self._apply(self._cluster, item)
            except Exception:  # noqa: BLE001 - a fault of ours: the other changes still count
                _log.exception("Change could not be applied", kind=item.kind, type=item.type.value)
        elif isinstance(item, _Task) and item.done.set_running_or_notify_cancel():
            try:
                item.fn(self._cluster)
            except Exception as error:  # noqa: BLE001 - the submitter's fault, and theirs to know
                _log.exception("Submitted change of the cluster state failed")
                item.done.set_exception(error)
            else:
                waiting.append(item.done)

    def _apply(self, cluster: Cluster, change: Change) -> None:
        for refused in cluster.apply(change):
            self.malformed += 1
            _log.warning(
                "Object is invalid and takes no part", kind=refused.kind, name=refused.name, error=refused.error
            )

    def _publish(self, waiting: list[Future[Snapshot]]) -> bool:
        """Publish and answer the submitters. Returns whether the snapshot is a new one."""
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
