"""Pods of many sizes run where one plan has them: they are bound there before its nodes open together."""

from __future__ import annotations

from e2e.cluster import Cluster, condition
from e2e.placement import Verdict
from e2e.scenario import scenario
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


def _unschedulable(pod: Obj) -> bool:
    return condition(pod, "PodScheduled") == "False"
