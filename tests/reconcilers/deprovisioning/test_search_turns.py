"""Consolidation searches after provisioning, and takes a tenth of one core on the mean."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, write_record
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.reconcilers.deprovisioning.search_turns import (
    MOST_CREDIT_SECONDS,
    SHARE_OF_TIME,
    Hold,
    SearchBudget,
    nodes_on_their_way,
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
    assert nodes_on_their_way(factories.snapshot(nodes=nodes), NOW) is expected
