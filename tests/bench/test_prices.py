"""The table of prices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.prices import HEAD, Row, means, report
from bench.report import KarpenterFigures, Line

OURS = {
    "price": 8.0,
    "expectedPrice": 9.0,
    "bound": 6.4,
    "cost": 10.0,
    "costBound": 8.0,
    "nodes": [{}] * 3,
    "cpuSeconds": 0.5,
    "pods": 500,
    "unplaced": [{}] * 100,
}
KARPENTER = KarpenterFigures(price=10.0, seconds=2.0, nodes=5, left_out=300)


def test_a_row_compares_the_price_of_a_pod_placed_too() -> None:
    """$8 for 400 pods against $10 for 200: 0.8 of the price, but 0.4 for each pod."""
    row = Row.of(Line("generic-500", OURS, KARPENTER))
    assert row.over_bound == pytest.approx(1.25)
    assert row.over_karpenter == pytest.approx(0.8)
    assert row.over_karpenter_a_pod == pytest.approx(0.4)
    assert row.cells()[4:7] == ("0.800", "0.800", "0.400")


def test_where_karpenters_price_of_all_pods_is_known_it_counts_and_the_first_round_stands_beside_it() -> None:
    row = Row.of(Line("anti-zone-500", OURS, replace(KARPENTER, price_of_all=16.0)))
    assert row.cells()[4:7] == ("0.500†", "0.800", "0.400")
    assert list(means([row]))[1:] == [
        "- Price ÷ Karpenter, all 1: 0.500 on the mean; 0.800 of its first round, whatever that left out; "
        "0.400 of its first round for each pod placed.",
        "- The bound itself is 0.400 of Karpenter 1.14's price: no plan for all pods can be below that.",
    ]


def test_a_problem_that_karpenter_did_not_solve_has_no_ratio_to_it() -> None:
    row = Row.of(Line("own-500", OURS))
    assert row.over_karpenter is None
    assert row.cells()[4:7] == ("", "", "")


def test_the_report_has_a_row_for_each_problem_and_the_means_of_each_group() -> None:
    rows = [Row.of(Line(name, OURS, KARPENTER)) for name in ("generic-500", "taints-500", "affinity-500", "mix-500")]
    text = report(rows)
    assert [line.count("|") for line in text.split("\n")[:6]] == [len(HEAD) + 1] * 6
    assert list(means(rows)) == [
        "- Cost ÷ bound, with rules between pods, 500 pods: 1.250 on the mean.",
        "- Cost ÷ bound, without rules between pods, 500 pods: 1.250 on the mean.",
        "- Price ÷ Karpenter, all 4: 0.800 on the mean; 0.800 of its first round, whatever that left out; "
        "0.400 of its first round for each pod placed.",
        "- The bound itself is 0.640 of Karpenter 1.14's price: no plan for all pods can be below that.",
    ]
