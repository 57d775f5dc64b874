"""An API server that is away, has forgotten, or has no time: nothing is lost, nothing removed for want of data."""

from __future__ import annotations

import time

from e2e.audit import refused, tally
from e2e.scenario import Scenario
from e2e.workloads import affinity, deployment
from sandbox.world.resources import PODS, Obj

OUTAGE_SECONDS = 30.0
"""Longer than a lease lasts: whoever led has ended by then."""
CROWD = 10
"""Nodes that are written at the same time."""
FLOW = "flowcontrol.apiserver.k8s.io/v1"


def test_the_api_server_is_away_for_half_a_minute(world: Scenario) -> None:
    """Running nodes and their pods stay as they are; what was being launched is found again, what waits is served."""
    cluster = world.cluster
    world.provisioner()
    world.deploy(deployment("old", 2), deployment("new", 0))
    kept = {pod["metadata"]["uid"] for pod in world.running("old", 2)}
    world.scale("deployment/new", 4)
    cluster.until(lambda: len(cluster.instances()) > 1, "another instance is launched")
    cluster.plane.stop_apiserver()
    time.sleep(OUTAGE_SECONDS)
    assert cluster.instances(), "nothing is removed because nothing is seen"
    cluster.plane.start_apiserver()
    cluster.plane.restart_components()
    world.running("new", 4)
    assert {pod["metadata"]["uid"] for pod in cluster.pods(world.namespace, "old")} == kept
    cluster.until(lambda: len(cluster.instances()) == len(cluster.nodes()), "every instance has its node")


def test_etcd_is_compacted_under_the_watches(world: Scenario) -> None:
    """Who watches on from a version that is compacted away gets 410: the controller lists anew, and misses nothing."""
    cluster = world.cluster
    world.provisioner()
    path = PODS.path()
    seen = cluster.http.get(path, limit=1).ok()["metadata"]["resourceVersion"]
    world.deploy(deployment("web", 1))
    world.running("web", 1)
    cluster.plane.stop_apiserver()
    cluster.plane.compact()
    asked = cluster.audit.mark()
    cluster.plane.start_apiserver()
    cluster.plane.restart_components()
    (gone,) = list(cluster.http.watch(path, resourceVersion=seen))
    assert gone["object"]["code"] == 410
    cluster.until(lambda: tally(cluster.audit.since(asked))["list pods"], "the controller lists pods anew")
    world.scale("deployment/web", 5)
    world.running("web", 5)


def test_the_api_server_has_no_time_for_us(world: Scenario) -> None:
    """Priority and fairness answers what the controller writes side by side with 429: it tries again, and launches no
    node twice. Watches and the lease get through, as with a server that is merely busy."""
    cluster = world.cluster
    world.provisioner()
    cluster.apply(*_jail())
    asked = cluster.audit.mark()
    try:
        world.deploy(deployment("web", CROWD, affinity=affinity("podAntiAffinity", "web", "kubernetes.io/hostname")))
        world.running("web", CROWD)
        assert refused(cluster.audit.since(asked), 429)
    finally:
        for document in _jail():
            cluster.kubectl("delete", document["kind"], document["metadata"]["name"])
    assert len(cluster.instances()) == len(cluster.nodes()) == CROWD


def _jail() -> tuple[Obj, Obj]:
    """A priority level with room for one request at a time, and no queue, for what the controller does to nodes."""
    limits = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    level = {"type": "Limited", "limited": limits}
    subject = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "karpenter", "name": "karpenter"}}
    rule = {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes"], "clusterScope": True}
    flow = {
        "priorityLevelConfiguration": {"name": "jail"},
        "matchingPrecedence": 10,
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    return (
        {"apiVersion": FLOW, "kind": "PriorityLevelConfiguration", "metadata": {"name": "jail"}, "spec": level},
        {"apiVersion": FLOW, "kind": "FlowSchema", "metadata": {"name": "jail"}, "spec": flow},
    )
