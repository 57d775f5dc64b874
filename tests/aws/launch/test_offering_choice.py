"""The order in which a launch tries its offerings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest
import structlog

from controller.aws.launch.offering_choice import OfferingChoice, is_exotic, tiers
from controller.core.api import labels as keys
from controller.core.cloud import LaunchRequest, PricedOffering
from controller.settings import Settings
from tests.aws.conftest import Types, provisioner, template

GPU = PricedOffering(0.1, "g4dn.xlarge", "a", keys.SPOT)
SPOT = PricedOffering(0.2, "m5.large", "a", keys.SPOT)
ON_DEMAND = PricedOffering(0.3, "m5.large", "a", keys.ON_DEMAND)
METAL = PricedOffering(0.05, "m5.metal", "a", keys.ON_DEMAND)


def exotic(name: str) -> bool:
    return name != "m5.large"


def test_spot_comes_before_on_demand_and_exotic_types_after_all_others() -> None:
    assert tiers([GPU, SPOT, ON_DEMAND], exotic) == [[SPOT], [ON_DEMAND], [GPU]]


def test_spot_that_costs_more_than_the_cheapest_on_demand_is_not_bought() -> None:
    dear = PricedOffering(0.31, "m5.large", "b", keys.SPOT)
    assert tiers([SPOT, dear, ON_DEMAND], exotic) == [[SPOT], [ON_DEMAND]]
    assert tiers([dear], exotic) == [[dear]]


def test_bare_metal_that_happens_to_be_cheap_does_not_outbid_what_is_tried_before_it() -> None:
    assert tiers([METAL, GPU, SPOT, ON_DEMAND], exotic) == [[SPOT], [ON_DEMAND], [METAL]]


def test_where_all_are_exotic_they_are_simply_tried() -> None:
    assert tiers([GPU, METAL], exotic) == [[METAL]]
    assert tiers([GPU], exotic) == [[GPU]]


def test_within_a_tier_the_plans_order_stays() -> None:
    dear, cheap = PricedOffering(0.2, "m5.large", "b", keys.SPOT), PricedOffering(0.1, "m5.large", "a", keys.SPOT)
    assert tiers([dear, cheap], exotic) == [[dear, cheap]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("m5.large", False), ("m5.metal", True), ("m7i.metal-24xl", True), ("g4dn.xlarge", True), ("inf1.xlarge", True)],
)
def test_bare_metal_and_types_with_devices_are_exotic(types: Types, name: str, expected: bool) -> None:
    (item,) = [item for item in types if item.name == name]
    assert is_exotic(item) is expected


def spots(*prices: float) -> tuple[PricedOffering, ...]:
    return tuple(PricedOffering(price, f"f{n}.large", "a", keys.SPOT) for n, price in enumerate(prices))


def asked(
    offered: Sequence[PricedOffering],
    failed: int = 0,
    masked: Sequence[PricedOffering] = (),
    enough: str = "a",
    **more: Any,
) -> Any:
    """What is asked for after so many failed attempts, where these have no capacity; `enough`: zones thought to have
    enough addresses, besides zone a, where EC2 has refused none."""
    unavailable = Mock(active=lambda: (0, {(o.capacity_type, o.instance_type, o.zone) for o in masked}))
    subnets = Mock(zones=lambda _template, _addresses, among: among & set(enough) or among & {"a", *enough})
    choice = OfferingChoice(Settings(cluster_name="c"), subnets, unavailable, None, structlog.get_logger())
    request = LaunchRequest("token", provisioner(), template(), tuple(offered), {}, **more)
    return choice.sendable(request, offered, failed)


def test_a_spot_launch_asks_for_few_and_once_they_have_no_capacity_for_all_within_the_tolerance() -> None:
    offered = spots(0.1, 0.101, 0.102, 0.103, 0.14, 0.16)
    assert asked(offered) == list(offered[:3])
    assert asked(offered, 1, offered[:3]) == list(offered[3:5])


def test_the_first_choice_comes_first_even_if_dearer_and_all_others_are_the_second() -> None:
    offered = spots(0.1, 0.101, 0.102, 0.103)
    own = offered[2:]
    assert asked(offered, first_choice=own) == list(own)
    assert asked(offered, 1, own, first_choice=own) == list(offered[:2])
    assert asked(offered, 0, own, first_choice=own) == list(offered[:2]), "known from an earlier launch"


def test_zones_thought_to_have_enough_addresses_come_first_and_where_no_offering_is_in_one_ec2_decides() -> None:
    here, there = spots(0.1)[0], PricedOffering(0.2, "f0.large", "b", keys.SPOT)
    assert asked((here, there), enough="b") == [there]
    assert asked((here,), enough="b") == [here], "sold in zone a alone, where EC2 has not refused"
