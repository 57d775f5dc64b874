"""The shapes from the field."""

from __future__ import annotations

import random

import pytest

from bench.field import HEAD, SHAPES, measured, posed, report, row, shipped
from controller.aws.catalog.offline_catalog import ASSUMED_SPOT_SHARE, RegionCatalog


@pytest.fixture(scope="module")
def catalog() -> RegionCatalog:
    return shipped()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_the_same_pods_every_time(shape: str) -> None:
    one, two = ([(p.key, p.spec) for p in SHAPES[shape](random.Random(10))] for _ in range(2))
    assert one == two
    assert len({key for key, _ in one}) == len(one)


def test_databases_of_a_nodes_size_get_a_node_each_and_the_table_a_row(catalog: RegionCatalog) -> None:
    problem = posed("a node-sized pod each", catalog)
    points, plan = measured(problem, (0.0, 1.0))
    assert plan.unplaced == ()
    assert [len(node.pods) for node in plan.new_nodes] == [1] * len(problem.pending)
    assert min(point.ratio for point in points) >= 1.0 - 1e-9
    assert row("dbs", problem, points, plan).count("|") == len(HEAD) + 1


def test_the_document_says_where_prices_come_from_and_what_is_assumed(catalog: RegionCatalog) -> None:
    text = report(["| x |"], catalog)
    assert catalog.generated in text
    assert catalog.source in text
    assert f"{ASSUMED_SPOT_SHARE:.0%} of on-demand" in text
