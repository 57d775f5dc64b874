"""The table of what even zones cost."""

from __future__ import annotations

from bench.trade_offs import zone_days
from bench.trade_offs.zone_steps import DEFAULT, STEPS, Problem, Step, picture, report
from controller.core.zones.balance import ZoneBalance


def test_a_row_has_the_largest_share_and_the_cost_and_the_summary_counts_what_holds() -> None:
    shares = (0.9, 0.6, 0.55, 0.5, 0.45, 0.4)
    many = Problem("many", tuple(Step(share, 10.0 + n) for n, share in enumerate(shares)))
    few = Problem("few", tuple(Step(None, 1.0) for _ in STEPS))
    said = report([many, few])
    assert "| many | 90%, 1.000 | 60%, 1.100 | 55%, 1.200 | 50%, 1.300 | 45%, 1.400 | 40%, 1.500 |" in said
    assert "| few | –, 1.000 |" in said
    assert "- prices alone: 0 of 1 within 60%; cost 1.000 on the mean." in said
    assert "- default: 1 of 1 within 60%, 1 within its own 60%; cost 1.050 on the mean." in said
    assert "- even, 10 % more: 1 of 1 within 60%, 0 within its own 40%; cost 1.200 on the mean." in said
    other = Problem("other", tuple(Step(0.5, 20.0) for _ in STEPS))
    drawn = picture([many, few, other])
    assert drawn.count("<title>many, ") == len(STEPS), "without few, of which no share is known"
    assert f"<title>problems, mean, {STEPS[1][0]}: 55%, 1.050</title>" in drawn


def test_a_day_counts_the_time_within_a_share_and_its_dollars_over_those_of_prices_alone() -> None:
    alone = zone_days.DayStep("prices alone", ZoneBalance(), 10.0, 4.0, (1.0, 0.8, 0.5, 0.4))
    aimed = zone_days.DayStep("default", DEFAULT, 10.2, 5.0, (0.6, 0.6, 0.5, 0.7))
    said = zone_days.report([alone, aimed])
    assert "| prices alone | 50% | – | 68% | 100% | 4 | 10.00 | 1.000 |" in said
    assert "| default | 75% | 75% | 60% | 70% | 5 | 10.20 | 1.020 |" in said
    drawn = picture([], [zone_days.drawn("day", [alone, aimed])])
    assert ">day (dashed)</text>" in drawn
    assert f"{STEPS[1][0]}: 60%, 1.020</text>" in drawn
