"""What plans count beside prices: charges and agents of a node, and the surplus CPU of burstable and flex types."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api import labels as keys
from controller.core.cloud import CpuCredits, InstanceType, Offering
from controller.core.provisioning import SchedulingPlan, SolveOptions
from controller.core.provisioning.bound.lower_bound import bound
from tests.core.provisioning.plans import FIRST, daemon_sets, solved
from tests.factories import instance_type, pending_pods, problem, provisioner

FREE = SolveOptions(node_cost_per_hour=0.0)
"""Nodes cost their price, charges and surplus CPU."""
C6 = instance_type(name="c6.large", cpu=2, memory="4Gi", price=0.07, capacity_types=(keys.ON_DEMAND,))


def burstable(price: float = 0.04) -> InstanceType:
    """Two vCPUs, of which 40 % are its own."""
    kind = instance_type(name="t4g.medium", cpu=2, memory="4Gi", price=price, capacity_types=(keys.ON_DEMAND,))
    return replace(kind, credits=CpuCredits(0.4, 0.05))


def types_of(plan: SchedulingPlan) -> list[str]:
    return sorted(node.offering.instance_type for node in plan.new_nodes)


@pytest.mark.parametrize(
    ("pods", "cpu", "use", "price", "chosen", "surplus"),
    [
        # Two vCPUs half used are 0.6 beyond the baseline: 3 cents an hour, which the price may save or not.
        (2, "1", 0.5, 0.039, ["t4g.medium"], 0.03),
        (2, "1", 0.5, 0.041, ["c6.large"], 0.0),
        # Within the baseline there is no surplus; on machines that pods use in full there is much.
        (2, "400m", 0.5, 0.069, ["t4g.medium"], 0.0),
        (2, "1", 1.0, 0.02, ["c6.large"], 0.0),
        (2, "1", 0.0, 0.069, ["t4g.medium"], 0.0),
        # Beyond the baseline the surplus is that of the load, not of a full node.
        (3, "400m", 0.5, 0.059, ["t4g.medium"], 0.01),
    ],
)
@pytest.mark.parametrize("budget", [0.0, 1.0])
def test_a_burstable_type_costs_its_price_and_the_surplus_credits_of_what_is_asked_of_it(
    pods: int, cpu: str, use: float, price: float, chosen: list[str], surplus: float, budget: float
) -> None:
    posed = problem(pending=pending_pods(pods, requests={"cpu": cpu}), catalog=[burstable(price), C6])
    plan = solved(posed, replace(FREE, cpu_use=use, budget_seconds=budget))
    assert types_of(plan) == chosen
    assert plan.new_nodes[0].offering.surplus == pytest.approx(surplus)
    assert plan.cost_per_hour == pytest.approx(plan.price_per_hour + surplus)


def test_a_dear_surplus_spreads_pods_over_baselines_and_the_bound_leaves_it_out() -> None:
    """Eight pods of 400m: two on each baseline cost 4 x $0.02; two full nodes cost 2 x ($0.02 + $0.05)."""
    kind = replace(burstable(0.02), credits=CpuCredits(0.4, 0.125))
    posed = problem(pending=pending_pods(8, requests={"cpu": "400m"}), catalog=[kind])
    plan = solved(posed, FREE)
    assert len(plan.new_nodes) == 4
    assert plan.cost_per_hour == pytest.approx(0.08)
    assert bound(posed, FREE).cost_per_hour == pytest.approx(0.02 * 8 * 0.4 / 2)


def test_the_cpu_of_daemons_counts_and_the_reason_names_the_surplus() -> None:
    """A daemon of 400m beside pods of 1 vCPU: 0.7 - 0.4 vCPUs beyond the baseline, at 5 cents."""
    posed = problem(
        pending=pending_pods(1, requests={"cpu": "1"}),
        catalog=[burstable()],
        daemon_sets=daemon_sets(requests={"cpu": "400m"}),
    )
    (planned,) = solved(posed, FREE).new_nodes
    assert planned.offering.surplus == pytest.approx(0.015)
    assert "at $0.0400/h ($0.0550/h in all, $0.0150/h of it for CPU beyond its baseline)" in planned.reason


def test_alternatives_come_by_what_they_cost_at_this_load() -> None:
    """c6.large at $0.07 comes before t3.medium at $0.06, which would use $0.03 of surplus credits here."""
    kinds = [burstable(0.02), replace(burstable(0.06), name="t3.medium"), C6]
    (planned,) = solved(problem(pending=pending_pods(2, requests={"cpu": "1"}), catalog=kinds), FIRST).new_nodes
    one_zone = [o.instance_type for o in planned.alternatives if o.zone == planned.offering.zone]
    assert [planned.offering.instance_type, *one_zone] == ["t4g.medium", "c6.large", "t3.medium"]


def test_a_public_address_moves_nodes_to_zones_without_one() -> None:
    offered = tuple(Offering(zone, keys.ON_DEMAND, price, beside=more) for zone, price, more in
                    (("eu-west-1a", 0.1, 0.0072), ("eu-west-1b", 0.102, 0.0022)))  # fmt: skip
    kind = instance_type(name="m5.large", offered=offered)
    posed = problem(pending=pending_pods(1, requests={"cpu": "1"}), catalog=[kind])
    (planned,) = solved(posed).new_nodes
    assert planned.offering.zone == "eu-west-1b"
    assert planned.offering.beside == pytest.approx(0.0222)
    (of_price,) = solved(posed, SolveOptions().of_prices_alone()).new_nodes
    assert (of_price.offering.zone, of_price.offering.beside) == ("eu-west-1a", 0.0)


def test_limits_and_a_type_that_pods_ask_for_by_name_take_a_burstable_beyond_its_baseline() -> None:
    """No pod is left out for want of credits."""
    pool = provisioner(limits={"cpu": "2"})
    posed = problem(
        pending=pending_pods(2, requests={"cpu": "900m"}, node_selector={keys.INSTANCE_TYPE: "t4g.medium"}),
        provisioners=[pool],
        catalog=[burstable(), C6],
    )
    plan = solved(posed, FREE)
    assert (types_of(plan), plan.unplaced) == (["t4g.medium"], ())
