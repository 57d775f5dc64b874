"""Places on closed replacements pass from the pods that are evicted to those that their owners make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controller.core.api.labels import OPENS_WITH
from controller.core.api.pod import OwnerReference, Pod
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.state.snapshot import Snapshot, StateNode
from controller.reconcilers.provisioning.moving_pods import PLACE_SECONDS, MovingPods
from tests import factories

WEB, JOB = factories.replica_set_owner(name="web"), factories.replica_set_owner(name="job")
ANNOTATED = {OPENS_WITH: "plan"}


def running(name: str, owner: OwnerReference = WEB) -> Pod:
    return replace(factories.running_pod(node="old", name=name), owners=(owner,))


def waiting(name: str, owner: OwnerReference = WEB) -> Pod:
    return replace(factories.pending_pod(name=name), owners=(owner,))


def cluster(pods: Iterable[Pod], *, closed: tuple[str, ...] = ("one", "two")) -> Snapshot:
    """The pods on the old node or without one, and two replacements."""
    own = list(pods)
    nodes: list[StateNode] = [
        factories.state_node(node=factories.node(name="old"), pods=[pod for pod in own if pod.node_name])
    ]
    for name in ("one", "two"):
        made = factories.node(name=name, initialized=False, annotations=ANNOTATED if name in closed else {})
        nodes.append(factories.state_node(node=made))
    return factories.snapshot(nodes=nodes, pending=[pod for pod in own if not pod.node_name])


def moving(**places: str) -> MovingPods:
    """Pods of `web` that are about to leave the old node, each with the node of its place."""
    moves = MovingPods()
    pods = [running(name) for name in places]
    moves.begin((pod, ExpectedPod(pod.key, places[pod.name])) for pod in pods)
    return moves


def followed(moves: MovingPods, view: Snapshot, expected: Iterable[str] = (), now: float = 0.0) -> dict[str, str]:
    return {pod.name: node for pod, node in moves.follow(view, set(expected), now)}


def test_a_pod_takes_the_place_of_the_evicted_one_of_its_owner() -> None:
    moves = moving(a="one", b="two")
    assert followed(moves, cluster([running("a"), running("b")])) == {}
    ends = replace(running("a"), deleted_at=1.0)
    view = cluster([ends, running("b"), waiting("c"), waiting("other", JOB)])
    assert followed(moves, view) == {"c": "one"}
    assert followed(moves, view, [waiting("c").uid]) == {}, "one place is taken once"


def test_pods_that_have_a_place_already_take_no_other() -> None:
    moves = moving(a="one")
    there = waiting("there")
    assert followed(moves, cluster([there, waiting("x")]), [there.uid]) == {"x": "one"}


def test_until_they_are_evicted_pods_need_no_plan_and_their_room_is_taken() -> None:
    moves = moving(a="one", b="one")
    view = cluster([running("a"), running("b")])
    followed(moves, view)
    assert running("a").uid in moves.uids
    assert moves.placed(view) == {"one": [("default", "a"), ("default", "b")]}
    after = cluster([running("b")])
    followed(moves, after)
    assert running("a").uid not in moves.uids
    assert moves.placed(after) == {"one": [("default", "b")]}


def test_places_on_a_node_that_has_opened_or_is_gone_are_given_up() -> None:
    moves = moving(a="one", b="two", c="two")
    followed(moves, cluster([running("c")]))
    view = cluster([running("c"), waiting("x"), waiting("y"), waiting("z")], closed=("one",))
    assert list(followed(moves, view).values()) == ["one"]
    assert running("c").uid not in moves.uids, "kube-scheduler places it like any other pod"
    assert followed(moves, cluster([waiting("y"), waiting("z")])) == {}


def test_a_place_that_no_pod_takes_in_time_is_given_up() -> None:
    moves = moving(a="one", b="two")
    followed(moves, cluster([running("b")]))
    assert moves.nodes == {"one", "two"}
    assert followed(moves, cluster([running("b"), waiting("x")]), now=PLACE_SECONDS) == {}
    assert moves.nodes == {"two"}, "the other pod still runs where it was, however long that takes"
