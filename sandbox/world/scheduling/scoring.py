"""Which of the feasible nodes: the default scores of kube-scheduler, each 0 to 100, with the default profile's
weights."""

from __future__ import annotations

from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.spread import count_domains
from sandbox.world.scheduling.taints import first_untolerated
from sandbox.world.scheduling.view import ClusterView

NON_ZERO_REQUESTS = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""What kube-scheduler assumes in scores of containers that request nothing (100m, 200Mi)."""
TAINT_WEIGHT, AFFINITY_WEIGHT, SPREAD_WEIGHT, LEAST_WEIGHT, BALANCED_WEIGHT = 3, 2, 2, 1, 1


def best_node(pod: PodInfo, feasible: list[NodeInfo], view: ClusterView) -> NodeInfo:
    """The highest score; equal ones by name, so that a run can be repeated (kube-scheduler draws lots)."""
    if len(feasible) == 1:
        return feasible[0]
    totals = scores(pod, feasible, view)
    return min(zip(totals, feasible, strict=True), key=lambda pair: (-pair[0], pair[1].name))[1]


def scores(pod: PodInfo, feasible: list[NodeInfo], view: ClusterView) -> list[float]:
    """Of each node."""
    taints = _normalized([_disliked_taints(pod, node) for node in feasible], reverse=True)
    affinity = _normalized([_preferred_weight(pod, node) for node in feasible])
    spread = _soft_spread(pod, feasible, view)
    return [
        TAINT_WEIGHT * taints[i]
        + AFFINITY_WEIGHT * affinity[i]
        + SPREAD_WEIGHT * spread[i]
        + LEAST_WEIGHT * _least_allocated(pod, node)
        + BALANCED_WEIGHT * _balanced(pod, node)
        for i, node in enumerate(feasible)
    ]


def _fractions(pod: PodInfo, node: NodeInfo) -> list[float]:
    """Used shares of cpu and memory once the pod is there, each 0 to 1."""
    shares = []
    for name, assumed in NON_ZERO_REQUESTS.items():
        limit = node.allocatable.get(name, 0)
        used = node.requested.get(name, 0) + (pod.requests.get(name) or assumed)
        shares.append(min(1.0, used / limit) if limit else 1.0)
    return shares


def _least_allocated(pod: PodInfo, node: NodeInfo) -> float:
    shares = _fractions(pod, node)
    return 100.0 * (1.0 - sum(shares) / len(shares))


def _balanced(pod: PodInfo, node: NodeInfo) -> float:
    cpu, memory = _fractions(pod, node)
    return 100.0 * (1.0 - abs(cpu - memory) / 2)


def _disliked_taints(pod: PodInfo, node: NodeInfo) -> float:
    return float(sum(first_untolerated((t,), pod.tolerations, ("PreferNoSchedule",)) is not None for t in node.taints))


def _preferred_weight(pod: PodInfo, node: NodeInfo) -> float:
    return float(sum(weight for weight, term in pod.preferred_nodes if term.matches(node.name, node.labels)))


def _soft_spread(pod: PodInfo, feasible: list[NodeInfo], view: ClusterView) -> list[float]:
    soft = [constraint for constraint in pod.spread if not constraint.hard]
    crowd = [0.0] * len(feasible)
    for constraint in soft:
        domains = count_domains(pod, constraint, view.nodes.values())
        for i, node in enumerate(feasible):
            crowd[i] += domains.counts.get(node.labels.get(constraint.topology_key, ""), 0)
    return _normalized(crowd, reverse=True)


def _normalized(values: list[float], reverse: bool = False) -> list[float]:
    highest = max(values, default=0.0)
    if highest == 0.0:
        return [100.0 if reverse else 0.0] * len(values)
    return [100.0 * (1.0 - v / highest if reverse else v / highest) for v in values]
