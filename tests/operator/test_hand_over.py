"""SIGTERM during launches: the lease goes to a successor at once only when it can see all that was launched."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from controller.core.cloud import CloudInstance, LaunchRequest
from controller.errors import CloudError, CloudUnauthorizedError, InsufficientCapacityError
from controller.kube.lease import LEASE_NAME, LeaderElector
from controller.kube.resources import LEASES
from controller.operator.process import hand_over
from tests.machines.test_launcher import request as launch_request
from tests.operator.test_composition import acting
from tests.reconcilers.conftest import World, apply_fault, world

__all__ = ["world"]


def elector(world: World, name: str) -> LeaderElector:
    return LeaderElector(world.kube, "default", name, world.clock)


def holder(world: World) -> str:
    return str(world.kube.get(LEASES, LEASE_NAME, "default")["spec"]["holderIdentity"])


def test_a_create_fleet_in_flight_leaves_the_successor_waiting(world: World) -> None:
    """The launch is answered only after the process gave up waiting for it: EC2 may have launched."""
    answer, asked, create = threading.Event(), threading.Event(), world.cloud.create

    def slow(request: LaunchRequest) -> CloudInstance:
        asked.set()
        assert answer.wait(30.0)
        return create(request)

    world.cloud.create = slow  # type: ignore[method-assign]
    world.add_provisioner()
    first, second = elector(world, "first"), elector(world, "second")
    assert first.acquire(world.stop)
    try:
        with acting(world, stop_after=False, close_seconds=0.5) as operator:
            world.add_pod("a")
            assert asked.wait(20.0)
        with capture_logs() as logs:
            hand_over(first, operator.unsettled())
        assert "1 calls without an answer" in logs[0]["because"]
        assert holder(world) == "first"
        assert not second.renew_once(), "the lease has to expire first"
        world.clock.ahead_seconds += second.options.lease_duration_seconds
        assert second.renew_once()
    finally:
        answer.set()


def test_a_process_with_nothing_under_way_hands_the_lease_over_at_once(world: World) -> None:
    first, second = elector(world, "first"), elector(world, "second")
    assert first.acquire(world.stop)
    with acting(world) as operator:
        pass
    hand_over(first, operator.unsettled())
    assert second.renew_once()


@pytest.mark.parametrize(
    ("error", "unclear"),
    [
        (CloudError("ec2:CreateFleet: read timeout"), True),
        (CloudError("The controller stops while it waits for EC2 to show an instance"), True),
        (InsufficientCapacityError("none left"), False),
        (CloudUnauthorizedError("denied"), False),
    ],
)
def test_a_failed_call_is_settled_once_ec2_would_show_what_it_launched(
    world: World, error: CloudError, unclear: bool
) -> None:
    world.cloud.create_errors.append(error)
    with pytest.raises(CloudError):
        world.launcher.launch(launch_request())
    assert bool(world.launcher.unsettled()) is unclear
    world.clock.ahead_seconds = 30.0
    assert world.launcher.unsettled() == ""


def test_an_instance_is_settled_with_its_node(world: World) -> None:
    apply_fault(world, {"kind": "errors", "seconds": 60, "code": 500})
    with pytest.raises(Exception, match="500"):
        world.launcher.launch(launch_request())
    assert "1 instances without a Node" in world.launcher.unsettled()
    apply_fault(world, None)
    world.clock.ahead_seconds = 5.0
    world.until(lambda s: world.launcher.settle(s) == () and s.nodes, "the Node")
    assert world.launcher.unsettled() == ""
