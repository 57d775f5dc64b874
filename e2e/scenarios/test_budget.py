"""What a node costs the API server: a budget of requests, from the first look at its pods to its removal."""

from __future__ import annotations

from e2e.audit import tally
from e2e.cluster import labels
from e2e.scenario import Scenario
from e2e.workloads import affinity, deployment

NODES = 12
LAUNCH_BUDGET = 9.0
"""Requests a node until its pod runs and it is initialized: create, registration, initialization, and the pods' events;
and its share of what comes once a batch: conditions, counters, the lease."""
REMOVAL_BUDGET = 10.0
"""Requests a node from its deletion to its end: cordon, eviction, finalizer, events."""


def test_requests_a_node(world: Scenario) -> None:
    """Every node has one pod; the count is the API server's own."""
    cluster = world.cluster
    world.provisioner()
    asked = cluster.audit.mark()
    world.deploy(deployment("web", NODES, affinity=affinity("podAntiAffinity", "web", "kubernetes.io/hostname")))
    world.running("web", NODES)
    cluster.until(lambda: _initialized(world), "every node is initialized")
    launching = tally(cluster.audit.since(asked))
    asked = cluster.audit.mark()
    world.scale("deployment/web", 0)
    cluster.kubectl("delete", "nodes", "--selector", "karpenter.sh/provisioner-name", "--wait=false")
    cluster.until(lambda: not cluster.nodes(), "the nodes are gone")
    removing = tally(cluster.audit.since(asked))
    print(f"\nlaunch: {launching.total() / NODES:.1f} a node {dict(launching)}")
    print(f"removal: {removing.total() / NODES:.1f} a node {dict(removing)}")
    assert launching.total() / NODES <= LAUNCH_BUDGET, dict(launching)
    assert removing.total() / NODES <= REMOVAL_BUDGET, dict(removing)


def _initialized(world: Scenario) -> bool:
    nodes = world.cluster.nodes(world.namespace)
    return len(nodes) == NODES and all(labels(node).get("karpenter.sh/initialized") == "true" for node in nodes)
