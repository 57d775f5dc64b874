"""Consolidation searches after provisioning, and takes a tenth of one core on the mean."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, write_record
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.reconcilers.deprovisioning.search_turns import (
    MOST_CREDIT_SECONDS,
    SHARE_OF_TIME,
    TOLD_AFTER_SECONDS,
    Hold,
    SearchBudget,
    SearchTurns,
    nodes_on_their_way,
    provisioning_waited_for,
)
from tests import factories

NOW = 10_000.0


def test_searches_take_their_share_of_the_time_on_the_mean_whatever_they_cost() -> None:
    """As often as the budget allows, each at a random cost up to half a minute."""
    draw, now, spent, budget = random.Random(7), 0.0, 0.0, SearchBudget()
    while now < 50_000.0:
        now += budget.wait_seconds(now) + 0.2
        cost = draw.choice((0.01, 0.5, 30.0)) * draw.random()
        now, spent = now + cost, spent + cost
        budget = budget.after(now, cost)
        assert spent <= SHARE_OF_TIME * now + MOST_CREDIT_SECONDS + 30.0
    assert spent >= 0.9 * SHARE_OF_TIME * now, "what is allowed is used"


def test_what_is_saved_up_is_limited() -> None:
    rested = SearchBudget().after(1e6)
    assert rested.credit == MOST_CREDIT_SECONDS
    assert rested.after(1e6, MOST_CREDIT_SECONDS + 1.0).wait_seconds(1e6) == pytest.approx(1.0 / SHARE_OF_TIME)


def test_a_hold_ends_when_nothing_is_waited_for_or_after_its_time() -> None:
    hold = Hold(600.0)
    assert not hold.holds(0.0)
    held = hold.observe(True, 5.0).observe(True, 500.0)
    assert held.holds(604.0)
    assert not held.holds(605.0), "in a cluster that always waits for something, searches get their turn"
    assert not held.observe(False, 50.0).holds(50.0)
    assert held.observe(False, 50.0).observe(True, 60.0).holds(605.0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"initialized": False}, True),
        ({"initialized": True}, False),
        ({"initialized": False, "created": NOW - 301.0}, False),  # it hardly comes any more
        ({"initialized": False, "provisioner": ""}, False),
        ({"initialized": False, "deleted_at": NOW}, False),
        ({"initialized": False, "annotations": FrozenMap({LAUNCH_TOKEN: "recorded"})}, False),  # a replacement
        ({"initialized": False, "annotations": FrozenMap({LAUNCH_TOKEN: "other"})}, True),
    ],
)
def test_nodes_that_pods_wait_for_are_on_their_way(fields: dict[str, Any], expected: bool) -> None:
    record = Record("x", "consolidation", "saves", ("old",), ("recorded",), NOW)
    old = factories.node(name="old")
    carrier = replace(old, annotations=FrozenMap({COMMAND_ANNOTATION: write_record(record)}))
    starting = factories.node(name="new", **{"created": NOW - 20.0, **fields})
    nodes = [factories.state_node(node=carrier), factories.state_node(node=starting)]
    assert nodes_on_their_way(factories.snapshot(nodes=nodes), NOW) == (("new",) if expected else ())


def test_what_searches_wait_for_is_a_text() -> None:
    assert provisioning_waited_for(False, 0, ()) == ""
    assert provisioning_waited_for(True, 0, ()) == "the plan of pending pods"
    text = provisioning_waited_for(False, 2, ("a", "b", "c", "d", "e"))
    assert text == "2 launches; nodes that are not initialized: a, b, c and 2 more"


def test_a_wait_that_lasts_is_logged_once_with_what_it_is_for_and_so_is_its_end() -> None:
    with capture_logs() as logged:
        turns = SearchTurns("deprovisioning", most_seconds=600.0, now=0.0)
        for now in range(0, 200, 10):
            turns.observe("2 launches", now)
            assert turns.held(now)
            assert bool(logged) == (now >= TOLD_AFTER_SECONDS)
        turns.observe("", 200.0)
    assert [(each["event"], each.get("waits_for")) for each in logged] == [
        ("Consolidation waits", "2 launches"),
        ("Consolidation searches again", None),
    ]


def test_waits_that_are_short_are_not_logged() -> None:
    with capture_logs() as logged:
        turns = SearchTurns("deprovisioning", most_seconds=600.0, now=0.0)
        for now in range(0, 500, 10):
            turns.observe("2 launches" if now % 50 else "", now)
    assert not logged


def test_a_wait_for_the_budget_is_logged_as_well() -> None:
    """A search took 20 s of processor time: 15 more than was saved up, a tenth of a core for 150 s."""
    with capture_logs() as logged:
        turns = SearchTurns("deprovisioning", most_seconds=600.0, now=0.0)
        turns.spend(20.0, 20.0)
        assert turns.wait_seconds(20.0) == pytest.approx(150.0)
        for now in range(20, 100, 10):
            turns.observe("", now)
            assert not turns.held(now)
    assert [each["waits_for"] for each in logged] == ["searches have used up their 10% of a core for 90 s more"]


def test_after_the_longest_wait_searches_get_their_turn_and_do_not_give_way() -> None:
    turns = SearchTurns("deprovisioning", most_seconds=600.0, now=0.0)
    turns.observe("2 launches", 0.0)
    assert turns.gives_way(599.0)
    turns.observe("2 launches", 600.0)
    assert not turns.held(600.0)
    assert not turns.gives_way(600.0)
