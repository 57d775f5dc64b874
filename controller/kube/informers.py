"""The cluster state fed by watches: one watcher per kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.kube.client import KubeClient
from controller.kube.outages import Outages
from controller.kube.resources import CLUSTER_STATE, Resource
from controller.kube.watcher import Watcher, WatchOptions
from controller.runtime.clock import Clock
from controller.runtime.cluster_state import ClusterState
from controller.runtime.workers import Run, Worker

_STOP_SECONDS = 5.0
"""How long stopping waits for the watches."""


class Informers(ClusterState):
    def __init__(
        self,
        client: KubeClient,
        cluster: Cluster,
        clock: Clock,
        resources: Iterable[Resource] = CLUSTER_STATE,
        options: WatchOptions | None = None,
        run: Run = Worker.start,
    ) -> None:
        super().__init__(cluster, clock, run)
        self.outages = Outages(clock)
        self._watchers = [
            Watcher(resource, client, self.take, clock, options=options, outages=self.outages, run=run)
            for resource in resources
        ]

    def start(self) -> None:
        super().start()
        for watcher in self._watchers:
            watcher.start()

    def stop(self) -> None:
        for watcher in self._watchers:
            watcher.request_stop()
        deadline = self._clock.monotonic() + _STOP_SECONDS
        for watcher in self._watchers:
            watcher.stop(max(0.0, deadline - self._clock.monotonic()))
        super().stop()

    def learn(self, resource: Resource, document: Mapping[str, Any]) -> Future[Snapshot]:
        """Apply the API server's answer to our own write, before the watch delivers it.

        An answer that is not the object (a Status, after a completed deletion) is ignored.
        """
        if document.get("kind", resource.kind) != resource.kind:
            return self.submit(lambda _cluster: None)
        change = Change(resource.kind, ChangeType.LEARNED, (document,))
        return self.submit(lambda cluster: self._apply(cluster, change))

    def unsynced(self) -> tuple[str, ...]:
        """Kinds whose first list has not arrived, for readiness pages and log lines."""
        return tuple(sorted(watcher.resource.kind for watcher in self._watchers if not watcher.synced.is_set()))
