"""Prices: both tenancies, every page, spot by zone; a failed read leaves what was known, and says so once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from controller.aws.catalog.price_book import Prices, Pricing, _hourly
from controller.aws.catalog.shipped_tables import branch_interfaces, shipped_prices
from controller.aws.provider import AWSProvider
from controller.errors import CloudError, CloudUnauthorizedError
from sandbox.aws.faults import Fault
from tests.aws.conftest import SETTINGS, Cloud, make_due, provisioner, set_prices, template


@pytest.fixture
def pricing(cloud: Cloud) -> Pricing:
    return Pricing(cloud.clients.ec2, cloud.clients.pricing, cloud.clients.region, {"m5.large": 9.0}, cloud.clock.now)


class TestOnDemand:
    def test_every_page_and_both_tenancies_are_read(self, cloud: Cloud, pricing: Pricing) -> None:
        count = pricing.refresh_on_demand()
        assert count > 700
        assert pricing.prices.of("on-demand", "m5.large", "any") == 0.118
        assert pricing.prices.of("on-demand", "m5.metal", "any") is not None
        assert cloud.calls("GetProducts") > 7

    def test_a_failure_leaves_the_earlier_prices_and_the_version(self, cloud: Cloud, pricing: Pricing) -> None:
        cloud.aws.faults.add(Fault(service="pricing", code="AccessDeniedException"))
        before = pricing.prices
        with pytest.raises(CloudUnauthorizedError, match="allow pricing:GetProducts"):
            pricing.refresh_on_demand()
        assert pricing.prices is before
        assert before.of("on-demand", "m5.large", "a") == 9.0

    def test_the_same_prices_again_are_the_same_object(self, pricing: Pricing) -> None:
        pricing.refresh_on_demand()
        before = pricing.prices
        pricing.refresh_on_demand()
        assert pricing.prices is before

    def test_a_region_that_the_api_does_not_know_is_an_error_not_an_empty_table(self, cloud: Cloud) -> None:
        nowhere = Pricing(cloud.clients.ec2, cloud.clients.pricing, "nowhere-1", {}, cloud.clock.now)
        with pytest.raises(CloudError, match="lists no instance type of region nowhere-1"):
            nowhere.refresh_on_demand()

    @pytest.mark.parametrize(
        ("units", "expected"),
        [({"USD": "0.5"}, [("m5.large", 0.5)]), ({"CNY": "3.2"}, [("m5.large", 3.2)]), ({"USD": "0.000"}, []),
         ({"USD": "none"}, []), ({}, [])],
    )  # fmt: skip
    def test_prices_in_dollars_or_renminbi_above_zero_count(
        self, units: Mapping[str, str], expected: list[tuple[str, float]]
    ) -> None:
        product: dict[str, Any] = {
            "product": {"attributes": {"instanceType": "m5.large"}},
            "terms": {"OnDemand": {"t": {"priceDimensions": {"d": {"pricePerUnit": units}}}}},
        }
        assert list(_hourly([json.dumps(product)])) == expected


class TestSpot:
    def test_each_zone_has_its_own_price_and_one_without_has_none(self, pricing: Pricing) -> None:
        pricing.refresh_spot()
        prices = {pricing.prices.of("spot", "m5.large", f"ap-northeast-2{letter}") for letter in "abcd"}
        assert None not in prices
        assert len(prices) > 1
        assert pricing.prices.of("spot", "m5.large", "ap-northeast-2z") is None

    def test_both_product_descriptions_and_the_present_are_asked_for(self, cloud: Cloud, pricing: Pricing) -> None:
        pricing.refresh_spot()
        asked = cloud.aws.calls.calls("DescribeSpotPriceHistory")[0].params
        assert asked["ProductDescriptions"] == ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
        assert "StartTime" in asked

    def test_until_spot_prices_are_known_the_on_demand_price_stands_in(self) -> None:
        assert Prices(on_demand={"m5.large": 1.0}).of("spot", "m5.large", "a") == 1.0
        assert Prices(on_demand={"m5.large": 1.0}, spot={}).of("spot", "m5.large", "a") is None


class TestShippedTable:
    def test_it_has_its_date_and_its_source_and_another_region_stands_in(self) -> None:
        seoul, unknown, ningxia = map(shipped_prices, ("ap-northeast-2", "us-iso-east-1", "cn-northwest-1"))
        assert (seoul.region, unknown.region, ningxia.region) == ("ap-northeast-2", "us-east-1", "cn-north-1")
        assert unknown.estimated == unknown.prices.keys()
        assert len(seoul.prices) > 700
        assert seoul.generated >= "2026-01-01"
        assert seoul.source

    def test_branch_interfaces_are_those_of_trunking_types(self) -> None:
        assert branch_interfaces()["m5.large"] == 9
        assert "t3.large" not in branch_interfaces()

    def test_an_isolated_vpc_never_asks_the_pricing_api_and_says_which_prices_it_uses(
        self, cloud: Cloud, loaded: AWSProvider
    ) -> None:
        provider = cloud.restarted(loaded, replace(SETTINGS, isolated_vpc=True))
        set_prices(provider, shipped_prices("ap-northeast-2").prices)
        provider.refresh()
        (m5,) = [item for item in provider.instance_types(provisioner(), template()) if item.name == "m5.large"]
        assert cloud.calls("GetProducts") == 0
        assert {o.price for o in m5.offerings if o.capacity_type == "on-demand"} == {0.118}
        assert cloud.events("info").count("On-demand prices are those that ship with the controller") == 1

    def test_with_the_pricing_api_down_for_a_day_nodes_are_still_launched_and_it_is_said_once(
        self, cloud: Cloud, provider: AWSProvider
    ) -> None:
        cloud.aws.faults.add(Fault(service="pricing", code="ServiceUnavailable"))
        make_due(provider, "on-demand prices")
        for _ in range(2):
            assert provider.instance_types(provisioner(), template())
            provider.refresh()
            cloud.clock.advance(8 * 3600)
        said = [entry["what"] for entry in cloud.logs.entries if entry["log_level"] == "warning"]
        assert said == ["on-demand prices"]
        cloud.aws.faults.clear()
        provider.refresh()
        assert "Reading from AWS works again" in cloud.events("info")

    def test_types_that_nobody_prices_are_named_once_and_not_offered_on_demand(
        self, cloud: Cloud, provider: AWSProvider
    ) -> None:
        prices = dict(provider.region_catalog().on_demand)
        del prices["m5.large"]
        set_prices(provider, prices)
        provider.refresh()
        provider.refresh()
        said = [entry for entry in cloud.logs.entries if "without an on-demand price" in entry["event"]]
        assert [entry["instance_types"] for entry in said] == [["m5.large"]]
        (m5,) = [item for item in provider.instance_types(provisioner(), template()) if item.name == "m5.large"]
        assert {o.capacity_type for o in m5.offerings if o.available} == {"spot"}
