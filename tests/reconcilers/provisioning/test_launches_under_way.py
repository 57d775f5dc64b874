"""Launching never holds back the next plan, which counts on the nodes that are being launched."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from controller.core.machines.on_their_way import stand_in_name
from controller.core.provisioning.batch_window import BatchTimes
from controller.errors import CloudError, InsufficientCapacityError
from controller.kube.resources import NODES
from tests.reconcilers.conftest import World
from tests.reconcilers.provisioning.builders import nodes_are, reconciler, settled_passes

ONCE = BatchTimes(0.02, 0.1, 600.0)


def spec(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}


def requests_are(world: World, count: int) -> Any:
    return lambda _: len(world.cloud.requests) == count


@pytest.fixture
def held_up(world: World) -> threading.Event:
    """Launches wait for it."""
    world.add_provisioner(limits={"resources": {"cpu": "8"}})
    world.cloud.held_up = threading.Event()
    return world.cloud.held_up


def test_the_next_plan_does_not_wait_for_launches_and_counts_on_their_nodes(
    world: World, held_up: threading.Event
) -> None:
    """The first pod gets no second node, a small one joins the node on its way, and limits know that node."""
    loop = reconciler(world, ONCE)
    world.add_pod("first")
    world.passes(loop, requests_are(world, 1), "the first launch")
    world.add_pod("joins", spec=spec("200m"))
    world.add_pod("second", spec=spec("1900m"))
    world.passes(loop, requests_are(world, 2), "the second launch, while the first has no answer")
    world.add_pod("third", spec=spec("6"))
    settled_passes(world, loop, 0.5)
    world.await_event("FailedScheduling")
    assert len(world.cloud.requests) == 2, "with a third node the limit of 8 cpu would be exceeded"
    held_up.set()
    snapshot = world.passes(loop, nodes_are(2), "both nodes")
    assert not [name for name in snapshot.nodes if name.startswith(stand_in_name(""))]
    settled_passes(world, loop, 0.3)
    assert len(world.cloud.requests) == 2


@pytest.mark.parametrize("error", [InsufficientCapacityError("no m5.large"), CloudError("refused")])
def test_pods_that_joined_a_launch_that_fails_are_planned_again(
    world: World, held_up: threading.Event, error: CloudError
) -> None:
    """At once where capacity was lacking; else when the Provisioner is tried again."""
    loop = reconciler(world, ONCE if isinstance(error, InsufficientCapacityError) else BatchTimes(0.02, 0.1, 0.3))
    world.add_pod("first")
    world.passes(loop, requests_are(world, 1), "the launch")
    world.add_pod("joins", spec=spec("200m"))
    settled_passes(world, loop, 0.4)
    assert len(world.cloud.requests) == 1
    world.cloud.create_errors = [error]
    held_up.set()
    settled_passes(world, loop, 0.1)
    world.clock.ahead_seconds = 0.0 if isinstance(error, InsufficientCapacityError) else 10.0
    world.passes(loop, nodes_are(1), "another launch, for both")
    assert [request.requests["cpu"] for request in world.cloud.requests] == [1000, 1200]


def test_writes_to_nodes_hold_back_neither_launches_nor_plans(world: World) -> None:
    """The API server is slow to create the first Node: the second pod's instance is launched meanwhile."""
    world.add_provisioner()
    create, slow = world.kube.create, threading.Event()

    def created(resource: Any, *args: Any, **more: Any) -> Any:
        if resource is NODES:
            assert slow.wait(30.0)
        return create(resource, *args, **more)

    world.kube.create = created  # type: ignore[method-assign]
    loop = reconciler(world, ONCE)
    for number, name in enumerate(("first", "second"), start=1):
        world.add_pod(name, spec=spec("1900m"))
        world.passes(loop, lambda _, n=number: len(world.cloud.running) == n, f"instance {number}")  # type: ignore[misc]
    assert not world.informers.snapshot().nodes
    slow.set()
    world.passes(loop, nodes_are(2), "both nodes")
    settled_passes(world, loop, 0.3)
    assert len(world.cloud.requests) == 2
    assert world.launcher.unsettled() == ""
