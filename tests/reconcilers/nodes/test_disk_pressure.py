"""The guides' GPU notebook: placed, disk pressure, evicted, placed; here it ends after two rounds, and is said once."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from controller.core.cloud import InstanceType
from controller.kube.resources import NODES, PODS, Resource
from controller.reconcilers.nodes.disk_pressure_reconciler import DiskPressureReconciler
from tests import factories
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import World
from tests.reconcilers.provisioning.builders import reconciler, settled_passes

ROOM = {"cpu": "4", "memory": "16Gi", "pods": "58", "ephemeral-storage": "17Gi"}
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True)
EVICTED = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "The node was low on resource: ephemeral-storage. Threshold quantity: 2146223340, available: 1Gi.",
}


def sized(storage: str) -> InstanceType:
    return factories.instance_type(name="m5.xlarge", cpu="4", memory="16Gi", extended={"ephemeral-storage": storage})


def notebook(world: World) -> dict[str, Any]:
    """The StatefulSet makes its pod, and kube-scheduler finds no node for it."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    made = world.kube.get(STATEFUL_SETS, "test", "default")["metadata"]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "test", "uid": made["uid"], "controller": True}
    return world.add_pod("test-0", spec={"containers": [container]}, ownerReferences=[owner])


def stateful_set(world: World) -> None:
    labels = {"app": "test"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"serviceName": "test", "selector": {"matchLabels": labels}, "template": pod}
    world.kube.create(STATEFUL_SETS, {"metadata": {"name": "test"}, "spec": spec}, "default")


def fill_the_disk(world: World, node: str) -> None:
    """Bound, evicted, and deleted by its StatefulSet, as the API server shows it; the node is replaced."""
    binding = {"metadata": {"name": "test-0"}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    world.kube.create(PODS, binding, "default", subresource="binding", name="test-0")
    world.kube.patch(PODS, "test-0", {"status": EVICTED}, namespace="default", subresource="status")
    world.kill_pod("test-0")
    world.kube.patch(NODES, node, {"metadata": {"finalizers": None}})
    world.until(lambda s: ("default", "test-0") not in s.pods, "the pod is gone")
    world.kube.delete(NODES, node)
    world.until(lambda s: node not in s.nodes, "the node is gone")


def test_a_third_node_is_not_launched_and_the_cure_is_said_once(world: World) -> None:
    world.cloud = MemoryCloud([sized("17Gi")])
    world.add_provisioner()
    stateful_set(world)
    loop = reconciler(world)
    for _ in range(2):
        notebook(world)
        (node,) = world.passes(loop, lambda s: s.nodes, "a node").nodes
        world.come_up(node, ROOM)
        loop.reconcile(world.informers.snapshot())
        fill_the_disk(world, node)
    made = notebook(world)
    snapshot = settled_passes(world, loop)
    assert snapshot.nodes == {}
    assert len(world.cloud.requests) == 2
    assert "ephemeral-storage" in world.await_event("FailedScheduling")["message"]
    teller = DiskPressureReconciler(world.context)
    with capture_logs() as logs:
        for _ in range(5):
            teller.reconcile(snapshot)
    (line,) = logs
    assert "raise ebs.volumeSize in spec.blockDeviceMappings of AWSNodeTemplate default" in line["cure"]
    event = world.await_event("DiskPressureLoop")
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert event["count"] == 1


def test_a_larger_disk_is_found_without_a_restart(world: World) -> None:
    world.cloud = MemoryCloud([sized("17Gi")])
    world.add_provisioner()
    stateful_set(world)
    loop = reconciler(world)
    for _ in range(2):
        notebook(world)
        (node,) = world.passes(loop, lambda s: s.nodes, "a node").nodes
        world.come_up(node, ROOM)
        loop.reconcile(world.informers.snapshot())
        fill_the_disk(world, node)
    notebook(world)
    assert settled_passes(world, loop).nodes == {}
    world.cloud.types = (sized("90Gi"),)
    world.passes(loop, lambda s: s.nodes, "a node with the larger disk")
