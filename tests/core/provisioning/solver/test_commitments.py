"""One plan never counts on a commitment for more instances than are left of it."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.cloud import Commitment, InstanceType, Offering
from controller.core.provisioning import SchedulingPlan
from controller.core.provisioning.plan import SchedulingProblem
from tests.core.provisioning.plans import solved
from tests.factories import instance_type, pending_pods, problem


def committed(left: int, otherwise: float, price: float = 0.02) -> InstanceType:
    """m5.large at a commitment's price for so many instances."""
    offered = Offering("a", keys.ON_DEMAND, price, commitment=Commitment(0, left, otherwise))
    return instance_type(name="m5.large", cpu="2", offered=(offered,))


def listed(name: str, price: float, cpu: str = "2") -> InstanceType:
    return instance_type(name=name, cpu=cpu, memory="32Gi", pods=100, offered=(Offering("a", keys.ON_DEMAND, price),))


def posed(count: int, *types: InstanceType) -> SchedulingProblem:
    """So many pods, each of which fills an m5.large."""
    return problem(pending=pending_pods(count, requests={"cpu": "1500m"}), catalog=types)


def bought(plan: SchedulingPlan) -> list[tuple[str, float]]:
    return sorted((node.offering.instance_type, node.offering.price) for node in plan.new_nodes)


def test_nodes_beyond_a_commitment_are_of_the_type_that_is_cheapest_without_it() -> None:
    plan = solved(posed(4, committed(2, otherwise=0.1), listed("c5.large", 0.08)))
    assert bought(plan) == [("c5.large", 0.08)] * 2 + [("m5.large", 0.02)] * 2
    assert plan.price_per_hour == pytest.approx(0.2)


def test_nodes_beyond_a_commitment_cost_what_will_be_paid_where_there_is_no_other_type() -> None:
    plan = solved(posed(3, committed(2, otherwise=0.1)))
    assert bought(plan) == [("m5.large", 0.02)] * 2 + [("m5.large", 0.1)]


def test_a_large_node_is_taken_where_the_commitment_saves_less_than_it_does() -> None:
    """Eight on m5.large look like $0.16, and would come to $0.02 + 7 x $0.1."""
    plan = solved(posed(8, committed(1, otherwise=0.1), listed("c5.4xlarge", 0.25, cpu="16")))
    assert bought(plan) == [("c5.4xlarge", 0.25)]


def test_a_commitment_that_suffices_is_counted_on_in_full_and_solved_for_once() -> None:
    enough = posed(3, committed(3, otherwise=0.1), listed("c5.large", 0.08))
    assert bought(solved(enough)) == [("m5.large", 0.02)] * 3
    assert all("commitments leave" not in node.reason for node in solved(enough).new_nodes)


def test_what_is_left_of_a_commitment_is_one_for_all_its_offerings() -> None:
    kinds = tuple(
        instance_type(
            name=name,
            cpu="2",
            offered=tuple(
                Offering(zone, keys.ON_DEMAND, 0.02, commitment=Commitment(0, 2, 0.1)) for zone in ("a", "b")
            ),
        )
        for name in ("m5.large", "m5a.large")
    )
    plan = solved(posed(5, *kinds))
    assert [price for _, price in sorted(bought(plan), key=lambda each: each[1])] == [0.02] * 2 + [0.1] * 3
    assert all(o.price == 0.1 for node in plan.new_nodes if node.offering.price == 0.1 for o in node.alternatives)
