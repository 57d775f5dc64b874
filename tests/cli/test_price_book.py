"""One price book: what the controller publishes is what every command reckons with, live and from a dump."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.aws.catalog.offline_catalog import RegionCatalog, read_catalog, shipped_catalog
from controller.cli.inputs.price_record import published
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.price_store import CONFIG_MAP, KEY
from sandbox.apiserver import serve
from tests.cli.cluster_files import GROUP, OURS
from tests.cli.conftest import Run, Write, answer

ON_DEMAND, SPOT = 0.3141, 0.0123
SHIPPED = shipped_catalog("us-east-1")
BOOK = replace(
    SHIPPED,
    generated="2027-02-03T04:05:06+00:00",
    source="EC2 and the Pricing API",
    on_demand=dict.fromkeys(SHIPPED.on_demand, ON_DEMAND),
    spot={name: dict.fromkeys(sorted(zones), SPOT) for name, zones in SHIPPED.zones.items()},
)


def packed(document: Any) -> dict[str, Any]:
    data = base64.b64encode(gzip.compress(json.dumps(document).encode())).decode()
    return {"metadata": {"name": CONFIG_MAP}, "binaryData": {KEY: data}}


@pytest.fixture
def booked(kubeconfig: str) -> Iterator[str]:
    """A cluster whose controller has published BOOK."""
    kube = KubeClient(connect(kubeconfig))
    kube.create(CONFIG_MAPS, packed(BOOK.price_book()), "default")
    yield kubeconfig
    kube.delete(CONFIG_MAPS, CONFIG_MAP, "default")


def prices_of(view: Any) -> dict[str, float]:
    return {each["name"]: each["pricePerHour"] for each in view["nodes"]}


def test_the_cluster_and_its_dump_cost_the_same_in_every_command(run: Run, write: Write, booked: str) -> None:
    """With spot prices that no assumed share of on-demand comes to."""
    live = answer(run("view", "--kubeconfig", booked, "-o", "json"))
    assert (prices_of(live)[OURS], prices_of(live)[GROUP]) == (ON_DEMAND, SPOT)
    dump = write(json.loads(run("dump", "--kubeconfig", booked, "--salt", "s").stdout))
    dumped = answer(run("view", "--from", dump, "-o", "json"))
    assert dumped["summary"]["pricePerHour"] == live["summary"]["pricePerHour"]
    assert any("2027-02-03T04:05:06+00:00: EC2 and the Pricing API" in note for note in live["notes"])
    assert live["notes"] == dumped["notes"], "with source and age, and nothing is assumed"
    explained = answer(run("explain", "node", OURS, "--kubeconfig", booked, "-o", "json"))
    assert explained["facts"]["price"].startswith(f"${ON_DEMAND}/h")
    would_get = explained["reasons"]["whyThisType"][0]
    assert f"${ON_DEMAND}/h" in would_get or f"${SPOT}/h" in would_get
    plans = [
        answer(run("simulate", *source, "-o", "json"))["nodes"]
        for source in ((dump,), ("--live", "--kubeconfig", booked))
    ]
    assert {each["pricePerHour"] for plan in plans for each in plan} <= {ON_DEMAND, SPOT}
    assert plans[0]


def test_a_cluster_without_nodes_costs_what_its_price_book_says(run: Run, tmp_path: Path) -> None:
    """Its region is the book's: after the last node is gone, nothing costs what it would in us-east-1."""
    path = str(tmp_path / "kubeconfig")
    with serve(kubeconfig=Path(path)):
        kube = KubeClient(connect(path))
        kube.create(CONFIG_MAPS, packed(shipped_catalog("ap-northeast-2").price_book()), "default")
        for command in (("view",), ("simulate", "--live")):
            notes = answer(run(*command, "--kubeconfig", path, "-o", "json"))["notes"]
            assert any("Types and prices of ap-northeast-2" in note for note in notes), (command, notes)


def test_without_a_price_book_the_release_stands_in_and_its_dump_says_so(
    run: Run, write: Write, kubeconfig: str
) -> None:
    live = answer(run("view", "--kubeconfig", kubeconfig, "-o", "json"))
    document = json.loads(run("dump", "--kubeconfig", kubeconfig).stdout)
    assert document["prices"]["on_demand"]["m5.large"] == SHIPPED.on_demand["m5.large"]
    document["prices"]["on_demand"] = dict.fromkeys(SHIPPED.on_demand, 1.0)  # as a release with other prices made it
    dumped = answer(run("view", "--from", write(document), "-o", "json"))
    assert live["summary"]["pricePerHour"] < 1.0 < dumped["summary"]["pricePerHour"]
    assert any("shipped with this release" in note for note in live["notes"])


@pytest.mark.parametrize(
    "config_map",
    [
        {},
        {"binaryData": {KEY: "?"}},
        {"binaryData": {KEY: base64.b64encode(b"no gzip").decode()}},
        packed([1]),
        packed({"region": 3}),
    ],
)
def test_a_price_book_that_cannot_be_read_is_none(config_map: dict[str, Any]) -> None:
    assert published([config_map]) is None


def test_a_price_book_comes_back_as_it_was_written() -> None:
    read: RegionCatalog | None = published([packed(BOOK.price_book())])
    assert read is not None
    assert (read.on_demand, read.spot, read.estimated, read.types) == (BOOK.on_demand, BOOK.spot, BOOK.estimated, {})
    assert SHIPPED.priced(read_catalog(BOOK.price_book())).types == SHIPPED.types
