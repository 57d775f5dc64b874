"""A launched instance whose Node name another Node still has: its own pods wait, and no others."""

from __future__ import annotations

from controller.kube.resources import NODES
from tests.core.instances import cloud_instance
from tests.reconcilers.conftest import World
from tests.reconcilers.provisioning.builders import nodes_are, reconciler, settled_passes


def test_a_name_that_is_taken_holds_back_the_pods_of_that_launch_alone(world: World) -> None:
    """EC2 hands out an address again; its old Node, which nobody may free here, stays for a while."""
    world.add_provisioner()
    name = cloud_instance(number=1).node_name
    world.kube.create(NODES, {"metadata": {"name": name}, "spec": {"providerID": "aws:///eu-west-1b/i-0dd"}})
    world.until(lambda s: name in s.nodes)
    world.add_pod("first")
    loop = reconciler(world)
    world.passes(loop, lambda _: world.launcher.held_back(), "the launch that waits for its name")
    assert world.launcher.held_back() == {("default", "first")}
    world.add_pod("second")
    world.passes(loop, nodes_are(2), "a node for the other pod")
    settled_passes(world, loop)
    assert len(world.cloud.requests) == 2, "the first pod has its instance, and gets no second one"
    world.kube.delete(NODES, name)
    world.clock.ahead_seconds += 1.0
    world.passes(loop, lambda s: nodes_are(2)(s) and not world.launcher.held_back(), "the Node of the first")
    assert len(world.cloud.requests) == 2
