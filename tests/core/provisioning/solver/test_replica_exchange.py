"""No spot node carries more than its share of a workload's replicas, where others can carry them for little money."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import OwnerReference, Pod
from controller.core.provisioning import SchedulingPlan, SolveOptions
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.solver.pool_sharing import MOST_PREMIUM
from tests.core.provisioning.plans import solved
from tests.factories import instance_type, pending_pods, problem

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
    for node in plan.new_nodes:
        for name, count in workloads(node.pods).items():
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


def test_on_demand_nodes_are_not_reclaimed_so_that_their_pods_stay() -> None:
    pods = (deployment("a", 8, "2", "4Gi"), deployment("b", 8, "2", "4Gi"))
    plans = [solved(posed(*pods, capacity_type=keys.ON_DEMAND), options) for options in (FREE, HALF)]
    assert [node.pods for node in plans[0].new_nodes] == [node.pods for node in plans[1].new_nodes]


def test_a_single_node_is_not_made_two_for_more_money() -> None:
    plan = solved(posed(deployment("a", 8, "2", "4Gi")), HALF)
    assert len(plan.new_nodes) == 1
