"""No spot node, zone or family carries over its share of a workload's replicas, where that costs little money."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import OwnerReference, Pod
from controller.core.cloud import InstanceType
from controller.core.provisioning import SchedulingPlan, SolveOptions
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.solver.pool_sharing import MOST_PREMIUM, Standing
from tests.core.provisioning.plans import WEB, solved, spread
from tests.factories import instance_type, node, pending_pods, problem, running_pod, state_node

GPU = "nvidia.com/gpu"
FREE, HALF = SolveOptions(spot_pool_share=1.0), SolveOptions(spot_pool_share=0.5)


def deployment(name: str, count: int, cpu: str, memory: str) -> tuple[Pod, ...]:
    owner = OwnerReference("apps/v1", "ReplicaSet", name, f"uid-{name}")
    return pending_pods(count, requests={"cpu": cpu, "memory": memory}, owner=owner)


def posed(*pods: tuple[Pod, ...], capacity_type: str = keys.SPOT) -> SchedulingProblem:
    """Types of three families that hold 16 CPUs and are alike."""
    types = [
        instance_type(name=f"m{n}.4xlarge", cpu=17, memory="66Gi", price=0.8, capacity_types=(capacity_type,))
        for n in range(3)
    ]
    return problem(pending=chain(*pods), catalog=types)


def carried(plan: SchedulingPlan) -> Mapping[str, int]:
    """The most of each workload's replicas that one node carries."""
    most: dict[str, int] = {}
    for each in plan.new_nodes:
        for name, count in workloads(each.pods).items():
            most[name] = max(most.get(name, 0), count)
    return most


@pytest.mark.parametrize(
    "pods",
    [
        (deployment("a", 8, "2", "4Gi"), deployment("b", 8, "2", "4Gi")),
        (deployment("a", 16, "1", "2Gi"), deployment("b", 8, "2", "8Gi")),
        (deployment("a", 8, "2", "2Gi"), deployment("b", 8, "2", "4Gi"), deployment("c", 16, "1", "3Gi")),
    ],
)
def test_pods_change_places_until_no_node_carries_over_half_of_a_workload(pods: tuple[tuple[Pod, ...], ...]) -> None:
    free, half = solved(posed(*pods), FREE), solved(posed(*pods), HALF)
    counts = {f"uid-{name}": len(own) for name, own in zip("abc", pods, strict=False)}
    assert any(most > counts[name] / 2 for name, most in carried(free).items())
    assert all(most <= counts[name] / 2 for name, most in carried(half).items())
    assert sorted(chain(*(node.pods for node in half.new_nodes))) == sorted(pod.key for pod in chain(*pods))
    assert half.cost_per_hour <= (1.0 + MOST_PREMIUM) * free.cost_per_hour


def sized(prices: Mapping[str, float], gpu: str = "") -> list[InstanceType]:
    """Types of these families for 2 to 16 CPUs, at prices for two CPUs; one family has a GPU for every two CPUs."""
    return [
        instance_type(
            name=f"{family}.{size}xlarge",
            cpu=2 * size + 1,
            memory=f"{8 * size + 2}Gi",
            extended={GPU: size} if family == gpu else {},
            price=price * size,
            capacity_types=(keys.SPOT,),
        )
        for family, price in prices.items()
        for size in (1, 2, 4, 8)
    ]


def at_risk(plan: SchedulingPlan, of: SchedulingProblem) -> set[str]:
    return Standing.of(of, SnapshotIndex(of.snapshot)).at_risk(plan, 0.5)


def test_no_zone_and_no_family_carries_over_half_of_a_workload() -> None:
    """Of 9 equal pods four each have a family and a zone, and the odd one a third of each, though that is dearer."""
    pods = [deployment(name, 9, "2", "8Gi") for name in "abcdef"]
    of = problem(pending=chain(*pods), catalog=sized({"m1": 0.1, "m2": 0.1, "m3": 0.11}))
    free, half = solved(of, FREE), solved(of, HALF)
    assert at_risk(free, of) == {f"uid-{name}" for name in "abcdef"}
    assert not at_risk(half, of)
    assert half.expected_price_per_hour <= (1.0 + MOST_PREMIUM) * free.expected_price_per_hour
    assert sorted(chain(*(node.pods for node in half.new_nodes))) == sorted(pod.key for pod in chain(*pods))
    families = {node.offering.instance_type.partition(".")[0] for node in half.new_nodes}
    assert families == {"m1", "m2", "m3"}


def test_a_workload_that_one_family_can_hold_does_not_keep_others_from_being_spread() -> None:
    owner = OwnerReference("apps/v1", "ReplicaSet", "train", "uid-train")
    train = pending_pods(6, requests={"cpu": "1", "memory": "1Gi", GPU: "1"}, owner=owner)
    pods = [deployment(name, 8, "2", "8Gi") for name in "abcdef"]
    of = problem(pending=chain(train, *pods), catalog=sized({"g1": 0.3, "m1": 0.1, "m2": 0.1}, gpu="g1"))
    assert at_risk(solved(of, FREE), of) > {"uid-train"}
    assert at_risk(solved(of, HALF), of) == {"uid-train"}


def test_on_demand_nodes_are_not_reclaimed_so_that_their_pods_stay() -> None:
    pods = (deployment("a", 8, "2", "4Gi"), deployment("b", 8, "2", "4Gi"))
    plans = [solved(posed(*pods, capacity_type=keys.ON_DEMAND), options) for options in (FREE, HALF)]
    assert [node.pods for node in plans[0].new_nodes] == [node.pods for node in plans[1].new_nodes]


def test_a_single_node_is_not_made_two_for_more_money() -> None:
    plan = solved(posed(deployment("a", 8, "2", "4Gi")), HALF)
    assert len(plan.new_nodes) == 1


def test_pods_that_run_count_for_a_spread_over_hosts_when_replicas_are_packed_anew() -> None:
    """Existing nodes have room for more replicas, but as many already as maxSkew allows while other nodes have none.

    The refined packing is what is packed anew here: it has to know of the pods that run (judged by the audit).
    """
    owner = OwnerReference("apps/v1", "ReplicaSet", "web", "uid-web")
    web: dict[str, Any] = {"owner": owner, "labels": WEB, "topology_spread": (spread(keys.HOSTNAME, skew=4),)}
    standing = [
        state_node(
            node=node(name=name, capacity_type=kind, allocatable={"cpu": cpu, "memory": "66Gi", "pods": 50}),
            pods=[running_pod(node=name, requests={"cpu": "10m"}, **web) for _ in range(4)],
        )
        for name, kind, cpu in (
            ("a", keys.SPOT, "9"),
            ("b", keys.SPOT, "9"),
            ("c", keys.SPOT, "5"),
            ("d", keys.ON_DEMAND, "9"),
        )
    ]
    pods = [
        pending_pods(6, requests={"cpu": "500m", "memory": "4Gi"}, **web),
        deployment("b", 24, "3", "7Gi"),
        deployment("c", 24, "1500m", "2Gi"),
    ]
    of = problem(pending=chain(*pods), nodes=standing, catalog=sized({"m1": 0.1, "m2": 0.1, "m3": 0.11}))
    plan = solved(of, HALF)
    assert not {key for each in plan.existing for key in each.pods} & {pod.key for pod in pods[0]}
