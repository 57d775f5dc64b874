"""The table and the picture of price against nodes."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.report import KarpenterFigures
from bench.trade_offs.node_counts import Frontier, Point, picture, report

KARPENTER = KarpenterFigures(price=15.0, seconds=1.0, nodes=10, left_out=3)


def frontier(*plans: tuple[float, int], name: str = "one") -> Frontier:
    """Plans as (price, nodes), one for each cost of a node."""
    return Frontier(
        name, tuple(Point(cost, *plan) for cost, plan in zip((0.002, 0.02, 0.08), plans, strict=True)), KARPENTER
    )


@pytest.mark.parametrize(
    ("plans", "verdict"),
    [
        (((10.0, 40), (10.2, 15), (11.0, 9)), "met"),
        (((10.0, 40), (10.1, 16), (10.2, 15)), "met at $0.08"),
        (((10.0, 40), (10.1, 16), (10.3, 15)), "nodes: so few nodes cost 1.030"),
        (((10.0, 40), (10.3, 15), (10.4, 12)), "price: so few nodes cost 1.030"),
        (((10.0, 40), (10.1, 30), (10.2, 16)), "nodes: so few at no cost tried"),
    ],
)
def test_a_problem_meets_the_goal_or_says_what_so_few_nodes_would_cost(
    plans: tuple[tuple[float, int], ...], verdict: str
) -> None:
    assert frontier(*plans).verdict() == verdict


def test_the_table_has_a_row_for_each_problem_and_the_picture_a_line_with_a_point_at_the_default() -> None:
    every = [frontier((10.0, 40), (10.2, 15), (11.0, 9)), frontier((10.0, 40), (10.1, 30), (10.2, 16), name="two")]
    lines = report(every).split("\n")
    assert lines[2] == "| one | 10 (3) | 1.50 | 1.000, 40 (4.00) | 1.020, 15 (1.50) | 1.100, 9 (0.90) | met |"
    assert "met at the default by 1 of 2 problems, and by 0 more" in report(every)
    assert "price 1.015, nodes 0.562" in report(every)
    drawn = ElementTree.fromstring(picture(every))
    assert sum(each.tag.endswith("polyline") for each in drawn) == 2
    points = [each.attrib for each in drawn if each.tag.endswith("circle")]
    assert [float(each["cx"]) for each in points] == [pytest.approx(60 + 640 * 1.5 / 4), pytest.approx(60 + 640 * 0.75)]
