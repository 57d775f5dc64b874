"""Nodes in service that are closed while pods move to them: their pods are bound, then they are opened."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.labels import INITIALIZED, PROVISIONER_NAME
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.scheduling.taints import CLOSED_TAINT_KEY
from controller.kube.resources import NODES, PODS
from controller.reconcilers.nodes.opening_reconciler import OpeningReconciler
from tests.reconcilers.conftest import World
from tests.reconcilers.nodes.test_opening import add_replica, home, moved_to


def in_service(world: World, command: str, **spec: Any) -> None:
    """The node `there`, closed while the command moves pods to it, with a taint of somebody else's."""
    taints = [
        {"key": CLOSED_TAINT_KEY, "value": command, "effect": "NoSchedule"},
        {"key": "mine", "effect": "NoExecute"},
    ]
    metadata = {"name": "there", "labels": {INITIALIZED: "true", PROVISIONER_NAME: "default"}}
    world.add_node({"metadata": metadata, "spec": {"taints": taints, **spec}})


def taints_of(world: World, name: str) -> list[str]:
    return [taint["key"] for taint in world.node(name)["spec"].get("taints") or []]


@pytest.mark.parametrize("cordoned_by_a_user", [True, False])
def test_a_node_in_service_opens_once_the_pods_have_moved_and_keeps_the_cordon_of_a_user(
    world: World, *, cordoned_by_a_user: bool
) -> None:
    moved_to(world)
    world.kube.delete(NODES, "old")
    in_service(world, "x", **({"unschedulable": True} if cordoned_by_a_user else {}))
    loop = OpeningReconciler(world.context)
    loop.reconcile(world.caught_up())
    assert CLOSED_TAINT_KEY in taints_of(world, "there")
    world.kube.delete(PODS, "last", "default", grace_period_seconds=0)
    loop.reconcile(world.caught_up())
    assert CLOSED_TAINT_KEY not in taints_of(world, "there")
    assert "mine" in taints_of(world, "there")
    assert world.node("there")["spec"].get("unschedulable", False) == cordoned_by_a_user


def test_pods_that_move_to_a_node_in_service_are_bound_as_they_come(world: World) -> None:
    moved_to(world)
    world.kube.delete(NODES, "old")
    in_service(world, "x")
    tolerates = {"tolerations": [{"key": "mine", "operator": "Exists"}]}
    uid = add_replica(world, "a", tolerates)
    world.context.planning.expected = {uid: ExpectedPod(("default", "a"), "there")}
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert home(world, "a") == "there"
    assert CLOSED_TAINT_KEY in taints_of(world, "there"), "another pod is still to come"


def test_a_node_in_service_stays_closed_for_places_that_provisioning_has_not_read_yet(world: World) -> None:
    """Its loop is busy with a plan while the pods are evicted."""
    world.add_provisioner()
    in_service(world, "gone")
    world.add_pod("moves", node="there")
    pod = world.caught_up().pods["default", "moves"]
    world.context.planning.moves.append([(pod, ExpectedPod(pod.key, "there"))])
    loop = OpeningReconciler(world.context)
    loop.reconcile(world.caught_up())
    assert CLOSED_TAINT_KEY in taints_of(world, "there")
    world.context.planning.moves.clear()
    loop.reconcile(world.caught_up())
    assert CLOSED_TAINT_KEY not in taints_of(world, "there")


def test_a_node_in_service_whose_command_did_not_begin_is_opened_by_the_next_leader(world: World) -> None:
    """The process died after it was closed, and before the old node was deleted."""
    moved_to(world)
    in_service(world, "x")
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert CLOSED_TAINT_KEY not in taints_of(world, "there")
