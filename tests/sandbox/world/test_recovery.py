"""The world goes on after the API server was away, dropped its watches or forgot its history; nothing is made twice."""

from __future__ import annotations

import pytest

from sandbox.world.resources import DEPLOYMENTS, PODS
from tests.sandbox.world.conftest import Clusters
from tests.sandbox.world.harness import Cluster


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
