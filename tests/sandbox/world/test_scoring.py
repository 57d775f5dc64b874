"""Which of several feasible nodes the scheduler takes."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.world.resources import Obj
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.scoring import best_node
from tests.sandbox.world.builders import cluster, expression, node, pod, spread


def _best(candidate: Obj, nodes: list[Obj], pods: list[Obj]) -> str:
    view = cluster(nodes, pods)
    return best_node(PodInfo(candidate), list(view.nodes.values()), view).name


def _soft(**fields: Any) -> Obj:
    return {**spread(labels={"app": "x"}), "whenUnsatisfiable": "ScheduleAnyway", **fields}


PREFER_TWO = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 10, "preference": {"matchExpressions": [expression("kubernetes.io/hostname", "In", "two")]}}
        ]
    }
}


@pytest.mark.parametrize(
    ("candidate", "pods", "expected"),
    [
        (pod(requests={"cpu": "1"}), [pod(on="one", requests={"cpu": "2"})], "two"),
        (pod(affinity=PREFER_TWO), [pod(on="two", requests={"cpu": "1", "memory": "2Gi"})], "two"),
        (
            pod(labels={"app": "x"}, topologySpreadConstraints=[_soft()]),
            [pod(on="one", labels={"app": "x"}), pod(on="two", requests={"cpu": "500m", "memory": "1Gi"})],
            "two",
        ),
        (pod(), [], "one"),
    ],
    ids=["the emptier node", "preferred affinity outweighs load", "soft spread outweighs load", "ties by name"],
)
def test_best_node(candidate: Obj, pods: list[Obj], expected: str) -> None:
    assert _best(candidate, [node("one", zone="a"), node("two", zone="b")], pods) == expected


def test_a_soft_taint_repels_while_another_node_is_there() -> None:
    """PreferNoSchedule lowers the score, and more than load does."""
    soft = node("soft", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    assert _best(pod(), [soft, node("busy")], [pod(on="busy", requests={"cpu": "2"})]) == "busy"
