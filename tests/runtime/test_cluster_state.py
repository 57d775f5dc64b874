"""The cluster state without a thread of its own: whoever makes a change applies it."""

from __future__ import annotations

import threading

import pytest

from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.runtime.cluster_state import ClusterState
from controller.runtime.workers import Worker
from tests.factories import node_object
from tests.manual_clock import ManualClock


def node(name: str) -> Change:
    return Change("Node", ChangeType.ADDED, (node_object(name=name, resourceVersion="1"),))


def test_before_its_worker_runs_changes_are_applied_by_who_makes_them() -> None:
    state = ClusterState(Cluster(), ManualClock())
    before = state.snapshot()
    state.take(node("a"))
    assert list(state.snapshot().nodes) == ["a"]
    assert state.snapshot().version > before.version
    job = state.submit(lambda cluster: cluster.nominate("a", 2e9))
    assert job.done()
    assert job.result() is state.snapshot()
    assert state.snapshot().nodes["a"].nominated_until == 2e9


def test_once_its_worker_runs_changes_are_applied_by_that_alone() -> None:
    state = ClusterState(Cluster(), ManualClock())
    state.start()
    owners: set[str] = set()
    try:
        state.submit(lambda _cluster: owners.add(threading.current_thread().name)).result(5)
        state.take(node("a"))
        assert state.submit(lambda _cluster: None).result(5).nodes.keys() == {"a"}
    finally:
        state.stop()
    assert owners == {"cluster-state"}
    assert state.submit(lambda _cluster: None).cancelled()
    assert list(state.snapshot().nodes) == ["a"], "the last snapshot stays readable"


class DearSnapshots(Cluster):
    """Each snapshot takes `seconds`."""

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        super().__init__()
        self._time, self._seconds = clock, seconds

    def snapshot(self) -> Snapshot:
        self._time.advance(self._seconds)
        return super().snapshot()


@pytest.mark.parametrize(("seconds", "interval"), [(0.00001, 0.01), (0.002, 0.4), (0.1, 0.75)])
def test_snapshots_of_a_large_cluster_are_published_less_often(seconds: float, interval: float) -> None:
    """To make them takes half a hundredth of the time, but none is older than three quarters of a second."""
    clock, workers = ManualClock(), list[Worker]()
    cluster = DearSnapshots(clock, seconds)
    ClusterState(cluster, clock, workers.append).start()
    cluster.apply(node("a"))
    assert workers[0].step().settle_seconds == pytest.approx(interval, rel=1e-3)
