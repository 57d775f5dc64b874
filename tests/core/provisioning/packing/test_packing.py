"""First plans, and small refined ones: pods of different shapes on one node, limits, capacity types."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.provisioning import SolveOptions
from tests.core.provisioning.plans import FIRST, in_zones, solved
from tests.factories import (
    ZONES,
    instance_type,
    pending_pod,
    pending_pods,
    problem,
    provisioner,
    requirement,
)


def test_filling_mixes_shapes_where_packing_class_by_class_wastes() -> None:
    """Pods that need much cpu and pods that need much memory fill nodes of one type together."""
    pods = [
        *pending_pods(40, requests={"cpu": "3", "memory": "2Gi"}),
        *pending_pods(40, requests={"cpu": "1", "memory": "12Gi"}),
    ]
    catalog = [instance_type(name="m5.4xlarge", cpu=16, memory="56Gi", pods=100, price=0.8)]
    plan = solved(problem(pending=pods, catalog=catalog))
    assert len(plan.new_nodes) == 10


@pytest.mark.parametrize("budget", [0.0, 1.0])
def test_both_ways_of_packing_place_everything_and_pass_the_audit(budget: float) -> None:
    pods = [
        pending_pod(requests={"cpu": f"{100 + 170 * (n % 9)}m", "memory": f"{200 + 300 * (n % 7)}Mi"})
        for n in range(120)
    ]
    plan = solved(problem(pending=pods), SolveOptions(budget_seconds=budget))
    assert plan.unplaced == ()


def test_a_budget_never_makes_a_plan_dearer() -> None:
    pods = [pending_pod(requests={"cpu": f"{300 + 410 * (n % 8)}m", "memory": f"{1 + n % 6}Gi"}) for n in range(60)]
    first = solved(problem(pending=pods), SolveOptions(budget_seconds=0.0))
    refined = solved(problem(pending=pods), SolveOptions(budget_seconds=10.0))
    cost = [plan.price_per_hour + 0.002 * len(plan.new_nodes) for plan in (first, refined)]
    assert cost[1] <= cost[0]


def test_a_heavier_provisioner_is_taken_unless_it_is_much_dearer() -> None:
    heavy = provisioner(name="heavy", weight=10, requirements=[requirement(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND)])
    light = provisioner(name="light", requirements=[requirement(keys.CAPACITY_TYPE, "In", keys.SPOT)])
    posed = problem(pending=[pending_pod()], provisioners=[heavy, light])
    assert solved(posed).new_nodes[0].provisioner == "light"
    always = SolveOptions(weight_premium=None)
    assert solved(posed, always).new_nodes[0].provisioner == "heavy"


def test_limits_go_to_the_pods_that_depend_on_them() -> None:
    """Pods that only the limited Provisioner serves are placed, although larger ones could use it too."""
    pools = [
        provisioner(name="limited", weight=100, labels={"tier": "arm"}, limits={"cpu": "8"}),
        provisioner(name="open"),
    ]
    tied = pending_pods(6, node_selector={"tier": "arm"}, requests={"cpu": "900m"})
    free = pending_pods(10, requests={"cpu": "1900m"})
    plan = solved(problem(pending=[*tied, *free], provisioners=pools))
    assert plan.unplaced == ()


def test_limits_that_are_too_small_go_to_as_many_pods_as_they_can() -> None:
    pool = provisioner(limits={"cpu": "4"})
    small, large = pending_pods(6, requests={"cpu": "600m"}), pending_pods(2, requests={"cpu": "3500m"})
    plan = solved(problem(pending=[*small, *large], provisioners=[pool]))
    assert {left.pod for left in plan.unplaced} == {pod.key for pod in large}


def test_limits_on_one_resource_are_not_wasted_for_want_of_another() -> None:
    """Pods that need memory, under a limit on cpu: the type with more memory per cpu holds more of them."""
    catalog = [
        instance_type(name="c6g.xlarge", cpu=4, memory="8Gi", price=0.10, capacity_types=(keys.ON_DEMAND,)),
        instance_type(name="r6g.xlarge", cpu=4, memory="32Gi", price=0.14, capacity_types=(keys.ON_DEMAND,)),
    ]
    pods = pending_pods(30, requests={"cpu": "500m", "memory": "3500Mi"})
    plan = solved(problem(pending=pods, provisioners=[provisioner(limits={"cpu": "8"})], catalog=catalog), FIRST)
    assert {planned.offering.instance_type for planned in plan.new_nodes} == {"r6g.xlarge"}
    assert sum(len(planned.pods) for planned in plan.new_nodes) >= 14


def test_limits_go_first_to_the_pods_that_take_least_of_what_is_limited() -> None:
    """Under a limit on cpu, pods with little cpu and much memory come before pods with one cpu and little memory."""
    pool = provisioner(limits={"cpu": "4"})
    kind = instance_type(name="r5.xlarge", cpu=4, memory="32Gi", price=0.2, capacity_types=(keys.ON_DEMAND,))
    lean = pending_pods(6, requests={"cpu": "250m", "memory": "4Gi"})
    thirsty = pending_pods(6, requests={"cpu": "1", "memory": "256Mi"})
    plan = solved(problem(pending=[*lean, *thirsty], provisioners=[pool], catalog=[kind]), FIRST)
    placed = {key for planned in plan.new_nodes for key in planned.pods}
    assert {pod.key for pod in lean} <= placed
    assert len(placed) == 8


def test_a_node_under_limits_is_cut_to_what_it_holds_so_that_more_fit() -> None:
    pool = provisioner(limits={"cpu": "6"}, requirements=[requirement(keys.INSTANCE_FAMILY, "In", "m5")])
    wide = pending_pods(1, requests={"cpu": "1500m"}, required_node_affinity=in_zones(ZONES[0]))
    other = pending_pods(2, requests={"cpu": "1500m"}, required_node_affinity=in_zones(ZONES[1]))
    assert solved(problem(pending=[*wide, *other], provisioners=[pool])).unplaced == ()


ON_DEMAND_ONLY = {keys.CAPACITY_TYPE: keys.ON_DEMAND}


def test_a_pod_that_needs_on_demand_does_not_make_a_whole_spot_node_on_demand() -> None:
    """The first plan of ten pods that may be on spot, and a small one that may not: it gets a small node of its own."""
    pods = [
        *pending_pods(10, requests={"cpu": "1400m"}),
        pending_pod(requests={"cpu": "100m"}, node_selector=ON_DEMAND_ONLY),
    ]
    plan = solved(problem(pending=pods), FIRST)
    with_spot = [len(node.pods) for node in plan.new_nodes if node.offering.capacity_type == keys.SPOT]
    assert sum(with_spot) == 10
    assert [len(node.pods) for node in plan.new_nodes if node.offering.capacity_type == keys.ON_DEMAND] == [1]


def test_where_no_node_can_be_opened_it_joins_even_a_node_that_gets_dearer() -> None:
    pool = provisioner(limits={"cpu": "16"}, requirements=[requirement(keys.INSTANCE_TYPE, "In", "m5.4xlarge")])
    kind = instance_type(name="m5.4xlarge", cpu=16, memory="64Gi", price=0.8)
    pods = [
        *pending_pods(10, requests={"cpu": "1300m"}),
        pending_pod(requests={"cpu": "2"}, node_selector=ON_DEMAND_ONLY),
    ]
    plan = solved(problem(pending=pods, provisioners=[pool], catalog=[kind]), FIRST)
    assert plan.unplaced == ()
    assert [node.offering.capacity_type for node in plan.new_nodes] == [keys.ON_DEMAND]
