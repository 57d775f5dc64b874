"""Consolidation as a method: what it finds has to hold for a while; searches go on, and rest where nothing changes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.consolidation import Consolidation, ConsolidationTimes
from controller.core.deprovisioning.method import Proposal
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, write_record
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories
from tests.core.deprovisioning.builders import NOW, ROOM, keeping_apart, method_input, owner, reasons, removed, standing

TIMES = ConsolidationTimes(settle_seconds=15.0, quiet_seconds=300.0, search_seconds=2.0)
DEAR = standing("a", "c5.2xlarge", {"cpu": "1"})
FULL = standing("a", "c5.large", {"cpu": "1900m"})


def cluster(*nodes: StateNode, version: int = 1) -> Snapshot:
    return replace(factories.snapshot(nodes=nodes, provisioners=[owner()]), version=version)


def decide(method: Consolidation, view: Snapshot, at: float, **fields: Any) -> Proposal:
    return method.decide(method_input(view, monotonic=at, **fields))


def test_a_removal_is_made_when_it_has_held_for_a_while() -> None:
    method = Consolidation(TIMES)
    assert removed(decide(method, cluster(DEAR), 100.0)) == []
    assert removed(decide(method, cluster(DEAR), 114.0)) == []
    assert removed(decide(method, cluster(DEAR), 115.0)) == [["a"]]


def test_a_removal_that_does_not_hold_any_more_is_not_made() -> None:
    method = Consolidation(TIMES)
    decide(method, cluster(DEAR), 100.0)
    full = replace(DEAR, pods=(*DEAR.pods, factories.running_pod(node="a", requests={"cpu": "7"})))
    assert removed(decide(method, cluster(full, version=2), 115.0)) == []


def test_a_removal_whose_node_is_gone_is_forgotten() -> None:
    method = Consolidation(TIMES)
    decide(method, cluster(DEAR), 100.0)
    assert removed(decide(method, cluster(version=2), 110.0)) == []
    assert removed(decide(method, cluster(DEAR, version=3), 115.0)) == [], "a node of the same name settles anew"


def test_no_search_begins_while_pods_of_the_last_command_arrive() -> None:
    """For 30 s from its beginning; the command of another method holds nothing up."""

    def found(method: str, age: float) -> bool:
        record = Record("id", method, "cheaper", ("b",), (), NOW - age)
        leaving = standing("b", "c5.large", annotations=FrozenMap({COMMAND_ANNOTATION: write_record(record)}))
        view, searching = cluster(DEAR, leaving), Consolidation(TIMES)
        decide(searching, view, 100.0)
        return removed(decide(searching, view, 115.0)) == [["a"]]

    assert [found("consolidation", age) for age in (0.0, 29.0, 30.0)] == [False, False, True]
    assert found("drift", 0.0)


def test_where_nothing_changed_no_new_search_begins() -> None:
    """After a while one does, for prices may have changed; any change of the cluster ends the rest at once."""
    method, still = Consolidation(TIMES), cluster(FULL)
    assert reasons(decide(method, still, 100.0)) != ""
    assert reasons(decide(method, still, 399.0)) == ""
    assert reasons(decide(method, still, 400.0)) != ""
    assert reasons(decide(method, cluster(FULL, version=2), 401.0)) != ""


def test_without_time_for_a_search_what_was_found_goes_and_empty_nodes_go() -> None:
    method, empty = Consolidation(TIMES), replace(DEAR, pods=())
    decide(method, cluster(DEAR), 100.0, searches=False)
    assert removed(decide(method, cluster(DEAR), 115.0, searches=False)) == [], "nothing was searched"
    decide(method, cluster(DEAR), 116.0)
    assert removed(decide(method, cluster(DEAR), 131.0, searches=False)) == [["a"]]
    decide(method, cluster(empty, version=2), 200.0, searches=False)
    assert removed(decide(method, cluster(empty, version=2), 215.0, searches=False)) == [["a"]]


def test_a_node_on_which_pods_were_expected_is_searched_when_they_are_not_any_more() -> None:
    """That ends by time alone: nothing changes in the cluster."""
    method, view = Consolidation(TIMES), cluster(replace(DEAR, nominated_until=NOW + 10.0))
    assert removed(decide(method, view, 100.0)) == []
    assert removed(decide(method, view, 111.0, now=NOW + 11.0)) == []
    assert removed(decide(method, view, 126.0, now=NOW + 26.0)) == [["a"]]


def test_nodes_that_a_guard_needs_stay_with_its_reason_and_nodes_held_back_without_any() -> None:
    method, required = Consolidation(TIMES), {"a": "it is to be on demand"}
    proposal = decide(method, cluster(DEAR), 100.0, required=required)
    assert [(candidate.name, reason) for candidate, reason in proposal.kept] == [("a", "it is to be on demand")]
    assert removed(decide(method, cluster(DEAR), 115.0, required=required)) == []
    method = Consolidation(TIMES)
    held = frozenset({"a"})
    assert decide(method, cluster(DEAR), 100.0, held_back=held).kept == ()
    assert removed(decide(method, cluster(DEAR), 115.0, held_back=held)) == []


def test_each_look_of_a_search_goes_on_where_the_last_one_ended() -> None:
    """Each node needs a simulation to be judged."""
    names = [f"n{number}" for number in range(10)]
    view = cluster(ROOM, *map(keeping_apart, names))
    method = Consolidation(TIMES, most_simulations=6)
    looks = [decide(method, view, at) for at in (100.0, 102.0, 104.0)]
    judged = [{candidate.name for candidate, _ in proposal.kept} for proposal in looks]
    assert looks[0].again_seconds == TIMES.search_seconds
    assert [proposal.again_seconds for proposal in looks].index(math.inf) > 0
    assert set().union(*judged) == set(names)
    assert sum(map(len, judged)) == len(names), "no node is judged twice"
