"""scripts/aws_facts.py on facts of a few types, and the shipped tables that it wrote."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

from controller.aws.catalog.offline_catalog import shipped_catalog
from controller.aws.catalog.shipped_tables import (
    BRANCH_INTERFACES_FILE,
    PRICES_FILE,
    TYPES_FILE,
    prices_of,
    shipped_prices,
    shipped_types,
)
from sandbox.aws.market.prices import OUTPUT as SANDBOX_LIST
from scripts.aws_data import DATA
from scripts.aws_facts import main
from scripts.lacking_types import LACKING

COMMERCIAL = boto3.Session().get_available_regions("ec2")
CARD = {"index": 0, "interfaces": 15}
LIMIT = {
    "ipv4PerInterface": 50,
    "trunking": True,
    "branchInterfaces": 9,
    "defaultNetworkCard": 0,
    "networkCards": [CARD],
}
BASE = {
    "m5.large": 0.1,
    "m5.xlarge": 0.2,
    "m6i.large": 0.12,
    "c5.large": 0.09,
    "p5.48xlarge": 55.0,
    "p3.8xlarge": 12.24,
}
LISTED = {"m5.large": 0.1, "m5.xlarge": 0.2, "c5.large": 0.09, "p5.48xlarge": 98.0}
"""A list from before p5 became cheaper."""


def read(file: Path) -> Any:
    return json.loads(gzip.decompress(file.read_bytes()))


def write(file: Path, document: Any) -> None:
    file.write_bytes(gzip.compress(json.dumps(document).encode()))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of a small world: us-east-1 known, Paris listed before p5's price changed."""
    facts, folder = tmp_path_factory.mktemp("facts"), tmp_path_factory.mktemp("tables")
    write(facts / "on-demand-prices.json.gz", {
        "us-east-1": {"generated": "2026-07-20T13:44:30Z", "source": "a test", "prices": BASE},
        "us-gov-west-1": {"generated": "2026-07-20T13:44:30Z", "source": "a test", "prices": {"m5.large": 0.13}},
    })  # fmt: skip
    write(
        facts / "vpc-limits.json.gz", {"m5.large": LIMIT, "p3.8xlarge": LIMIT, "t3.nano": {**LIMIT, "trunking": False}}
    )
    write(facts / "network-bandwidth-megabits.json.gz", {"m5.large": 777})
    types = {**read(DATA / TYPES_FILE)["types"]}
    shapes = {name: types[name] for name in (*BASE, "m7i.large") if name != "p3.8xlarge"}
    regions = {
        region: {"generated": "2026-11-01", "source": "a test", "zones": {name: ["a", "b"] for name in shapes}}
        for region in ("us-east-1", "eu-west-3", "ap-south-1")
    }
    write(folder / TYPES_FILE, {"types": shapes, "regions": regions})
    paris = {"m5.large": 0.112, "m5.xlarge": 0.224, "c5.large": 0.108, "p5.48xlarge": 120.0}
    prices = {"us-east-1": LISTED, "eu-west-3": paris, "ap-south-1": LISTED}
    write(folder / "listed.json.gz", {"prices": prices, "estimated": {name: [] for name in prices}})
    for _ in range(2):  # what it wrote itself is read again the second time
        arguments = [str(facts), "--folder", str(folder), "--sandbox-list", str(folder / "listed.json.gz")]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
    return folder


@pytest.mark.parametrize(
    ("region", "name", "price", "known"),
    [
        ("us-east-1", "m5.large", 0.1, True),
        ("us-gov-west-1", "m5.large", 0.13, True),
        ("eu-west-3", "m5.large", 0.112, True),
        ("eu-west-3", "p5.48xlarge", 55.0 * 1.16, False),  # the list has an old price: the usual ratio of the region
        ("eu-west-3", "m6i.large", 0.12 * 1.12, False),  # its relative's ratio, not c5's 1.2
        ("eu-south-2", "c5.large", 0.09 * 1.2, False),  # no list of Spain: the nearest region's ratio
        ("mx-central-1", "m5.large", 0.1 * 1.06, False),  # no region near: the median of all
    ],
)
def test_prices_are_known_where_the_list_is_right_and_else_scaled_by_their_family(
    written: Path, region: str, name: str, price: float, known: bool
) -> None:
    made = prices_of(region, read(written / PRICES_FILE))
    assert made.prices[name] == pytest.approx(price, rel=1e-4)
    assert (name not in made.estimated) is known


def test_a_type_without_any_price_is_estimated_and_marked(written: Path) -> None:
    made = prices_of("us-east-1", read(written / PRICES_FILE))
    assert made.estimated == {"m7i.large"} | (LACKING.keys() - BASE.keys())
    assert made.prices["m7i.large"] == pytest.approx(0.12 * 1.05, rel=1e-3), "a generation after m6i"


def test_limits_and_bandwidths_are_the_facts_and_lacking_types_are_added(written: Path) -> None:
    table = read(written / TYPES_FILE)
    m5, p3 = table["types"]["m5.large"], table["types"]["p3.8xlarge"]
    assert (m5["max_interfaces"], m5["ipv4_per_interface"], m5["bandwidth_mbps"]) == (15, 50, 777)
    assert (p3["vcpus"], p3["memory_mib"], p3["gpus"][0]["count"]) == (32, 249_856, 4)
    assert table["regions"]["us-east-1"]["zones"]["p3.8xlarge"] == ["a", "b"]
    assert "p3.8xlarge" not in table["regions"]["eu-west-3"]["zones"]
    assert read(written / BRANCH_INTERFACES_FILE)["branchInterfaces"] == {"m5.large": 9, "p3.8xlarge": 9}


def test_the_sandboxs_list_has_the_same_prices(written: Path) -> None:
    listed, table = read(written / "listed.json.gz"), read(written / PRICES_FILE)
    assert listed["prices"]["us-east-1"]["p5.48xlarge"] == 55.0
    assert listed["prices"]["eu-west-3"]["p5.48xlarge"] == prices_of("eu-west-3", table).prices["p5.48xlarge"]
    assert listed["estimated"] == {"us-east-1": [], "eu-west-3": ["p5.48xlarge"], "ap-south-1": ["p5.48xlarge"]}


def test_the_shipped_tables_serve_every_commercial_region() -> None:
    """Every region that the SDK knows has types, zones and a price for each type."""
    for region in COMMERCIAL:
        sold, prices = shipped_types(region), shipped_prices(region)
        assert sold is not None, region
        assert prices.region == region
        assert sold.types.keys() <= prices.prices.keys(), region
        assert all(price > 0 for price in prices.prices.values())
        assert all(sold.zones.values())
    assert {"p3.8xlarge", "dl1.24xlarge", "g4ad.xlarge", "p2.xlarge", "f1.2xlarge"} <= shipped_catalog(
        "us-east-1"
    ).types.keys()


def test_the_shipped_prices_of_us_east_1_are_awss_own() -> None:
    """Prices as AWS has published them; p5 after the cut of 2025."""
    prices = shipped_prices("us-east-1")
    published = {
        "m5.large": 0.096,
        "c7a.large": 0.10264,
        "t4g.medium": 0.0336,
        "p5.48xlarge": 55.04,
        "p3.8xlarge": 12.24,
    }
    assert {name: prices.prices[name] for name in published} == published
    assert not prices.estimated & published.keys()
    assert len(prices.estimated) < 50


def test_the_tables_stay_small() -> None:
    """They are most of the package's size: 250 KB, packed."""
    assert sum(file.stat().st_size for file in DATA.iterdir()) < 250_000
    assert SANDBOX_LIST.exists()
