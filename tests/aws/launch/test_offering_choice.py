"""The order in which a launch tries its offerings."""

from __future__ import annotations

import pytest

from controller.aws.launch.offering_choice import is_exotic, tiers
from controller.core.api import labels as keys
from controller.core.cloud import PricedOffering
from tests.aws.conftest import Types

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
