"""Which offerings a fleet request names, what a node is then expected to cost, and the runner-up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import EMPTY
from controller.core.cloud import PricedOffering
from controller.core.provisioning.flexibility import Flexibility
from controller.core.provisioning.plan import PlannedNode, SolveOptions
from controller.core.scheduling.requirements import Requirements
from tests.core.provisioning.plans import solved
from tests.factories import ZONES, instance_type, pending_pods, problem


def spot(price: float, kind: str = "m5.large", zone: str = "a") -> PricedOffering:
    return PricedOffering(price, kind, zone, keys.SPOT)


def on_demand(price: float, kind: str = "m5.large") -> PricedOffering:
    return PricedOffering(price, kind, "a", keys.ON_DEMAND)


def planned(offering: PricedOffering, alternatives: tuple[PricedOffering, ...]) -> PlannedNode:
    return PlannedNode("default", offering, alternatives, Requirements(), EMPTY, (), (), (), EMPTY, "")


class TestNamed:
    """Offerings that would undo the plan's saving are not named."""

    def test_what_costs_more_than_the_cheapest_by_over_the_share_is_left_out(self) -> None:
        near, far = on_demand(0.25, "r5.large"), on_demand(0.2501, "x.large")
        assert Flexibility(0.25, 1).named([far, near, on_demand(0.2)]) == [near, on_demand(0.2)]

    def test_with_no_spread_the_cheapest_are_left_and_with_a_wide_one_all(self) -> None:
        same, dear = spot(0.2, zone="b"), on_demand(0.3)
        assert Flexibility(0.0, 1).named([spot(0.2), same, dear]) == [spot(0.2), same]
        assert Flexibility(1.0, 1).named([spot(0.2), same, dear]) == [spot(0.2), same, dear]

    def test_spot_asks_for_its_number_of_offerings_where_there_are_so_many_within_the_spread(self) -> None:
        offerings = [
            spot(0.1),
            spot(0.11, zone="b"),
            spot(0.12, zone="c"),
            spot(0.124, "r5.large"),
            spot(0.126, "x.large"),
        ]
        assert Flexibility(0.25, 3).named(offerings) == offerings[:3]
        assert Flexibility(0.25, 5).named(offerings) == offerings[:4]

    def test_more_spot_is_named_only_where_it_saves_more_interruptions_than_it_costs(self) -> None:
        """At 20 % a month of one pool, an interruption of $1,000 costs 27 cents an hour; a third of that with five."""
        offerings = [spot(0.1 + 0.002 * n, f"f{n}.large") for n in range(9)]
        assert [len(Flexibility(0.25, 2, cost).named(offerings)) for cost in (0.0, 60.0, 1000.0)] == [2, 5, 9]

    def test_spot_that_costs_the_same_is_named_too(self) -> None:
        offerings = [*(spot(0.1, f"f{n}.large") for n in range(9)), spot(0.101, "g.large")]
        assert Flexibility(0.25, 2, 0.0).named(offerings) == offerings[:9]

    def test_on_demand_has_capacity_and_asks_for_no_more_than_the_spread(self) -> None:
        offerings = [on_demand(0.1), on_demand(0.2, "r5.large")]
        assert Flexibility(0.5, 3).named(offerings) == offerings[:1]

    def test_surplus_cpu_counts_with_the_price(self) -> None:
        """A burstable type of a low price neither sets the limit nor is named where its surplus makes it dear."""
        filled = replace(spot(0.1, "t3.large"), surplus=0.2)
        offerings = [spot(0.2), filled, spot(0.25, zone="b")]
        assert Flexibility(0.25, 2).named(offerings) == [offerings[0], offerings[2]]

    def test_of_no_offerings_none_is_named(self) -> None:
        assert Flexibility(0.25, 1).named([]) == []


class TestExpectedPrice:
    """EC2 takes the spot pool with the most spare capacity, not the cheapest one."""

    def test_of_spot_it_is_the_mean_of_what_is_asked_for(self) -> None:
        assert Flexibility().expected_price(spot(0.1), [spot(0.1), spot(0.12, zone="b")]) == pytest.approx(0.11)

    def test_on_demand_fleets_take_the_lowest_price(self) -> None:
        assert Flexibility().expected_price(on_demand(0.1), [on_demand(0.1), on_demand(0.12, "r5.large")]) == 0.1

    def test_offerings_of_the_other_capacity_type_are_asked_for_later_only(self) -> None:
        kinds = [instance_type(name="a.large", cpu=2, price=0.1), instance_type(name="b.large", cpu=2, price=0.1)]
        plan = solved(problem(pending=pending_pods(1, requests={"cpu": "1"}), catalog=kinds), SolveOptions())
        (node,) = plan.new_nodes
        assert {offering.capacity_type for offering in node.named} == {keys.SPOT}
        assert {offering.capacity_type for offering in node.alternatives} == {keys.SPOT, keys.ON_DEMAND}

    def test_a_plan_states_both_prices(self) -> None:
        kinds = [
            instance_type(name=f"{family}.large", cpu=2, price=0.1 + 0.01 * n, zones=ZONES[:1])
            for n, family in enumerate("abc")
        ]
        plan = solved(problem(pending=pending_pods(1, requests={"cpu": "1"}), catalog=kinds), SolveOptions())
        (node,) = plan.new_nodes
        assert node.offering.capacity_type == keys.SPOT
        assert plan.price_per_hour == node.offering.price < node.expected_price == plan.expected_price_per_hour

    def test_it_follows_when_alternatives_are_taken_away(self) -> None:
        kinds = [instance_type(name=f"{family}.large", cpu=2, price=0.1 + 0.01 * n) for n, family in enumerate("abc")]
        plan = solved(problem(pending=pending_pods(1, requests={"cpu": "1"}), catalog=kinds))
        alone = replace(plan.new_nodes[0], alternatives=())
        assert alone.expected_price == alone.offering.price


class TestRunnerUp:
    """Another zone of the same type does not count."""

    def test_it_is_the_cheapest_of_another_type_or_capacity_type(self) -> None:
        others = (spot(0.1, zone="b"), spot(0.12, "c5.large"), spot(0.15, "m5.xlarge"))
        assert planned(spot(0.1), others).runner_up == spot(0.12, "c5.large")
        assert planned(spot(0.1), (on_demand(0.3),)).runner_up == on_demand(0.3)

    def test_none_where_no_other_type_would_do(self) -> None:
        assert planned(spot(0.1), (spot(0.1, zone="b"),)).runner_up is None

    def test_it_follows_when_alternatives_are_taken_away(self) -> None:
        whole = planned(spot(0.1), (spot(0.12, "c5.large"), spot(0.15, "m5.xlarge")))
        assert replace(whole, alternatives=whole.alternatives[1:]).runner_up == spot(0.15, "m5.xlarge")

    def test_a_nodes_reason_names_it_and_the_difference(self) -> None:
        small = instance_type(name="c5.large", cpu=2, price=0.1, capacity_types=(keys.ON_DEMAND,))
        large = instance_type(name="c5.xlarge", cpu=4, price=0.16, capacity_types=(keys.ON_DEMAND,))
        posed = problem(pending=pending_pods(1, requests={"cpu": "1"}), catalog=[small, large])
        (node,) = solved(posed).new_nodes
        assert node.runner_up is not None
        assert node.runner_up.instance_type == "c5.xlarge"
        assert "next is c5.xlarge on-demand at $0.0600/h more" in node.reason
