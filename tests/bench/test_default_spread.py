"""kube-scheduler's default spreading in virtual time."""

from __future__ import annotations

from typing import Any

from bench.life.default_spread import spread_points
from controller.core.api.labels import ZONE
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.view import ClusterView


def pod(number: int, app: str = "web", **spec: Any) -> PodInfo:
    metadata = {"name": f"{app}-{number}", "uid": f"{app}-{number}", "namespace": "day", "labels": {"app": app}}
    return PodInfo({"metadata": metadata, "spec": {"containers": [], **spec}})


def cluster(**replicas: int) -> ClusterView:
    """Nodes `a1`, `b1`, ..., each in the zone of its letter, with so many replicas of `web`, and a few others."""
    view = ClusterView()
    for name, count in replicas.items():
        node = NodeInfo({"metadata": {"name": name, "labels": {ZONE: name[0]}}, "spec": {}, "status": {}})
        view.nodes[name] = node
        for number in range(count):
            node.add(pod(10 * len(view.nodes) + number))
        node.add(pod(len(view.nodes), "other"))
    return view


def points(view: ClusterView, asking: PodInfo) -> dict[str, float]:
    return dict(zip(view.nodes, spread_points(asking, list(view.nodes.values()), view), strict=True))


def test_hosts_with_fewer_replicas_score_higher_and_so_do_zones() -> None:
    found = points(cluster(a1=0, a2=2, b1=2), pod(99))
    assert found["a1"] > found["a2"] == found["b1"]
    found = points(cluster(a1=1, a2=3, b1=1), pod(99))
    assert found["b1"] > found["a1"] > found["a2"]


def test_without_replicas_all_nodes_score_alike() -> None:
    assert set(points(cluster(a1=0, b1=0), pod(99)).values()) == {200}


def test_a_pod_with_constraints_of_its_own_is_spread_by_these_alone() -> None:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    assert set(points(cluster(a1=0, b1=3), pod(99, topologySpreadConstraints=[rule])).values()) == {0.0}
