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
from tests.factories import instance_type, pending_pods, problem


def spot(price: float, kind: str = "m5.large", zone: str = "a") -> PricedOffering:
    return PricedOffering(price, kind, zone, keys.SPOT)


def on_demand(price: float, kind: str = "m5.large") -> PricedOffering:
    return PricedOffering(price, kind, "a", keys.ON_DEMAND)


def planned(offering: PricedOffering, alternatives: tuple[PricedOffering, ...]) -> PlannedNode:
    return PlannedNode("default", offering, alternatives, Requirements(), EMPTY, (), (), (), EMPTY, "")


class TestNamed:
    """Offerings that would undo the plan's saving are not named."""

    def test_what_costs_more_than_the_cheapest_by_over_the_share_is_left_out(self) -> None:
        near, far = spot(0.25, zone="b"), spot(0.2501, zone="c")
        assert Flexibility(0.25, 1).named([far, near, spot(0.2)]) == [near, spot(0.2)]

    def test_with_no_spread_the_cheapest_are_left_and_with_a_wide_one_all(self) -> None:
        same, dear = spot(0.2, zone="b"), on_demand(0.3)
        assert Flexibility(0.0, 1).named([spot(0.2), same, dear]) == [spot(0.2), same]
        assert Flexibility(1.0, 1).named([spot(0.2), same, dear]) == [spot(0.2), same, dear]

    def test_spot_asks_for_its_number_of_offerings_up_to_twice_the_spread(self) -> None:
        offerings = [
            spot(0.1),
            spot(0.13, zone="b"),
            spot(0.14, zone="c"),
            spot(0.15, "r5.large"),
            spot(0.16, "x.large"),
        ]
        assert Flexibility(0.25, 3).named(offerings) == offerings[:3]
        assert Flexibility(0.25, 5).named(offerings) == offerings[:4]

    def test_on_demand_has_capacity_and_asks_for_no_more_than_the_spread(self) -> None:
        offerings = [on_demand(0.1), on_demand(0.2, "r5.large")]
        assert Flexibility(0.5, 3).named(offerings) == offerings[:1]

    def test_surplus_cpu_counts_with_the_price(self) -> None:
        """A burstable type of a low price neither sets the limit nor is named where its surplus makes it dear."""
        filled = replace(spot(0.1, "t3.large"), surplus=0.2)
        offerings = [spot(0.2), filled, spot(0.25, zone="b")]
        assert Flexibility(0.25, 1).named(offerings) == [offerings[0], offerings[2]]

    def test_of_no_offerings_none_is_named(self) -> None:
        assert Flexibility(0.25, 1).named([]) == []


class TestExpectedPrice:
    """An on-demand fleet uses the lowest price, a spot fleet any of the pools near it."""

    def test_of_spot_it_is_the_mean_of_what_is_asked_for(self) -> None:
        alternatives = (spot(0.12, zone="b"), spot(0.5, zone="c"))
        assert Flexibility(0.25, 1).expected_price(spot(0.1), alternatives) == pytest.approx(0.11)

    def test_on_demand_offerings_count_for_nothing_in_a_spot_fleet(self) -> None:
        assert Flexibility(0.25, 2).expected_price(spot(0.1), (on_demand(0.1),)) == 0.1

    def test_of_on_demand_it_is_the_cheapest(self) -> None:
        assert Flexibility(0.25, 5).expected_price(on_demand(0.1), (on_demand(0.12, "r5.large"),)) == 0.1

    def test_a_plan_states_both_prices(self) -> None:
        kinds = [instance_type(name=f"{family}.large", cpu=2, price=0.1 + 0.01 * n) for n, family in enumerate("abc")]
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
