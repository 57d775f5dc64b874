"""The cluster state without a thread of its own: whoever makes a change applies it."""

from __future__ import annotations

import threading

from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.runtime.cluster_state import ClusterState
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
