"""What is kept of plans, and when a pod counts as bound elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import OPENS_WITH, ZONE
from controller.core.api.pod import LabelSelector, Pod, PodAffinityTerm, PodVolume
from controller.core.machines.opening import closing_taint
from controller.core.state.snapshot import Snapshot
from controller.reconcilers.provisioning.expectations import (
    BINDING_SECONDS,
    FEWEST_DISPLACED,
    FEWEST_SECONDS,
    PAUSE_SECONDS,
    Expectations,
)
from tests import factories


def test_nodes_that_are_gone_are_forgotten_although_some_pod_always_waits() -> None:
    expected = Expectations()
    stuck = replace(factories.pending_pod(name="stuck"), owners=(factories.replica_set_owner(),))
    for number in range(20):
        here = factories.snapshot(nodes=[factories.state_node(node=factories.node(name=f"node-{number}"))])
        expected.plan_anew([stuck], here)
        expected.expect(f"node-{number}", [stuck])
    assert len(expected.places) <= 2


CLOSED = {OPENS_WITH: "plan"}
"""Annotations of a node that the controller opens once its pods are bound."""


def waits_for_its_node(nodes: str, boots: str) -> bool:
    """Whether a pod with affinity, planned for a node that boots, still waits for it once the two replicas that were
    planned for `a` and `b` are bound to `nodes`. `boots`: the node is open, closed, or still launched."""
    owner = (factories.replica_set_owner(),)
    replicas = [replace(factories.pending_pod(name=f"web-{n}"), owners=owner) for n in range(2)]
    near = PodAffinityTerm(ZONE, LabelSelector())
    waiting = factories.pending_pod(name="near", required_pod_affinity=(near,))
    known = [factories.node(name=name) for name in "ab"]
    if boots != "launched":
        annotations = CLOSED if boots == "closed" else {}
        known.append(factories.node(name="boots", initialized=False, annotations=annotations))
    launching = ("boots",) if boots == "launched" else ()

    def seen(*pods: Pod) -> Snapshot:
        nodes = [
            factories.state_node(node=each, pods=[pod for pod in pods if pod.node_name == each.name]) for each in known
        ]
        return factories.snapshot(nodes=nodes, pending=[pod for pod in pods if not pod.node_name])

    expected = Expectations()
    expected.plan_anew([*replicas, waiting], seen(*replicas, waiting))
    for node, pod in zip(("a", "b", "boots"), (*replicas, waiting), strict=True):
        expected.expect(node, [pod])
    expected.planned(0.0)
    expected.observe(seen(*replicas, waiting), 3, launching, 0.0)
    bound = [replace(pod, node_name=node, phase="Running") for pod, node in zip(replicas, nodes, strict=True)]
    expected.observe(seen(*bound, waiting), 1, launching, 1.0)
    expected.observe(seen(*bound, waiting), 1, launching, 1.0 + 2 * BINDING_SECONDS)
    return waiting.uid in expected.on_the_way


@pytest.mark.parametrize(
    ("nodes", "stays"), [("ab", True), ("ba", True), ("aa", False)], ids=["as planned", "exchanged", "elsewhere"]
)
def test_which_of_an_owners_replicas_comes_to_which_of_their_nodes_makes_no_difference(nodes: str, stays: bool) -> None:
    """A pod with affinity waits for a node that boots. It is planned anew once others were bound elsewhere."""
    assert waits_for_its_node(nodes, boots="open") == stays


@pytest.mark.parametrize("boots", ["closed", "launched"])
def test_what_is_planned_for_a_closed_node_is_not_planned_anew_when_others_are_bound_elsewhere(boots: str) -> None:
    """The whole plan is judged before the controller binds pods to it. Nor is what is planned for a launch."""
    assert waits_for_its_node("aa", boots)


@pytest.mark.parametrize("closed", [True, False])
def test_a_pod_waits_for_a_node_in_service_while_that_is_closed(*, closed: bool) -> None:
    """kube-scheduler binds nothing there; the controller binds the pod."""
    pod = replace(factories.pending_pod(name="moved"), owners=(factories.replica_set_owner(),))
    taints = (closing_taint("command"),) if closed else ()
    view = factories.snapshot(nodes=[factories.state_node(node=factories.node(name="a", taints=taints))], pending=[pod])
    expected = Expectations()
    expected.expect("a", [pod])
    expected.planned(0.0)
    expected.observe(view, 1, (), 0.0)
    expected.observe(view, 1, (), 2 * BINDING_SECONDS)
    assert (pod.uid in expected.on_the_way) == closed


@pytest.mark.parametrize(
    ("reserved", "change", "home"),
    [
        ("closed", {}, "new"),
        ("launched", {}, "new"),
        ("open", {}, "old"),
        ("closed", {"owners": (replace(factories.replica_set_owner(), uid="another"),)}, "old"),
        ("closed", {"labels": FrozenMap({"version": "2"})}, "old"),
        ("closed", {"spec": factories.pending_pod(requests={"cpu": "3"}).spec}, "old"),
        ("closed", {"volumes": (PodVolume("data", "claim"),)}, "old"),
    ],
    ids=["closed", "launched", "open", "of another owner", "with other labels", "of another size", "with a volume"],
)
def test_a_replica_whose_place_another_took_gets_the_place_of_that_one(
    reserved: str, change: dict[str, Any], home: str
) -> None:
    """kube-scheduler bound `first`, planned for the new node, to the old one, for which `second` was planned."""
    owner = (factories.replica_set_owner(),)
    first = replace(factories.pending_pod(name="first"), owners=owner)
    second = replace(factories.pending_pod(name="second"), **{"owners": owner, **change})
    annotations = CLOSED if reserved == "closed" else {}
    old, new = factories.node(name="old"), factories.node(name="new", initialized=False, annotations=annotations)
    known = (old,) if reserved == "launched" else (old, new)
    launching = ("new",) if reserved == "launched" else ()
    expected = Expectations()
    expected.plan_anew([first, second], factories.snapshot(pending=[first, second]))
    expected.expect("new", [first])
    expected.expect("old", [second])
    bound = replace(first, node_name="old", phase="Running")
    nodes = [factories.state_node(node=each, pods=[bound] if each is old else []) for each in known]
    expected.observe(factories.snapshot(nodes=nodes, pending=[second]), 1, launching, 0.0)
    assert {uid: each.node for uid, each in expected.pods.items()} == {second.uid: home}


def test_the_pods_of_a_small_plan_are_not_the_last_ones_of_a_large_plan_before_it() -> None:
    """One pod of the large plan never got its node. The pods of the small one wait for kube-scheduler as usual."""
    pods = [factories.pending_pod(name=f"web-{n}") for n in range(100)]
    node = factories.node(name="a")
    here = factories.snapshot(nodes=[factories.state_node(node=node)], pending=pods)
    expected = Expectations()
    expected.expect("a", pods)
    expected.observe(here, 100, (), 0.0)
    bound = [replace(pod, node_name="a", phase="Running") for pod in pods[1:]]
    later = [factories.pending_pod(name=f"api-{n}") for n in range(5)]
    with_both = factories.snapshot(nodes=[factories.state_node(node=node, pods=bound)], pending=[pods[0], *later])
    expected.observe(with_both, 6, (), 1.0)
    expected.plan_anew([pods[0], *later], with_both)
    expected.expect("a", [pods[0], *later])
    expected.planned(1.0)
    expected.observe(with_both, 6, (), 1.0 + PAUSE_SECONDS + FEWEST_SECONDS)
    assert expected.on_the_way == {pod.uid for pod in (pods[0], *later)}


@pytest.mark.parametrize("few", [0, 1])
def test_pods_whose_places_were_taken_are_planned_anew_before_their_room_counts_as_free(few: int) -> None:
    """kube-scheduler bound the pods of `slow` to `quick`, which was Ready first, and left those of `quick` without.

    A few are not planned anew: one by one each would get a small node of its own.
    """
    count = FEWEST_DISPLACED + 1
    size = {"requests": {"cpu": "1"}}
    planned = {
        node: [factories.pending_pod(name=f"{node}-{n:02d}", **size) for n in range(count)]
        for node in ("quick", "slow")
    }
    expected = Expectations()
    for node, those in planned.items():
        expected.expect(node, those)

    def seen(taken: int) -> Snapshot:
        slow = [replace(pod, node_name="quick" if n < taken else "") for n, pod in enumerate(planned["slow"])]
        now = [*planned["quick"], *slow]
        room: dict[str, str | int | float] = {"cpu": count, "pods": 99}
        nodes = [
            factories.state_node(
                node=factories.node(name=name, initialized=False, allocatable=room),
                pods=[pod for pod in now if pod.node_name == name],
            )
            for name in ("quick", "slow")
        ]
        return factories.snapshot(nodes=nodes, pending=[pod for pod in now if not pod.node_name])

    expected.observe(seen(0), 2 * count, (), 0.0)
    every = {node: [pod.key for pod in those] for node, those in planned.items()}
    assert expected.forget_displaced(seen(0), {}) == every
    taken = FEWEST_DISPLACED - few
    expected.observe(seen(taken), 2 * count - taken, (), 1.0)
    left = count if few else count - taken
    assert expected.forget_displaced(seen(taken), {}) == {"quick": every["quick"][:left], "slow": every["slow"][taken:]}
    displaced = planned["quick"][left:]
    assert not [pod for pod in displaced if pod.uid in expected.pods]
