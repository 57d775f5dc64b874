"""The picture and the table of price against time."""

from __future__ import annotations

from xml.etree import ElementTree

from bench.curve import BUDGETS, HEIGHT, MARGIN, WIDTH, Point, picture, table

CURVES = {"one": [Point(0.0, 0.1, 1.2), Point(1.0, 0.4, 1.0)], "two": [Point(0.0, 0.2, 1.1), Point(1.0, 0.3, 1.05)]}


def test_the_dearest_point_is_at_the_top_and_the_slowest_at_the_right() -> None:
    root = ElementTree.fromstring(picture(CURVES))
    lines = [e.attrib["points"] for e in root if e.tag.endswith("polyline")]
    assert len(lines) == 2
    points = [tuple(float(v) for v in point.split(",")) for line in lines for point in line.split()]
    assert min(y for _, y in points) == MARGIN == points[0][1]
    assert max(x for x, _ in points) == WIDTH - MARGIN == points[1][0]
    assert points[1][1] == HEIGHT - MARGIN


def test_the_table_has_a_row_for_each_problem_and_a_column_for_each_budget() -> None:
    full = {name: [Point(b, 0.1, 1.25) for b in BUDGETS] for name in ("one", "two")}
    lines = table(full).strip().split("\n")
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["one", "two"]
    assert lines[2].count("1.250 (0.10 s)") == len(BUDGETS)
