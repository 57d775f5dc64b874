"""Registration and initialization over the API server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from controller.core.api.labels import CAPACITY_TYPE, INITIALIZED, PROVISIONER_NAME, TERMINATION_FINALIZER
from controller.core.machines.node_documents import LAUNCH_TOKEN, node_document
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError
from controller.kube.resources import NODES
from controller.reconcilers.nodes import registration_reconciler
from controller.reconcilers.nodes.registration_reconciler import LABEL_SECONDS, RegistrationReconciler
from tests import factories
from tests.core.instances import cloud_instance
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import World


def reconciler(world: World) -> RegistrationReconciler:
    return RegistrationReconciler(world.context)


def initialized(name: str) -> Any:
    return lambda snapshot: snapshot.nodes[name].initialized


def launched(world: World, *, instance_type: str = "m5.large", number: int = 1) -> str:
    """A node as a launch leaves it; its name."""
    tags = {LAUNCH_TOKEN: f"token-{number}"}
    instance = world.cloud.add(cloud_instance(instance_type=instance_type, number=number, tags=tags))
    provisioner = world.informers.snapshot().provisioners["default"]
    world.add_node(node_document(instance, provisioner), ready=False)
    return instance.node_name


def some_passes(world: World, loop: RegistrationReconciler) -> Snapshot:
    for _ in range(5):
        loop.reconcile(world.caught_up())
    return world.caught_up()


def test_a_node_is_initialized_once_it_is_ready(world: World) -> None:
    world.add_provisioner()
    name = launched(world)
    loop = reconciler(world)
    assert not some_passes(world, loop).nodes[name].initialized
    world.come_up(name)
    world.passes(loop, initialized(name))
    assert world.node(name)["metadata"]["labels"][INITIALIZED] == "true"


def test_eight_nodes_are_written_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No write is answered before all eight are under way."""
    world.add_provisioner()
    names = [launched(world, number=number) for number in range(1, 9)]
    for name in names:
        world.come_up(name)
    patch, all_there = world.kube.patch, threading.Barrier(8)

    def meet(*args: Any, **fields: Any) -> Any:
        all_there.wait(timeout=60)
        return patch(*args, **fields)

    monkeypatch.setattr(world.kube, "patch", meet)
    reconciler(world).reconcile(world.caught_up())
    monkeypatch.undo()
    assert all(world.node(name)["metadata"]["labels"].get(INITIALIZED) == "true" for name in names)


def test_startup_taints_must_go_first(world: World) -> None:
    world.add_provisioner(startupTaints=[{"key": "cilium", "effect": "NoExecute"}])
    name = launched(world)
    loop = reconciler(world)
    world.come_up(name)
    assert not some_passes(world, loop).nodes[name].initialized
    world.kube.patch(NODES, name, {"spec": {"taints": None}})
    world.passes(loop, initialized(name))


def test_the_device_plugin_must_have_registered(world: World) -> None:
    world.cloud = MemoryCloud([factories.instance_type(name="g4dn.xlarge", cpu="4", extended={"nvidia.com/gpu": 1})])
    world.add_provisioner()
    name = launched(world, instance_type="g4dn.xlarge")
    loop = reconciler(world)
    world.come_up(name, {"cpu": "4", "memory": "16Gi", "pods": "29"})
    assert not some_passes(world, loop).nodes[name].initialized
    world.come_up(name, {"cpu": "4", "memory": "16Gi", "pods": "29", "nvidia.com/gpu": "1"})
    world.passes(loop, initialized(name))


def test_a_catalog_that_cannot_be_had_holds_initialization_back_and_nothing_else(world: World) -> None:
    world.add_provisioner(labels={"team": "web"})
    world.cloud.types_errors["default"] = CloudError("AWS is down")
    node = {"metadata": {"name": "self-made", "labels": {PROVISIONER_NAME: "default"}}}
    world.add_node(node)
    loop = reconciler(world)
    snapshot = some_passes(world, loop)
    assert TERMINATION_FINALIZER in snapshot.nodes["self-made"].node.finalizers
    assert not snapshot.nodes["self-made"].initialized
    world.cloud.types_errors.clear()
    world.passes(loop, initialized("self-made"))


def test_a_node_that_registered_by_itself_becomes_ours_in_full(world: World) -> None:
    """Its kubelet came before our Node object: finalizer, owner and the instance's labels are added."""
    made = world.add_provisioner(labels={"team": "web"})
    instance = world.cloud.add(cloud_instance())
    document = {
        "metadata": {"name": instance.node_name, "labels": {PROVISIONER_NAME: "default"}, "finalizers": ["o/f"]},
        "spec": {"providerID": instance.provider_id},
    }
    world.add_node(document)
    world.passes(reconciler(world), initialized(instance.node_name))
    metadata = world.node(instance.node_name)["metadata"]
    assert sorted(metadata["finalizers"]) == [TERMINATION_FINALIZER, "o/f"]
    assert metadata["labels"][CAPACITY_TYPE] == "spot"
    assert metadata["labels"]["team"] == "web"
    assert metadata["ownerReferences"][0]["uid"] == made["metadata"]["uid"]


def test_a_node_whose_instance_ec2_does_not_show_yet_waits_for_what_only_the_instance_tells(world: World) -> None:
    """Without its launch token it would be an empty node to all, and not what a command is waiting for."""
    world.add_provisioner()
    instance = cloud_instance(tags={LAUNCH_TOKEN: "token-1"})
    metadata = {"name": instance.node_name, "labels": {PROVISIONER_NAME: "default"}}
    world.add_node({"metadata": metadata, "spec": {"providerID": instance.provider_id}})
    loop = reconciler(world)
    before = some_passes(world, loop).nodes[instance.node_name]
    assert TERMINATION_FINALIZER in before.node.finalizers
    assert not before.initialized
    assert loop.reconcile(world.caught_up()) <= 1.0, "it is looked at again soon"
    world.cloud.add(instance)
    world.clock.ahead_seconds += 10.0
    world.passes(loop, initialized(instance.node_name))
    assert world.node(instance.node_name)["metadata"]["annotations"][LAUNCH_TOKEN] == "token-1"


def test_strangers_and_leaving_nodes_are_not_touched(world: World) -> None:
    """N24, N25: asked of the API server, not of our own copy."""
    world.add_provisioner()
    world.add_node({"metadata": {"name": "stranger"}})
    leaving = {"name": "leaving", "labels": {PROVISIONER_NAME: "default"}, "finalizers": ["o/f"]}
    world.add_node({"metadata": leaving})
    world.kube.delete(NODES, "leaving")
    before = {name: world.node(name)["metadata"]["resourceVersion"] for name in ("stranger", "leaving")}
    some_passes(world, reconciler(world))
    assert {name: world.node(name)["metadata"]["resourceVersion"] for name in before} == before


def test_a_complete_node_is_not_written_again(world: World) -> None:
    world.add_provisioner()
    name = launched(world)
    world.come_up(name)
    loop = reconciler(world)
    world.passes(loop, initialized(name))
    version = world.node(name)["metadata"]["resourceVersion"]
    some_passes(world, loop)
    assert world.node(name)["metadata"]["resourceVersion"] == version
    world.kube.patch(NODES, name, {"metadata": {"finalizers": None}})
    back = [TERMINATION_FINALIZER]
    world.passes(loop, lambda s: list(s.nodes[name].node.finalizers) == back, "what is taken off it comes back")


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_a_node_that_its_kubelet_makes_anew_while_its_instance_ends_is_not_adopted(world: World, state: str) -> None:
    """With our finalizer and labels it would be drained, and counted as room, once more."""
    world.add_provisioner()
    instance = world.cloud.add(cloud_instance(state=state))
    labels = {PROVISIONER_NAME: "default"}
    world.add_node(
        {"metadata": {"name": instance.node_name, "labels": labels}, "spec": {"providerID": instance.provider_id}}
    )
    loop = RegistrationReconciler(world.context)
    for _ in range(3):
        loop.reconcile(world.caught_up())
        world.clock.ahead_seconds += 1.0
    metadata = world.node(instance.node_name)["metadata"]
    assert "finalizers" not in metadata
    assert metadata["labels"] == labels


def launched_in_a_burst(world: World, monkeypatch: pytest.MonkeyPatch, many: int) -> str:
    """A node as a launch leaves it, where so many pods that wait are a burst; its name."""
    monkeypatch.setattr(registration_reconciler, "MANY_PODS", many)
    world.add_provisioner()
    return launched(world)


def expect_pods(world: World, number: int) -> None:
    """Pods that were planned for, and that kube-scheduler has not bound yet."""
    pods = [world.add_pod(f"pod-{each}") for each in range(number)]
    world.context.planning.expected = {
        pod["metadata"]["uid"]: ExpectedPod(("default", pod["metadata"]["name"]), "node") for pod in pods
    }


def test_the_label_waits_while_kube_scheduler_binds_a_burst(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    name = launched_in_a_burst(world, monkeypatch, many=3)
    expect_pods(world, 3)
    world.come_up(name)
    loop = reconciler(world)
    assert not some_passes(world, loop).nodes[name].initialized
    world.kill_pod("pod-0")
    world.passes(loop, initialized(name))


@pytest.mark.parametrize(
    ("what", "going_on", "ended"), [("unplanned", True, False), ("launching", frozenset({"token-1"}), frozenset())]
)
def test_the_label_waits_for_pods_without_a_plan_while_plans_or_launches_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str, going_on: Any, ended: Any
) -> None:
    """Else it does not wait for them: perhaps no node can ever take them."""
    name = launched_in_a_burst(world, monkeypatch, many=1)
    world.add_pod("pod")
    world.come_up(name)
    loop = reconciler(world)
    setattr(world.context.planning, what, going_on)
    assert not some_passes(world, loop).nodes[name].initialized
    setattr(world.context.planning, what, ended)
    world.passes(loop, initialized(name))


def test_the_label_waits_for_a_minute_at_most(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    name = launched_in_a_burst(world, monkeypatch, many=1)
    expect_pods(world, 1)
    world.come_up(name)
    loop = reconciler(world)
    assert loop.reconcile(world.caught_up()) <= LABEL_SECONDS, "a pass is due by then though nothing changes"
    world.clock.ahead_seconds += LABEL_SECONDS - 5.0
    assert not some_passes(world, loop).nodes[name].initialized
    world.clock.ahead_seconds += 5.0
    world.passes(loop, initialized(name))


def test_what_a_node_lacks_beside_the_label_is_written_during_a_burst(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the finalizer its instance would outlive it."""
    name = launched_in_a_burst(world, monkeypatch, many=1)
    world.kube.patch(NODES, name, {"metadata": {"finalizers": None}})
    expect_pods(world, 1)
    world.come_up(name)
    node = some_passes(world, reconciler(world)).nodes[name].node
    assert TERMINATION_FINALIZER in node.finalizers
