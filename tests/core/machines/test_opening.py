"""When the nodes of a plan are opened to kube-scheduler, and which of their pods still wait."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import OPENS_WITH
from controller.core.api.node import Node, Taint
from controller.core.api.pod import Pod
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.machines.on_their_way import ExpectedPod, stand_in_name
from controller.core.machines.opening import (
    Openings,
    closing_taint,
    expected_on,
    in_turn,
    is_closed,
    openings,
    opens_together,
    pending,
    with_startup_taints,
)
from tests import factories
from tests.core.machines.test_launching import planned

SMALL = factories.pending_pod(name="small", requests={"cpu": "1"})
ALIKE = factories.pending_pod(name="alike", requests={"cpu": "1"})
LARGE = factories.pending_pod(name="large", requests={"cpu": "2"})


def together(*nodes: tuple[Pod, ...]) -> bool:
    plan = [replace(planned("m5.large"), pods=tuple(pod.key for pod in pods)) for pods in nodes]
    return opens_together(plan, {pod.key: pod for pods in nodes for pod in pods})


def closed(name: str, group: str = "plan", *, ready: bool = True) -> Node:
    return factories.node(name=name, ready=ready, annotations={OPENS_WITH: group, LAUNCH_TOKEN: f"token-{name}"})


def test_nodes_of_pods_of_different_sizes_open_together() -> None:
    assert together((SMALL,), (LARGE,))


@pytest.mark.parametrize("nodes", [((SMALL, LARGE),), ((SMALL,), (ALIKE,)), ()], ids=["one node", "equal", "none"])
def test_where_it_makes_no_difference_they_do_not(nodes: tuple[tuple[Pod, ...], ...]) -> None:
    assert not together(*nodes)


def test_a_group_opens_once_all_of_its_nodes_are_ready() -> None:
    waits = openings([closed("a"), closed("b", ready=False)], Openings(), 100.0, 10.0)
    assert (waits.uids, waits.next_at) == (frozenset(), 110.0)
    opens = openings([closed("a"), closed("b")], waits, 104.0, 10.0)
    assert opens.uids == {closed("a").uid, closed("b").uid}
    assert opens.next_at == inf


def test_nodes_in_service_are_closed_by_a_taint_and_open_with_those_of_their_command() -> None:
    a, b, c = (
        replace(factories.node(name=name), taints=(closing_taint(command),))
        for name, command in (("a", "one"), ("b", "one"), ("c", "two"))
    )
    assert all(map(is_closed, (a, b, c)))
    assert not is_closed(factories.node(name="a"))
    opens = openings([a, replace(b, ready=False), c], Openings(), 100.0, 10.0)
    assert opens.uids == {c.uid}


def test_ready_nodes_wait_no_longer_than_that_and_the_late_ones_open_as_they_come() -> None:
    late = closed("late", ready=False)
    waits = openings([closed("a"), late], Openings(), 100.0, 10.0)
    still = openings([closed("a"), late], waits, 109.9, 10.0)
    assert (still.uids, still.next_at) == (frozenset(), 110.0)
    opens = openings([closed("a"), late], still, 110.0, 10.0)
    assert opens.uids == {closed("a").uid}
    assert openings([late], opens, 111.0, 10.0).uids == frozenset()


def test_each_plan_has_its_own_time() -> None:
    nodes = [closed("a", "one"), closed("b", "one", ready=False), closed("c", "two")]
    assert openings(nodes, Openings(), 100.0, 10.0).uids == {closed("c", "two").uid}


def test_a_node_that_still_starts_is_waited_for_as_if_it_were_not_ready() -> None:
    nodes = [closed("a"), closed("b")]
    waits = openings(nodes, Openings(), 100.0, 10.0, {closed("b").uid})
    assert (waits.uids, waits.next_at) == (frozenset(), 110.0)
    assert openings(nodes, waits, 110.0, 10.0, {closed("b").uid}).uids == {closed("a").uid}


def test_startup_taints_are_those_of_the_provisioner_by_key_and_effect() -> None:
    taint = Taint("agent", "", "NoSchedule")
    owner = factories.provisioner(name="own", startup_taints=(taint,))
    nodes = [
        factories.node(name="starts", provisioner="own", taints=[replace(taint, value="x")]),
        factories.node(name="other-effect", provisioner="own", taints=[replace(taint, effect="NoExecute")]),
        factories.node(name="not-ready", provisioner="own", taints=[taint], ready=False),
        factories.node(name="of-another", provisioner="gone", taints=[taint]),
    ]
    assert list(with_startup_taints(nodes, {"own": owner})) == [nodes[0].uid]


def test_nobody_waits_where_nothing_is_ready() -> None:
    assert openings([closed("a", ready=False)], Openings(), 100.0, 10.0) == Openings()


def test_pods_are_expected_on_a_node_by_its_name_or_by_that_of_its_stand_in() -> None:
    node = closed("a")
    expected = {
        "1": ExpectedPod(SMALL.key, stand_in_name("token-a")),
        "2": ExpectedPod(ALIKE.key, "a"),
        "3": ExpectedPod(LARGE.key, "elsewhere"),
    }
    assert expected_on([node], expected) == {"1": ExpectedPod(SMALL.key, "a"), "2": ExpectedPod(ALIKE.key, "a")}


def test_nodes_of_many_pods_open_one_lot_after_the_other() -> None:
    nodes = [closed(name) for name in "abcd"]
    homes = {"a": 2, "b": 1, "c": 5}
    lots = [[node.name for node in lot] for lot in in_turn(nodes, homes, 3)]
    assert lots == [["a", "b"], ["c"], ["d"]]
    assert list(in_turn([], homes, 3)) == []


@pytest.mark.parametrize(
    ("change", "waits"),
    [
        ({}, True),
        ({"node_name": "b"}, False),
        ({"deleted_at": 1.0}, False),
        ({"phase": "Failed"}, False),
        ({"uid": "another"}, False),  # a StatefulSet's pod made anew has the name of the last
    ],
)
def test_pods_that_still_need_a_node_are_pending(change: dict[str, object], waits: bool) -> None:
    now = replace(SMALL, **change)  # type: ignore[arg-type]
    found = pending({SMALL.uid: ExpectedPod(SMALL.key, "a")}, FrozenMap({now.key: now}))
    assert list(found) == ([(SMALL.uid, now, "a")] if waits else [])
