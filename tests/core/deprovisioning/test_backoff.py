"""Back-off and cool-down on nodes: what the next leader reads, and when it ends."""

from __future__ import annotations

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.deprovisioning.backoff import (
    FAILURE_ANNOTATION,
    FORGET_SECONDS,
    RESTING_ANNOTATION,
    Failure,
    held_back,
    next_failure,
    read_failure,
    resting,
    stale,
    write_failure,
    write_resting,
)
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories
from tests.core.deprovisioning.builders import NOW


def noted(name: str, annotations: dict[str, str], provisioner: str = "default") -> StateNode:
    node = factories.node(name=name, annotations=FrozenMap(annotations), provisioner=provisioner)
    return factories.state_node(node=node)


def failed(at: float = NOW, count: int = 1, method: str = "drift", generation: int = 1) -> dict[str, str]:
    return {FAILURE_ANNOTATION: write_failure(Failure(method, generation, at, count))}


def cluster(*nodes: StateNode, generation: int = 1) -> Snapshot:
    names = ("default", "other")
    return factories.snapshot(
        nodes=nodes, provisioners=[factories.provisioner(name=name, generation=generation) for name in names]
    )


def delay(failures: int) -> float:
    return 60.0 * failures


@pytest.mark.parametrize(("seconds", "held"), [(59.0, {"a", "b"}), (60.0, set())])
def test_a_failure_holds_back_all_nodes_of_its_provisioner_for_a_while(seconds: float, held: set[str]) -> None:
    view = cluster(noted("a", failed()), noted("b", {}), noted("c", {}, "other"))
    assert held_back(view, "drift", NOW + seconds, delay) == held
    assert held_back(view, "expiration", NOW + seconds, delay) == set(), "other methods go on"


def test_a_failed_consolidation_holds_back_its_own_nodes_and_no_others() -> None:
    """With one Provisioner, its nodes are the fleet."""
    view = cluster(noted("a", failed(method="consolidation")), noted("b", {}))
    assert held_back(view, "consolidation", NOW + 59.0, delay) == {"a"}
    assert held_back(view, "consolidation", NOW + 60.0, delay) == set()


def test_an_edit_of_the_provisioner_ends_it() -> None:
    assert held_back(cluster(noted("a", failed()), generation=2), "drift", NOW, delay) == set()


def test_failures_in_a_row_are_counted_over_the_nodes_of_a_provisioner_until_they_are_old() -> None:
    node = noted("b", {})
    view = cluster(noted("a", failed(count=3)), node, noted("c", failed(count=9), "other"))
    assert next_failure(view, node, "drift", NOW + 100) == Failure("drift", 1, NOW + 100, 4)
    assert next_failure(view, node, "drift", NOW + FORGET_SECONDS).count == 1
    assert next_failure(view, node, "expiration", NOW).count == 1


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"method": "drift", "generation": "x", "at": 0, "count": 1}']
)
def test_a_failure_that_cannot_be_parsed_is_none_and_is_taken_off(text: str) -> None:
    node = noted("a", {FAILURE_ANNOTATION: text})
    assert read_failure(node) is None
    assert stale(node, NOW) == (FAILURE_ANNOTATION,)


def test_workloads_cool_down_until_their_time_and_what_is_over_is_taken_off() -> None:
    first = noted("a", {RESTING_ANNOTATION: write_resting(noted("a", {}), ["one"], NOW, NOW + 10)})
    both = noted("a", {RESTING_ANNOTATION: write_resting(first, ["two"], NOW + 5, NOW + 20)})
    assert resting(cluster(both), NOW + 9) == {"one", "two"}
    assert resting(cluster(both), NOW + 10) == {"two"}
    assert stale(both, NOW + 19) == ()
    assert stale(both, NOW + 20) == (RESTING_ANNOTATION,)
