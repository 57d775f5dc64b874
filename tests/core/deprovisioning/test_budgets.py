"""Disruption budgets: counts, shares, reasons, schedules; what cannot be read protects (core.api.disruption)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controller.core.api.disruption import parse_budgets, parse_schedule
from controller.core.api.provisioner import Provisioner
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.gate import allowance
from tests import factories

MONDAY_NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC).timestamp()


def owner(text: str | None) -> Provisioner:
    annotations = {V1ALPHA5.keys.disruption_budgets: text} if text is not None else {}
    return V1ALPHA5.pool.parse(factories.provisioner_object(annotations=annotations))


def allowed(text: str | None, reason: str = "expired", nodes: int = 25, now: float = MONDAY_NOON) -> int:
    return allowance(owner(text), reason, nodes, now).nodes


@pytest.mark.parametrize(
    ("text", "nodes", "expected"),
    [
        ('[{"nodes": "3"}]', 25, 3),
        ('[{"nodes": 3}]', 25, 3),
        ('[{"nodes": "0"}]', 25, 0),
        ('[{"nodes": "10%"}]', 25, 3),
        ('[{"nodes": "10%"}]', 1, 1),
        ('[{"nodes": "0%"}]', 25, 0),
        ('[{"nodes": "100%"}]', 25, 25),
        ('[{"nodes": "5"}, {"nodes": "10%"}]', 25, 3),
        (None, 25, 3),
        (None, 1, 1),
        ("[]", 25, 3),
    ],
)
def test_the_strictest_budget_decides_and_shares_are_rounded_up(text: str | None, nodes: int, expected: int) -> None:
    assert allowed(text, nodes=nodes) == expected


def test_a_budget_holds_for_the_reasons_that_it_names() -> None:
    text = '[{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "7"}]'
    assert (allowed(text, "drifted"), allowed(text, "expired")) == (0, 7)


def test_empty_nodes_have_no_limit_unless_a_budget_names_them() -> None:
    assert allowed(None, "empty") == 25
    assert allowed('[{"nodes": "2"}]', "empty") == 2


@pytest.mark.parametrize(("hour", "expected"), [(8.99, 3), (9.0, 0), (13.0, 0), (16.99, 0), (17.0, 3), (23.0, 3)])
def test_a_window_of_working_hours(hour: float, expected: int) -> None:
    """Outside the window the budget does not count, and the default holds."""
    text = '[{"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}]'
    assert allowed(text, now=MONDAY_NOON + (hour - 12) * 3600) == (25 if expected == 3 else 0)


def test_a_window_reaches_over_midnight() -> None:
    text = '[{"nodes": "0", "schedule": "0 22 * * *", "duration": "8h"}]'
    assert [allowed(text, now=MONDAY_NOON + h * 3600) > 0 for h in (9.9, 10, 17.9, 18)] == [True, False, False, True]


def test_no_weekday_window_on_sunday() -> None:
    text = '[{"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}]'
    assert allowed(text, now=MONDAY_NOON - 86_400) == 25


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "JSON list"),
        ("nonsense", "JSON list"),
        ('[{"nodes": "many"}]', "[0].nodes"),
        ('[{"nodes": "120%"}]', "[0].nodes"),
        ('[{"nodes": "-1"}]', "[0].nodes"),
        ("[{}]", "[0].nodes"),
        pytest.param("[" * 100_000, "not a JSON list", id="too deep"),
        ('[{"nodes": "1"}, {"nodes": "1", "reasons": ["bored"]}]', "[1].reasons"),
        ('[{"nodes": "1", "reasons": "empty"}]', "[0].reasons"),
        ('[{"nodes": "1", "schedule": "0 9 * * *"}]', "go together"),
        ('[{"nodes": "1", "schedule": "0 25 * * *", "duration": "1h"}]', "0 to 23"),
        ('[{"nodes": "1", "schedule": "0 9 * *", "duration": "1h"}]', "five cron fields"),
        ('[{"nodes": "1", "schedule": "0 9 * * *", "duration": "soon"}]', "[0].schedule"),
        ('[{"nodes": "1", "schedule": "0 9 * * *", "duration": "1s"}]', "[0].duration"),
        ('[{"nodes": "1", "node": "1"}]', "unknown member node"),
    ],
)
def test_a_budget_that_cannot_be_read_allows_nothing_and_says_why(text: str, words: str) -> None:
    refused = allowance(owner(text), "expired", 25, MONDAY_NOON)
    assert refused.nodes == 0
    assert words in refused.because


def test_all_problems_are_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"\[0\].*\[1\]"):
        parse_budgets('[{"nodes": "x"}, {"nodes": "y"}]')


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("*/15 * * * *", "minutes", {0, 15, 30, 45}),
        ("5/20 * * * *", "minutes", {5, 25, 45}),
        ("0 8-10,20 * * *", "hours", {8, 9, 10, 20}),
        ("0 0 1 jan,jul *", "months", {1, 7}),
        ("0 0 * * 7", "weekdays", {0}),
        ("0 0 * * fri-7", "weekdays", {5, 6, 0}),
        ("@weekly", "weekdays", {0}),
    ],
)
def test_cron_fields(text: str, field: str, expected: set[int]) -> None:
    assert getattr(parse_schedule(text), field) == expected


def test_two_restricted_day_fields_are_either_or() -> None:
    """cron(5): the command runs when either field matches."""
    schedule = parse_schedule("0 0 13 * fri")
    days = {day for day in range(1, 32) if schedule.on(datetime(2026, 3, day, tzinfo=UTC))}
    assert days == {6, 13, 20, 27}


def test_a_setting_holds_for_provisioners_that_say_nothing_themselves() -> None:
    setting = parse_budgets('[{"nodes": "3"}]')
    assert allowance(factories.provisioner(), "drifted", 100, MONDAY_NOON, setting).nodes == 3
    assert allowance(owner('[{"nodes": "1"}]'), "drifted", 100, MONDAY_NOON, setting).nodes == 1
    assert "disruptionBudgets" in allowance(factories.provisioner(), "drifted", 100, MONDAY_NOON, setting).because
