"""Prices: how the list is cleaned and estimated, what the Price List API and the spot history make of it."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.aws.market.market import PERIOD_SECONDS, Market, Pool, PriceList
from sandbox.aws.market.prices import clean, estimate, size_units
from sandbox.aws.seeded import Seeded
from tests.sandbox.aws.conftest import HandClock, Sandbox

REGION = "ap-northeast-2"
SHARED = {
    "regionCode": REGION, "serviceCode": "AmazonEC2", "preInstalledSw": "NA", "operatingSystem": "Linux",
    "capacitystatus": "Used", "marketoption": "OnDemand", "tenancy": "Shared", "productFamily": "Compute Instance",
}  # fmt: skip
METAL = SHARED | {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"}


def market(seed: int = 42, price_list: PriceList | None = None) -> Market:
    return Market(price_list or PriceList({"m5.large": 0.1}, frozenset()), Seeded(seed), 0.0)


def products(sandbox: Sandbox, fields: dict[str, str]) -> dict[str, float]:
    """Instance type -> dollars, as a client reads GetProducts."""
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in fields.items()]
    client = sandbox.aws.client("pricing", "ap-south-1")
    pages = client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
    by_type = {}
    for document in (json.loads(text) for page in pages for text in page["PriceList"]):
        term = next(iter(document["terms"]["OnDemand"].values()))
        dimension = next(iter(term["priceDimensions"].values()))
        by_type[document["product"]["attributes"]["instanceType"]] = float(dimension["pricePerUnit"]["USD"])
    return by_type


@pytest.mark.parametrize(
    ("size", "units"), [("large", 4), ("xlarge", 8), ("24xlarge", 192), ("nano", 0.25), ("metal", None)]
)
def test_size_units(size: str, units: float | None) -> None:
    assert size_units(size) == units


def test_the_oldest_release_wins_where_it_has_a_price() -> None:
    tables = {"old": {"m5.large": {"r": 0.096}}, "new": {"m5.large": {"r": 0.107}}}
    assert clean(tables, "r") == {"m5.large": 0.096}


def test_zeros_are_no_prices_and_families_are_no_types() -> None:
    assert clean({"old": {"m5.large": {"r": 0.0}, "m5": {"r": 4.6}}, "new": {"m5.large": {"r": 0.0}}}, "r") == {}


def test_a_dedicated_price_is_set_right_by_its_family() -> None:
    """m6i.large at +10 % is wrong when the other sizes agree on another price per unit."""
    new = {f"m6i.{size}": {"r": 0.024 * units} for size, units in (("xlarge", 8), ("2xlarge", 16), ("4xlarge", 32))}
    tables: dict[str, dict[str, dict[str, float]]] = {"old": {}, "new": new | {"m6i.large": {"r": 0.1056}}}
    assert clean(tables, "r")["m6i.large"] == pytest.approx(0.096)


def test_later_releases_are_asked_for_an_agreeing_price() -> None:
    rest = {f"m6i.{size}": {"r": 0.024 * units} for size, units in (("xlarge", 8), ("2xlarge", 16), ("4xlarge", 32))}
    tables: dict[str, dict[str, dict[str, float]]] = {
        "old": {},
        "new": rest | {"m6i.large": {"r": 0.1056}},
        "mid": {"m6i.large": {"r": 0.0961}},
    }
    assert clean(tables, "r")["m6i.large"] == 0.0961


def entry(vcpus: int, mib: int, arch: str = "x86_64") -> dict[str, Any]:
    return {
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "MemoryInfo": {"SizeInMiB": mib},
        "ProcessorInfo": {"SupportedArchitectures": [arch]},
    }


def test_unknown_type_costs_its_predecessor_and_five_percent_a_generation() -> None:
    types = {"m5.large": entry(2, 8192), "m7.large": entry(2, 8192)}
    assert estimate({"m5.large": 0.1}, ["m7.large"], types) == {"m7.large": pytest.approx(0.11025)}


def test_accelerators_have_no_predecessor_price() -> None:
    """A new GPU generation costs what it costs: p5 is three times p4."""
    types = {f"{name}.large": entry(2 * i, 8192 * i) for i, name in enumerate(("p4d", "p5d", "m5", "m6"), 1)}
    guesses = estimate({"p4d.large": 10.0, "m5.large": 0.1, "m6.large": 0.1}, ["p5d.large"], types)
    assert guesses["p5d.large"] != pytest.approx(10.5)


def test_unknown_type_without_predecessor_is_priced_by_the_fit() -> None:
    """Where prices follow a product law of vCPUs and memory, the fit must find the law."""
    types = {f"m5.{i}": entry(2**i, 1024 * 2 ** (2 * i + j % 3)) for i, j in enumerate(range(1, 7), 1)}

    def law(kind: dict[str, Any]) -> float:
        return float(0.01 * kind["VCpuInfo"]["DefaultVCpus"] ** 0.7 * kind["MemoryInfo"]["SizeInMiB"] ** 0.3)

    known = {name: law(kind) for name, kind in types.items()}
    types["m5.new"] = entry(16, 65_536)
    assert estimate(known, ["m5.new"], types)["m5.new"] == pytest.approx(law(types["m5.new"]), rel=1e-2)


def test_packaged_list_has_the_published_prices() -> None:
    """Prices that AWS has published for years: m5.large, c5.xlarge, t3.medium, c7g.large in us-east-1."""
    prices = PriceList.load("us-east-1").prices
    assert [prices[n] for n in ("m5.large", "c5.xlarge", "t3.medium", "c7g.large")] == [0.096, 0.17, 0.0416, 0.0725]


def test_packaged_list_covers_what_the_region_offers(sandbox: Sandbox) -> None:
    price_list = PriceList.load(REGION)
    assert set(price_list.prices) == set(sandbox.aws.world.catalog.types)
    assert all(price > 0 for price in price_list.prices.values())
    assert price_list.estimated < set(price_list.prices)
    assert "m5.large" not in price_list.estimated


def test_region_without_prices_is_refused() -> None:
    with pytest.raises(ValueError, match="mars-north-1"):
        PriceList.load("mars-north-1")


def test_the_price_list_api_gives_every_type_once(sandbox: Sandbox) -> None:
    shared, metal = products(sandbox, SHARED), products(sandbox, METAL)
    assert shared["m5.large"] == PriceList.load(REGION).prices["m5.large"]
    assert all(".metal" not in name for name in shared)
    assert metal
    assert set(shared) | set(metal) == set(sandbox.aws.world.catalog.types)
    assert not set(shared) & set(metal)


def test_the_price_list_api_has_nothing_of_other_regions_or_systems(sandbox: Sandbox) -> None:
    assert products(sandbox, SHARED | {"regionCode": "eu-west-1"}) == {}
    assert products(sandbox, SHARED | {"operatingSystem": "Windows"}) == {}
    with pytest.raises(ClientError):
        sandbox.aws.client("pricing").get_products(ServiceCode="AmazonS3")


def test_spot_prices_for_every_pool_below_on_demand(sandbox: Sandbox) -> None:
    pages = sandbox.ec2.get_paginator("describe_spot_price_history").paginate(
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
        StartTime=dt.datetime.fromtimestamp(sandbox.clock.now(), dt.UTC),
    )
    rows = [row for page in pages for row in page["SpotPriceHistory"]]
    pools = [(row["InstanceType"], row["AvailabilityZone"]) for row in rows]
    assert len(pools) == len(set(pools)), "StartTime=now: one price a pool, the one in force"
    assert set(pools) == set(sandbox.aws.world.catalog.spot_pools())
    full = PriceList.load(REGION).prices
    assert all(0 < float(row["SpotPrice"]) < full[row["InstanceType"]] for row in rows)
    assert all(isinstance(row["Timestamp"], dt.datetime) for row in rows)


def test_spot_history_goes_back_and_filters(sandbox: Sandbox) -> None:
    sandbox.clock.advance(3 * PERIOD_SECONDS)
    now = dt.datetime.fromtimestamp(sandbox.clock.now(), dt.UTC)
    rows = sandbox.ec2.describe_spot_price_history(
        InstanceTypes=["m5.large"], AvailabilityZone="ap-northeast-2a", StartTime=now - dt.timedelta(hours=12)
    )["SpotPriceHistory"]
    assert len(rows) == 3, "the price in force twelve hours ago and two changes since"
    assert [r["Timestamp"] for r in rows] == sorted((r["Timestamp"] for r in rows), reverse=True)
    windows = sandbox.ec2.describe_spot_price_history(ProductDescriptions=["Windows"])["SpotPriceHistory"]
    assert windows == []


def test_spot_shares_have_the_quantiles_of_the_world() -> None:
    """A tenth of the pools below 0.21 of the on-demand price, half below 0.30, nine tenths below 0.65."""
    names = [f"m{i}.large" for i in range(2000)]
    model = market(price_list=PriceList(dict.fromkeys(names, 1.0), frozenset()))
    shares = sorted(model.spot(name, "zone-a", 0.0) or 0 for name in names)
    assert shares[200] == pytest.approx(0.21, abs=0.02)
    assert shares[1000] == pytest.approx(0.30, abs=0.02)
    assert shares[1800] == pytest.approx(0.65, abs=0.05)


def test_spot_prices_follow_from_the_seed_and_move_with_time() -> None:
    assert market().spot("m5.large", "a", 0) == market().spot("m5.large", "a", 0)
    assert len({market(seed).spot("m5.large", "a", 0) for seed in range(10)}) > 5
    over_a_week = {market().spot("m5.large", "a", PERIOD_SECONDS * i) for i in range(28)}
    assert len(over_a_week) > 5
    assert max(over_a_week, default=0) < 1.1 * min(over_a_week, default=0)  # type: ignore[type-var, operator]


def test_price_of_an_unknown_type_is_none_and_a_scripted_one_must_be_positive() -> None:
    clock = HandClock()
    assert market().price(Pool("m99.large", "a", "spot"), clock.now()) is None
    assert market().price(Pool("m99.large", "a", "on-demand"), clock.now()) is None
    with pytest.raises(ValueError, match="above 0"):
        market().set_price(Pool("m5.large", "a", "spot"), 0)
