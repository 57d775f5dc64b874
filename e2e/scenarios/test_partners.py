"""Kube-scheduler binds pods one by one, and not always where a plan put them side by side: who must follow, follows."""

from __future__ import annotations

from e2e.placement import bound_to
from e2e.scenario import Scenario, zone_of
from e2e.workloads import affinity, deployment
from sandbox.world.resources import EVENTS, NODES, Obj

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
FAR_ZONE = "ap-northeast-2c"
"""Not the one that a plan would take by itself."""
HOLD = {"key": "example.com/hold", "effect": "NoSchedule"}
BOOT = {"key": "example.com/booting", "effect": "NoSchedule"}
CPUS = "karpenter.k8s.aws/instance-cpu"


def test_a_pod_follows_its_partner_into_the_zone_where_that_one_was_bound(world: Scenario) -> None:
    """Both are planned for one new node; while it boots, the partner is bound to a node of another zone."""
    cluster, ours = world.cluster, {"nodes": "of-partners"}
    small = [{"key": CPUS, "operator": "In", "values": ["2"]}]
    world.provisioner("spare", labels={**ours, "spare": "yes"}, taints=[HOLD], requirements=small)
    tolerated = {"tolerations": [{"key": HOLD["key"], "operator": "Exists"}]}
    world.deploy(deployment("filler", 1, cpu="1200m", nodeSelector={"spare": "yes", ZONE: FAR_ZONE}, **tolerated))
    (filler,) = world.running("filler", 1)

    world.provisioner("pair", labels=ours, startupTaints=[BOOT])
    follows = affinity("podAffinity", "partner", ZONE)
    world.deploy(
        deployment("partner", 1, cpu="200m", nodeSelector=ours),
        deployment("follower", 1, cpu="1", nodeSelector=ours, affinity=follows),
    )
    planned = cluster.until(lambda: cluster.nodes("pair"), "a node is made for the two")
    assert {zone_of(node) for node in planned} != {FAR_ZONE}
    cluster.kubectl("taint", "node", bound_to(filler), f"{HOLD['key']}-")
    (partner,) = world.running("partner", 1)
    assert bound_to(partner) == bound_to(filler)

    def near() -> list[Obj]:
        return [node for node in cluster.nodes("pair") if zone_of(node) == FAR_ZONE]

    (node,) = cluster.until(near, "a node is made where the partner is")
    cluster.kubectl("taint", "node", node["metadata"]["name"], f"{BOOT['key']}-")
    (follower,) = world.running("follower", 1)
    assert bound_to(follower) == node["metadata"]["name"]


def test_a_pod_whose_partner_has_no_room_beside_it_is_told_with_whom_and_what_helps(world: Scenario) -> None:
    """No new node can help; the event names the partner and its node, and what it advises does help."""
    cluster, ours = world.cluster, {"nodes": "of-hosts"}
    world.provisioner(labels=ours, requirements=[{"key": CPUS, "operator": "In", "values": ["2", "4"]}])
    world.deploy(deployment("partner", 1, cpu="1500m", nodeSelector=ours))
    (partner,) = world.running("partner", 1)
    home, name = bound_to(partner), partner["metadata"]["name"]
    follows = affinity("podAffinity", "partner", HOST)
    world.deploy(deployment("follower", 1, cpu="1", nodeSelector=ours, affinity=follows))
    said = cluster.until(lambda: _told(world, "follower"), "the follower is told why it waits")
    assert f"{world.namespace}/{name} on {home} (" in said
    assert " CPU free)" in said
    assert "No new node helps" in said
    assert {node["metadata"]["name"] for node in cluster.nodes()} == {home}

    cluster.kubectl("cordon", home)
    cluster.kubectl("delete", "pod", name, "--namespace", world.namespace)
    (follower,) = world.running("follower", 1)
    (partner,) = world.running("partner", 1)
    assert bound_to(follower) == bound_to(partner) != home
    assert bound_to(follower) in {node["metadata"]["name"] for node in cluster.all(NODES)}


def _told(world: Scenario, app: str) -> str:
    """Return the controller's FailedScheduling message for an app's pod; empty while there is no pod or no event."""
    uids = {pod["metadata"]["uid"] for pod in world.cluster.pods(world.namespace, app)}
    for event in world.cluster.all(EVENTS, world.namespace):
        about_the_pod = event["involvedObject"].get("uid") in uids and event["reason"] == "FailedScheduling"
        if about_the_pod and "its pod affinity" in event["message"]:
            return str(event["message"])
    return ""
