"""Readers get immutable snapshots; writers go through the owner thread and learn when their change is in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.kube.client import KubeClient
from controller.kube.informers import Informers
from controller.kube.resources import AWS_NODE_TEMPLATES, CLUSTER_STATE, NODES, PODS, PROVISIONERS
from controller.runtime.clock import SystemClock
from tests.factories import node_object, node_template_object, pod_object, provisioner_object
from tests.kube.documents import fresh
from tests.kube.server import eventually

NEVER = threading.Event()


@pytest.fixture
def informers(crds: KubeClient) -> Iterator[Informers]:
    running = Informers(crds, Cluster(), SystemClock())
    running.start()
    assert running.wait_synced(NEVER, 15)
    yield running
    running.stop()


def test_a_pod_that_is_bound_shows_on_its_node(crds: KubeClient, informers: Informers) -> None:
    crds.create(NODES, fresh(node_object(name="n1")))
    crds.create(PODS, fresh(pod_object(name="p1")), "default")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p1"},
        "target": {"kind": "Node", "name": "n1"},
    }
    crds.create(PODS, binding, "default", name="p1", subresource="binding")

    def on_node() -> list[str]:
        node = informers.snapshot().nodes.get("n1")
        return [pod.name for pod in node.pods] if node else []

    eventually(lambda: on_node() == ["p1"], "the bound pod")


def test_a_waiting_reader_is_woken_by_the_next_snapshot(crds: KubeClient, informers: Informers) -> None:
    before = informers.snapshot()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(informers.wait_for_change, before.version, NEVER, 15.0)
        crds.create(NODES, fresh(node_object(name="n1")))
        assert waiting.result(20).version > before.version


def test_a_waiting_reader_returns_when_time_is_up_or_it_is_told_to_stop(informers: Informers) -> None:
    now = informers.snapshot()
    assert informers.wait_for_change(now.version, NEVER, 0.01) is now
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(informers.wait_for_change, now.version, stop, 60.0)
        stop.set()
        assert waiting.result(15) is now


def test_a_reader_that_is_woken_looks_at_its_stop_flag_at_once(
    informers: Informers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.runtime.cluster_state._STOP_POLL_SECONDS", 600.0)
    now, stop = informers.snapshot(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(informers.wait_for_change, now.version, stop, 600.0)
        stop.set()
        informers.wake()
        assert waiting.result(15) is now


def test_our_own_write_is_in_the_state_before_we_go_on(crds: KubeClient, informers: Informers) -> None:
    created = crds.create(NODES, fresh(node_object(name="n1")))
    informers.submit(lambda cluster: cluster.nominate("n1", until=2e9))
    snapshot = informers.learn(NODES, created).result(10)
    assert snapshot.nodes["n1"].nominated_until == 2e9
    assert snapshot.version <= informers.snapshot().version


def test_a_submitted_change_that_fails_is_its_submitters_and_harms_nobody(informers: Informers) -> None:
    def fail(_cluster: Cluster) -> None:
        raise ZeroDivisionError("a bug")

    with capture_logs() as logs:
        failed = informers.submit(fail)
        with pytest.raises(ZeroDivisionError):
            failed.result(10)
        assert informers.submit(lambda cluster: cluster.nominate("x", 1.0)).result(10)
    assert [line["event"] for line in logs] == ["Submitted change of the cluster state failed"]


def test_nominations_run_out_by_themselves(crds: KubeClient, informers: Informers) -> None:
    informers.learn(NODES, crds.create(NODES, fresh(node_object(name="n1"))))
    snapshot = informers.submit(lambda cluster: cluster.nominate("n1", SystemClock().now() + 0.5)).result(10)
    assert snapshot.nodes["n1"].nominated_until > 0.0, "from when the change is made, however late that is"
    eventually(lambda: informers.snapshot().nodes["n1"].nominated_until == 0.0, "the end of the nomination")


def test_invalid_objects_are_counted_said_once_and_stop_nothing(crds: KubeClient, informers: Informers) -> None:
    """The API server's schema lets this pass; the rule that it breaks is ours alone."""
    inconsistent = {"limits": {"resources": {"cpu": "many"}}}
    with capture_logs() as logs:
        crds.create(PROVISIONERS, fresh(provisioner_object(name="good")))
        bad = provisioner_object(name="bad", spec=inconsistent)
        informers.learn(PROVISIONERS, {**bad, "metadata": {**bad["metadata"], "resourceVersion": "1000000"}})
        crds.create(AWS_NODE_TEMPLATES, fresh(node_template_object()))
        eventually(lambda: "default" in informers.snapshot().node_templates, "the template")
    snapshot = informers.snapshot()
    assert list(snapshot.provisioners) == ["good"]
    assert list(snapshot.invalid) == [("Provisioner", "bad")]
    assert informers.malformed == 1
    said = [line for line in logs if line["event"] == "Object is invalid and ignored"]
    assert [(line["kind"], line["name"]) for line in said] == [("Provisioner", "bad")]
    assert "spec.limits.resources.cpu" in said[0]["error"]


def test_a_storm_becomes_few_snapshots(informers: Informers) -> None:
    """500 changes that are waiting are not 500 snapshots."""
    before = informers.snapshot().version
    gate = threading.Event()
    informers.submit(lambda _cluster: (gate.wait(10), None)[1])
    for number in range(500):
        last = informers.learn(NODES, node_object(name=f"n{number}", resourceVersion="1000000"))
    gate.set()
    snapshot = last.result(10)
    assert len(snapshot.nodes) == 500
    assert snapshot.version - before < 50


def test_after_stop_the_last_snapshot_stays_and_nobody_waits_in_vain(crds: KubeClient) -> None:
    informers = Informers(crds, Cluster(), SystemClock())
    informers.start()
    assert informers.wait_synced(NEVER, 15)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(informers.wait_for_change, 10**9, NEVER, 600.0)
        informers.stop()
        assert waiting.result(15).synced
    assert informers.submit(lambda cluster: cluster.nominate("x", 1.0)).cancelled()


def test_a_change_that_cannot_be_applied_does_not_end_the_owner(informers: Informers) -> None:
    with capture_logs() as logs:
        informers.submit(lambda cluster: cluster.nominate("x", 1.0)).result(10)
        informers.take(Change("NoSuchKind", ChangeType.ADDED, ()))
        assert informers.submit(lambda cluster: cluster.nominate("x", 2.0)).result(10)
    assert [line["event"] for line in logs] == ["Change could not be applied"]


def test_every_kind_of_the_state_is_watched() -> None:
    assert Cluster([resource.kind for resource in CLUSTER_STATE]).unsynced() == Cluster().unsynced()
