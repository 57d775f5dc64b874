"""A command that was launched in part is planned again as if it had not been, so that its tokens come out the same; and
which rollbacks are failures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import INITIALIZED
from controller.core.deprovisioning.consolidation_search import find
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, recorded_commands, write_record
from controller.core.deprovisioning.resumption import planned_again
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.provisioning.plan import PlannedNode
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories
from tests.core.deprovisioning.builders import MARKET, NOW, owner, parts, standing, types_of

SPLIT = types_of(("m5dn.xlarge", "4", "16Gi", 0.14), ("m5dn.2xlarge", "8", "32Gi", 0.49))
"""One large node with two pods of 3 cpus becomes two small ones."""


def begun(*launched: str) -> tuple[Snapshot, tuple[PlannedNode, ...]]:
    """Such a command on record, with those of its replacements `one` and `two` there; and what was planned for it."""
    large = standing("a", "m5dn.2xlarge", *[{"cpu": "3", "memory": "12Gi"}] * 2, types=SPLIT)
    view = factories.snapshot(nodes=[large], provisioners=[owner()])
    (command,) = find(*parts(view, SPLIT)).commands
    record = Record("x", "consolidation", "it saves", ("a",), ("one", "two"), NOW)
    there = [annotated(standing(name, "m5dn.xlarge", types=SPLIT), LAUNCH_TOKEN, name) for name in launched]
    nodes = [annotated(large, COMMAND_ANNOTATION, write_record(record)), *map(starting, there)]
    return factories.snapshot(nodes=nodes, provisioners=[owner()]), command.replacements


def annotated(node: StateNode, key: str, value: str) -> StateNode:
    return replace(node, node=replace(node.node, annotations=FrozenMap({**node.node.annotations, key: value})))


def starting(node: StateNode) -> StateNode:
    own = {key: value for key, value in node.node.labels.items() if key != INITIALIZED}
    return replace(node, node=replace(node.node, labels=FrozenMap(own), ready=False))


@pytest.mark.parametrize("launched", [(), ("one",), ("one", "two")])
def test_what_was_launched_already_changes_nothing_in_the_plan(launched: tuple[str, ...]) -> None:
    view, planned = begun(*launched)
    (command,) = recorded_commands(view)
    assert len(command.replacements) == len(launched)
    _, simulator, _ = parts(view, SPLIT)
    again = planned_again(command, simulator, NOW + 60)
    assert [(node.pods, node.offering, node.alternatives) for node in again.replacements] == [
        (node.pods, node.offering, node.alternatives) for node in planned
    ]


@pytest.mark.parametrize(
    ("method", "gone", "launched", "fails"),
    [
        ("consolidation", False, ("one",), True),
        ("consolidation", True, ("one",), False),  # a part of the set went, to what was launched
        ("consolidation", False, (), False),
        ("drift", False, (), True),
    ],
)
def test_what_has_cost_nothing_in_vain_is_no_failure(
    method: str, gone: bool, launched: tuple[str, ...], fails: bool
) -> None:
    record = Record("x", method, "it saves", ("a", "b"), launched, NOW)
    named = ("b",) if gone else ("a", "b")
    nodes = [
        annotated(standing(name, "m5dn.xlarge", types=SPLIT), COMMAND_ANNOTATION, write_record(record))
        for name in named
    ]
    (command,) = recorded_commands(factories.snapshot(nodes=nodes, provisioners=[owner()]))
    assert command.fails_if_rolled_back == fails


def test_what_is_not_worth_it_any_more_is_not_planned_again() -> None:
    view, _ = begun("one")
    dear = types_of(("m5dn.xlarge", "4", "16Gi", 0.3), ("m5dn.2xlarge", "8", "32Gi", 0.49))
    _, simulator, _ = parts(view, dear)
    assert planned_again(recorded_commands(view)[0], simulator, NOW).replacements == ()
    _, simulator, _ = parts(view, MARKET)
    assert planned_again(recorded_commands(view)[0], simulator, NOW).replacements == (), (
        "nor where nobody knows the node's price"
    )
