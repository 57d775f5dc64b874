"""Pods of many sizes run where one plan has them: on new nodes, and on nodes in service when others are removed.

They are bound to new nodes before these open together, and to nodes in service while these are closed to other pods.
"""

from __future__ import annotations

from e2e.cluster import Cluster, condition
from e2e.placement import Verdict, bound_to
from e2e.scenario import Scenario, scenario
from e2e.workloads import deployment
from sandbox.environment import REGION
from sandbox.world.resources import NODES, Obj

ZONE = "topology.kubernetes.io/zone"
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
    """One node's pods go to two others, each of which may take those of one size; both are closed meanwhile.

    When these pods come, the nodes of zones b and c are full, so that they get a node in zone a.
    """
    cluster = world.cluster
    xlarge = {"key": "karpenter.k8s.aws/instance-size", "operator": "In", "values": ["xlarge"]}
    world.provisioner(consolidation={"enabled": True}, requirements=[xlarge])
    full = {"stays-b": ("1", "b"), "goes-b": ("2600m", "b"), "stays-c": ("1", "c"), "goes-c": ("2600m", "c")}
    movers = {"to-b": ("600m", "ab"), "to-c": ("700m", "ac")}
    world.deploy(*(deployment(app, 1, cpu=cpu, affinity=_in_zones(zones)) for app, (cpu, zones) in full.items()))
    for app in full:
        world.running(app, 1)
    world.deploy(*(deployment(app, 2, cpu=cpu, affinity=_in_zones(zones)) for app, (cpu, zones) in movers.items()))
    (home,) = {bound_to(pod) for app in movers for pod in world.running(app, 2)}
    third = cluster.get(NODES, home)
    assert third is not None
    launched = {each["instanceId"] for each in cluster.environment.instances()}
    logged = cluster.replicas.mark()
    for app in ("goes-b", "goes-c"):
        world.scale(f"deployment/{app}", 0)
    cluster.until(lambda: cluster.has_left(third), "the third node goes", 150)
    cluster.until(lambda: not any(map(_closed, cluster.all(NODES))), "the others take other pods again")
    for app in movers:
        (place,) = {bound_to(pod) for pod in world.running(app, 2)}
        assert place in {bound_to(pod) for pod in world.running(app.replace("to", "stays"), 1)}
    assert "Closed nodes while pods move to them" in [line["message"] for line in cluster.replicas.lines(logged)]
    assert {each["instanceId"] for each in cluster.environment.instances()} == launched


def _in_zones(letters: str) -> Obj:
    zones = {"key": ZONE, "operator": "In", "values": [f"{REGION}{letter}" for letter in letters]}
    terms = [{"matchExpressions": [zones]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _closed(node: Obj) -> bool:
    return any(taint["key"] == "karpenter.sh/closed" for taint in node["spec"].get("taints", []))


def _unschedulable(pod: Obj) -> bool:
    return condition(pod, "PodScheduled") == "False"
