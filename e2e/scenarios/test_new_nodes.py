"""What kube-controller-manager makes of the Nodes that the controller creates before their kubelets register."""

from __future__ import annotations

import json

from e2e.cluster import Cluster, condition
from e2e.scenario import scenario
from e2e.workloads import deployment
from sandbox.world.resources import NODES, Obj

NOT_READY = "node.kubernetes.io/not-ready"


def test_a_new_node_has_the_taint_not_ready_until_its_kubelet_is_ready(cluster: Cluster) -> None:
    """kube-controller-manager takes the taint off a Node without a Ready condition (ADR 87)."""
    with scenario(cluster, "new-node") as started:
        before = cluster.http.get(NODES.path(), limit=1).ok()["metadata"]["resourceVersion"]
        started.provisioner()
        started.deploy(deployment("web", 1))
        started.running("web", 1)
        (node,) = cluster.nodes("new-node")
        states = _states(cluster, node["metadata"]["name"], before)
        booting = [state for state in states if condition(state, "Ready") != "True"]
        assert len(booting) >= 2, "as it was created, and as its kubelet registered"
        assert all(NOT_READY in _taints(state) for state in booting)
        cluster.until(lambda: NOT_READY not in _taints(cluster.nodes("new-node")[0]), "the taint is off")


def _states(cluster: Cluster, name: str, since: str) -> list[Obj]:
    """Return what watchers of Nodes have seen of one since a resource version."""
    query = f"watch=true&resourceVersion={since}&timeoutSeconds=2&fieldSelector=metadata.name%3D{name}"
    events = map(json.loads, cluster.kubectl("get", "--raw", f"{NODES.path()}?{query}").splitlines())
    return [event["object"] for event in events if event["type"] in ("ADDED", "MODIFIED")]


def _taints(node: Obj) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints", [])}
