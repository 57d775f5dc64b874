"""Pods of many sizes run where one plan has them: on new nodes, and on nodes in service when others are removed.

They are bound to new nodes before these open together, and to nodes in service while these are closed to other pods.
"""

from __future__ import annotations

from e2e.cluster import Cluster, condition
from e2e.placement import Verdict
from e2e.scenario import Scenario, scenario
from e2e.workloads import deployment
from sandbox.world.resources import NODES, Obj

OWN = {"nodes": "of-placing"}
"""What every pod selects, so that nothing is planned before the Provisioner is there: then all is one plan."""
SIZES = {"large": (4, "1500m", "1Gi"), "small": (30, "150m", "100Mi"), "memory": (6, "200m", "3Gi")}
"""Replicas, CPU and memory."""
TYPES = {"key": "karpenter.k8s.aws/instance-size", "operator": "In", "values": ["large", "xlarge"]}
"""So that there are several nodes."""


def test_pods_of_many_sizes_run_where_one_plan_has_them(cluster: Cluster) -> None:
    with scenario(cluster, "placing") as started:
        started.deploy(
            *(
                deployment(name, replicas, requests={"cpu": cpu, "memory": memory}, nodeSelector=OWN)
                for name, (replicas, cpu, memory) in SIZES.items()
            )
        )
        count = sum(replicas for replicas, _, _ in SIZES.values())
        marked = "kube-scheduler has tried every pod"
        cluster.until(lambda: sum(map(_unschedulable, cluster.pods(started.namespace))) == count, marked)
        started.provisioner(labels=OWN, requirements=[TYPES])
        cluster.until(lambda: len(started.placements()) == count, "every pod is planned for")
        assert len(cluster.nodes("placing")) > 1
        for name, (replicas, _, _) in SIZES.items():
            started.running(name, replicas)
        assert not [n["metadata"]["name"] for n in cluster.all(NODES) if n["spec"].get("unschedulable")]
        assert not [n for n in cluster.all(NODES) if "karpenter.sh/opens-with" in n["metadata"].get("annotations", {})]
        elsewhere = [each for each in started.placements() if each.verdict != Verdict.AS_PLANNED]
        assert not elsewhere, "\n".join(map(str, elsewhere))


def test_pods_of_removed_nodes_come_to_their_places_on_nodes_in_service(world: Scenario) -> None:
    """No node is launched for them, though kube-scheduler alone might mix them so that one has no room."""
    cluster = world.cluster
    xlarge = {"key": "karpenter.k8s.aws/instance-size", "operator": "In", "values": ["xlarge"]}
    world.provisioner(consolidation={"enabled": True}, requirements=[xlarge])
    world.deploy(
        deployment("filler", 16, requests={"cpu": "600m", "memory": "1Gi"}),
        *(
            deployment(name, replicas, requests={"cpu": cpu, "memory": memory})
            for name, (replicas, cpu, memory) in SIZES.items()
        ),
    )
    count = sum(replicas for replicas, _, _ in SIZES.values())
    for name, replicas in (("filler", 16), *((name, each[0]) for name, each in SIZES.items())):
        world.running(name, replicas)
    launched = {each["instanceId"] for each in cluster.environment.instances()}
    nodes, logged = len(cluster.nodes(world.namespace)), cluster.replicas.mark()
    world.scale("deployment/filler", 0)
    cluster.until(lambda: len(cluster.nodes(world.namespace)) < nodes, "a node goes", 150)
    moved = "Closed nodes while pods move to them"
    cluster.until(lambda: any(line["message"] == moved for line in cluster.replicas.lines(logged)), moved, 150)
    cluster.until(lambda: not any(map(_closed, cluster.all(NODES))), "nodes in service take other pods again")
    cluster.until(lambda: sum(map(_running, cluster.pods(world.namespace))) == count, "all pods run again")
    assert {each["instanceId"] for each in cluster.environment.instances()} == launched


def _closed(node: Obj) -> bool:
    return any(taint["key"] == "karpenter.sh/closed" for taint in node["spec"].get("taints", []))


def _running(pod: Obj) -> bool:
    return condition(pod, "Ready") == "True"


def _unschedulable(pod: Obj) -> bool:
    return condition(pod, "PodScheduled") == "False"
