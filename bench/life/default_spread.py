"""kube-scheduler's default spreading: it prefers nodes and zones with few pods of the same workload.

What PodTopologySpread scores where a pod has no constraints of its own: skews of 3 between hosts and 5 between zones,
neither enforced (its `systemDefaulted` constraints). The workload is told by the label `app` here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from controller.core.api.labels import ZONE
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.scoring import SPREAD_WEIGHT
from sandbox.world.scheduling.view import ClusterView

HOST_SKEW, ZONE_SKEW = 3, 5


def spread_points(pod: PodInfo, nodes: Sequence[NodeInfo], view: ClusterView) -> list[float]:
    """Return the weighted score of each of these feasible nodes; 0 for a pod with constraints of its own."""
    if pod.spread:
        return [0.0] * len(nodes)
    here = {node.name: _count(pod, node) for node in view.nodes.values()}
    zones = Counter[str]()
    for node in view.nodes.values():
        zones[node.labels.get(ZONE, "")] += here[node.name]
    host_weight = math.log(len(nodes) + 2)
    zone_weight = math.log(len({node.labels.get(ZONE, "") for node in nodes}) + 2)
    crowds = [
        round(
            here[node.name] * host_weight
            + (HOST_SKEW - 1)
            + zones[node.labels.get(ZONE, "")] * zone_weight
            + (ZONE_SKEW - 1)
        )
        for node in nodes
    ]
    least, most = min(crowds), max(crowds)
    return [SPREAD_WEIGHT * math.floor(100 * (most + least - crowd) / most) for crowd in crowds]


def _count(pod: PodInfo, node: NodeInfo) -> int:
    app = pod.labels.get("app")
    same = (each for each in node.pods.values() if each.namespace == pod.namespace and not each.terminating)
    return sum(each.labels.get("app") == app for each in same)
