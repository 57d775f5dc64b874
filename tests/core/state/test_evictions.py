"""The loop of pods that fill a node's disk is recognised by its owner, and by nothing less than a second round."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.labels import PROVISIONER_NAME
from controller.core.state.cluster import Cluster
from tests.core.state.changes import Object, added, at, deleted, listed, modified, take
from tests.factories import node_object, pod_object

LOW = "The node was low on resource: ephemeral-storage. Threshold quantity: 2146223340, available: 1Gi."
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "test", "uid": "uid-test", "controller": True}
GIB = 2**30


def notebook(uid: str, node: str = "n1", *, version: int = 1, requests: dict[str, str] | None = None) -> Object:
    """test-0 in one of its incarnations."""
    made = pod_object(name="test-0", requests=requests or {"cpu": "500m"}, spec={"nodeName": node})
    return at({**made, "metadata": {**made["metadata"], "uid": uid, "ownerReferences": [OWNER]}}, version)


def evicted(pod: Object, message: str = LOW, reason: str = "Evicted") -> Object:
    version = int(pod["metadata"]["resourceVersion"]) + 1
    return at({**pod, "status": {"phase": "Failed", "reason": reason, "message": message}}, version)


@pytest.fixture
def cluster() -> Cluster:
    state = Cluster()
    room = {"cpu": "4", "memory": "16Gi", "pods": "58", "ephemeral-storage": "17Gi"}
    for name in ("n1", "n2"):
        take(state, added(node_object(name=name, labels={PROVISIONER_NAME: "gpu"}, status={"allocatable": room})))
    return state


def round_of(cluster: Cluster, uid: str, version: int, node: str = "n1", **fields: Any) -> None:
    """Placed, evicted, deleted by its owner: what the guides show."""
    pod = notebook(uid, node, version=version, **fields)
    take(cluster, added(pod), modified(evicted(pod)), deleted(evicted(pod)))


def test_one_eviction_is_no_loop_and_a_second_of_its_replacement_is(cluster: Cluster) -> None:
    round_of(cluster, "one", 10)
    assert cluster.snapshot().storage_loops == {}
    round_of(cluster, "two", 20, "n2")
    (loop,) = cluster.snapshot().storage_loops.values()
    assert (loop.owner.kind, loop.owner.name, loop.rounds, loop.node) == ("StatefulSet", "test", 2, "n2")
    assert (loop.provisioner, loop.allocatable_bytes, loop.declared_bytes) == ("gpu", 17 * GIB, 0)


def test_replicas_that_one_full_disk_takes_with_it_are_one_round(cluster: Cluster) -> None:
    pods = [notebook(f"uid-{index}", version=index + 1) for index in range(3)]
    for index, pod in enumerate(pods):
        pod["metadata"]["name"] = f"test-{index}"
    take(cluster, added(*pods), *(modified(evicted(pod)) for pod in pods))
    assert cluster.snapshot().storage_loops == {}


def test_the_same_evicted_pod_seen_again_is_no_second_round(cluster: Cluster) -> None:
    pod = evicted(notebook("one"))
    take(cluster, added(pod), modified(at(pod, 7)), listed("Pod", at(pod, 9)))
    assert cluster.snapshot().storage_loops == {}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("The node was low on resource: memory.", "Evicted"),
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.", "Evicted"),
        (LOW, "Preempting"),
    ],
)
def test_other_ends_are_no_disk_pressure(cluster: Cluster, message: str, reason: str) -> None:
    for version, uid in ((10, "one"), (20, "two"), (30, "three")):
        pod = notebook(uid, version=version)
        take(cluster, added(pod), modified(evicted(pod, message, reason)), deleted(evicted(pod, message, reason)))
    assert cluster.snapshot().storage_loops == {}


def test_other_requests_are_another_try(cluster: Cluster) -> None:
    round_of(cluster, "one", 10)
    round_of(cluster, "two", 20)
    round_of(cluster, "three", 30, requests={"cpu": "1", "ephemeral-storage": "10Gi"})
    assert cluster.snapshot().storage_loops == {}


def test_a_snapshot_with_a_new_loop_has_a_new_version(cluster: Cluster) -> None:
    round_of(cluster, "one", 10)
    pod = notebook("two", version=20)
    before = take(cluster, added(pod)).version
    assert take(cluster, modified(evicted(pod))).version > before
