"""The world goes on after the API server was away, dropped its watches or forgot its history; nothing is made twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import controlplane
from sandbox.world import client
from sandbox.world.resources import DEPLOYMENTS, PODS
from sandbox.world.world import serve
from tests.sandbox.world.conftest import Clusters
from tests.sandbox.world.harness import FAST, Cluster, ScriptedCloud


@pytest.fixture
def kube(clusters: Clusters) -> Cluster:
    """On the embedded server only: it can be told to fail."""
    return Cluster(*clusters.get("embedded"), real=False)


@pytest.mark.parametrize(
    "fault",
    [{"kind": "outage", "seconds": 1.0}, {"kind": "compact"}, {"kind": "drop-watches"},
     {"kind": "errors", "seconds": 1.0, "code": 500, "rate": 0.5}],
    ids=["outage", "410", "dropped watches", "every second call fails"],
)  # fmt: skip
def test_scaling_through_trouble_ends_with_the_right_number(kube: Cluster, fault: dict[str, object]) -> None:
    """Exactly as many pods as asked for, all Running."""
    kube.machine()
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": kube.pod_spec()},
    }
    kube.create(DEPLOYMENTS, "web", spec)
    kube.eventually(lambda: len(kube.list(PODS, "app=x")) == 2)
    kube.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 7}})
    kube.call("POST", "/sandbox/faults", fault)
    kube.eventually(lambda: kube.healthy_pods("app=x") == 7)
    kube.call("DELETE", "/sandbox/faults")
    kube.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
    kube.eventually(lambda: kube.healthy_pods("app=x") == len(kube.list(PODS, "app=x")) == 1)


def test_a_world_that_starts_again_finds_its_machines_and_pods(tmp_path: Path) -> None:
    """Running pods stay as they are, nothing is made twice, and what is asked for afterwards happens."""
    cloud = ScriptedCloud()
    with controlplane.start("embedded", state=tmp_path) as running:
        assert running.kubeconfig is not None
        with serve(running.kubeconfig, cloud=cloud, settings=FAST):
            kube = Cluster(running, cloud, real=False)
            name = kube.machine()
            spec = {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": kube.pod_spec()},
            }
            kube.create(DEPLOYMENTS, "web", spec)
            kube.eventually(lambda: kube.healthy_pods("app=x") == 3)
            before = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in kube.list(PODS)}
        kube.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}})
        with serve(running.kubeconfig, cloud=cloud, settings=FAST):
            kube.eventually(lambda: kube.healthy_pods("app=x") == 4)
            after = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in kube.list(PODS)}
            assert before.items() <= after.items()
            assert len(set(after.values())) == 4
            assert [node["metadata"]["name"] for node in (kube.call("GET", "/api/v1/nodes") or {})["items"]] == [name]
            kube.delete(DEPLOYMENTS, "web")
            kube.eventually(lambda: not kube.list(PODS))


def test_watches_that_fall_silent_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that stay open and say nothing: after the silence limit the world watches anew and catches up."""
    monkeypatch.setattr(client, "WATCH_SILENCE_SECONDS", 1.0)
    cloud = ScriptedCloud()
    with controlplane.start("embedded", state=tmp_path) as running:
        assert running.kubeconfig is not None
        with serve(running.kubeconfig, cloud=cloud, settings=FAST):
            kube = Cluster(running, cloud, real=False)
            kube.machine()
            kube.call("POST", "/sandbox/faults", {"kind": "silent-watches"})
            kube.create(PODS, "late", kube.pod_spec())
            kube.eventually(lambda: (kube.get(PODS, "late") or {})["status"].get("phase") == "Running")
