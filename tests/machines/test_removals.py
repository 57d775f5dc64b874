"""The one door for removals: nothing passes it before the cluster is proven, and no other way leads around it."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import PROVISIONER_NAME, TERMINATION_FINALIZER
from controller.core.api.node import Node
from controller.core.api.parse import parse_node
from controller.core.cloud import Cloud, CloudIdentity
from controller.core.machines.cluster_proof import FORGOTTEN_SECONDS, Standing
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, RemovalRefusedError
from controller.kube.resources import NODES
from controller.machines.removals import Departure, Removals
from controller.runtime.metrics import SILENT, Recorder
from controller.telemetry.registry import Metrics
from tests.core.instances import cloud_instance
from tests.reconcilers.conftest import World, world
from tests.source_trees import READS_SOURCES, ROOT, syntax_trees
from tests.telemetry.test_registry import values

__all__ = ["world"]


def door(world: World, arn: str = "", recorder: Recorder = SILENT) -> Removals:
    """A door that has checked nothing yet."""
    return Removals(
        kube=world.kube,
        cloud=world.cloud,
        clock=world.clock,
        recorder=recorder,
        cluster_arn=arn or world.cloud.where.cluster_arn,
    )


def ready_node(world: World, number: int = 1, **instance: object) -> Node:
    """A Ready Node with our finalizer, whose instance the cloud has."""
    made = world.cloud.add(cloud_instance(number=number, **instance))  # type: ignore[arg-type]
    labels = {PROVISIONER_NAME: "default"}
    metadata = {"name": made.node_name, "labels": labels, "finalizers": [TERMINATION_FINALIZER]}
    return world.add_node({"metadata": metadata, "spec": {"providerID": made.provider_id}}).node


def test_nothing_passes_before_the_first_check(world: World) -> None:
    node, closed = ready_node(world), door(world)
    with pytest.raises(RemovalRefusedError, match="not proven yet"):
        closed.delete(node)
    with pytest.raises(RemovalRefusedError):
        closed.end_instance(node)
    with pytest.raises(RemovalRefusedError):
        closed.departed(node)
    with pytest.raises(RemovalRefusedError):
        closed.terminate(world.cloud.get(node.provider_id))
    with pytest.raises(RemovalRefusedError):
        closed.release(Departure(node, "said somebody"))
    assert world.node(node.name)["metadata"].get("deletionTimestamp") is None
    assert world.cloud.deleted == []


def test_our_finalizer_goes_from_the_node_that_was_meant_whatever_was_written_to_it_since(world: World) -> None:
    node, open_door = ready_node(world), door(world)
    open_door.check(world.informers.snapshot())
    meant = parse_node(world.kube.patch(NODES, node.name, {"metadata": {"finalizers": [TERMINATION_FINALIZER, "a/b"]}}))
    open_door.delete(meant)
    world.kube.patch(NODES, node.name, {"metadata": {"labels": {"written": "since"}}})
    assert open_door.release(Departure(meant, "its instance is gone"))
    assert world.node(node.name)["metadata"]["finalizers"] == ["a/b"]


def test_a_node_that_took_the_name_meanwhile_keeps_its_finalizer(world: World) -> None:
    node, open_door = ready_node(world), door(world)
    open_door.check(world.informers.snapshot())
    world.kube.patch(NODES, node.name, {"metadata": {"finalizers": None}})
    world.kube.delete(NODES, node.name)
    anew = {"name": node.name, "finalizers": [TERMINATION_FINALIZER]}
    world.kube.create(NODES, {"metadata": anew, "spec": {}})
    assert not open_door.release(Departure(node, "its instance is gone"))
    assert world.node(node.name)["metadata"]["finalizers"] == [TERMINATION_FINALIZER]


@pytest.mark.parametrize(
    "where",
    [
        CloudIdentity("us-east-1", "arn:aws:eks:us-east-1:123456789012:cluster/test"),
        CloudIdentity("eu-west-1", "arn:aws:eks:eu-west-1:999999999999:cluster/test"),
    ],
)
def test_another_region_or_account_removes_no_node_and_says_so_once(world: World, where: CloudIdentity) -> None:
    """A controller started with the wrong region saw 6 Nodes without an instance and deleted them in 2 s."""
    nodes = [ready_node(world, number) for number in range(1, 7)]
    world.clock.ahead_seconds = 60.0
    own, metrics = world.cloud.where, Metrics(world.clock)
    removals = door(world, own.cluster_arn, metrics)

    def shown() -> dict[tuple[str, ...], float]:
        return values(metrics.page({}).body, "nodeless_cluster_not_proven", "standing")

    world.cloud.where = where
    world.cloud.instances.clear()
    with capture_logs() as logs:
        for _ in range(3):
            assert removals.check(world.informers.snapshot()).standing is Standing.DISPROVED
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["Nothing is removed"]
    for node in nodes:
        with pytest.raises(RemovalRefusedError, match="Not removed"):
            removals.delete(node)
    assert len(world.kube.list(NODES)) == 6
    assert shown() == {("doubted",): 0.0, ("disproved",): 1.0}
    refused = values(metrics.page({}).body, "karpenter_consistency_errors_total", "check")
    assert refused == {("RefusedRemoval",): 6.0}
    world.cloud.where = own
    assert removals.check(world.informers.snapshot()).standing is Standing.DOUBTED, "no instance is known"
    assert shown() == {("doubted",): 1.0, ("disproved",): 0.0}


def test_a_check_that_fails_keeps_the_last_verdict_and_a_good_one_opens_the_door_again(world: World) -> None:
    node = ready_node(world)
    world.clock.ahead_seconds = 60.0
    removals = door(world)
    assert removals.check(world.informers.snapshot()).proven
    identity = world.cloud.identity

    def fails() -> CloudIdentity:
        raise CloudError("throttled")

    world.cloud.identity = fails  # type: ignore[method-assign]
    with pytest.raises(CloudError):
        removals.check(world.informers.snapshot())
    assert removals.proof.proven
    world.cloud.identity = identity  # type: ignore[method-assign]
    kept = dict(world.cloud.instances)
    world.cloud.instances.clear()
    assert removals.check(world.informers.snapshot()).standing is Standing.DOUBTED
    world.cloud.instances.update(kept)
    assert removals.check(world.informers.snapshot()).proven
    removals.delete(node)
    assert world.node(node.name)["metadata"]["deletionTimestamp"]


def test_a_node_of_another_region_is_refused_while_the_others_go(world: World) -> None:
    node = ready_node(world)
    world.removals.check(Snapshot())
    with pytest.raises(RemovalRefusedError, match="us-east-1a"):
        world.removals.delete(replace(node, provider_id="aws:///us-east-1a/i-0123456789abcdef0"))
    world.removals.delete(node)


def test_an_instance_that_ec2_forgot_is_gone_only_when_its_kubelet_is_silent_too(world: World) -> None:
    node = ready_node(world)
    world.cloud.instances.clear()
    assert world.removals.departed(node) is None
    assert world.removals.end_instance(node) is None
    assert world.removals.departed(replace(node, ready=False)) is not None


def test_an_instance_without_the_clusters_tag_is_terminated_if_another_tag_or_its_node_says_it_is_ours(
    world: World,
) -> None:
    tagged = ready_node(world, 1, owned=False)
    untagged = ready_node(world, 2, owned=False, provisioner="")
    launched = replace(untagged, annotations=FrozenMap({LAUNCH_TOKEN: "token"}))
    assert world.removals.end_instance(tagged) is not None
    assert world.cloud.deleted == [tagged.provider_id]
    assert world.removals.end_instance(untagged) is not None, "its Node goes"
    assert world.cloud.deleted == [tagged.provider_id], "but an instance that is nobody's by its tags stays"
    assert world.removals.end_instance(launched) is not None
    assert world.cloud.deleted == [tagged.provider_id, untagged.provider_id]


def test_an_instance_with_another_clusters_tag_is_left_running(world: World) -> None:
    tags = {"kubernetes.io/cluster/other": "owned"}
    node = ready_node(world, owned=False, tags=tags)
    assert world.removals.end_instance(node) is not None
    assert world.cloud.deleted == []


def test_silent_nodes_may_go_once_ec2_may_have_forgotten_them(world: World) -> None:
    """Somebody ended all instances while no controller ran: a fault of the looking for an hour, a fact after it."""
    nodes = [ready_node(world, number) for number in range(1, 6)]
    for node in nodes:
        since = "2020-01-01T00:00:00Z"
        condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": since}
        world.kube.patch(NODES, node.name, {"status": {"conditions": [condition]}}, subresource="status")
    world.cloud.instances.clear()
    snapshot = world.caught_up()
    world.clock.ahead_seconds = FORGOTTEN_SECONDS
    assert world.removals.check(snapshot).proven


def test_loops_have_a_cloud_that_cannot_terminate() -> None:
    assert not hasattr(Cloud, "delete")


@READS_SOURCES
def test_nodes_are_deleted_and_instances_terminated_by_the_door_alone() -> None:
    """`.delete(NODES, ...)`, the finalizer's name beside a patch, and `terminate_instances` stand nowhere else."""
    places: dict[str, set[str]] = {"delete": set(), "terminate": set(), "finalizers": set()}
    for path, tree in syntax_trees("controller").items():
        name = path.relative_to(ROOT).as_posix()
        for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            if not isinstance(call.func, ast.Attribute):
                continue
            first = call.args[0] if call.args else None
            if call.func.attr == "delete" and isinstance(first, ast.Name) and first.id == "NODES":
                places["delete"].add(name)
            if call.func.attr == "terminate_instances":
                places["terminate"].add(name)
        for entry in (each for each in ast.walk(tree) if isinstance(each, ast.Compare)):
            if any(isinstance(each, ast.Name) and each.id == "TERMINATION_FINALIZER" for each in ast.walk(entry)):
                places["finalizers"].add(name)
    assert places["delete"] == {"controller/machines/removals.py"}
    assert places["terminate"] == {"controller/aws/launch/instances.py"}
    assert places["finalizers"] == {"controller/machines/removals.py"}
