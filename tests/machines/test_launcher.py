"""Launches: the instance, its Node, and what happens when one of the two cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.api.frozen import FrozenMap
from controller.core.cloud import LaunchRequest, PricedOffering
from controller.errors import ConflictError, InvalidObjectError, KubeError, NodeNameTakenError
from controller.kube.resources import NODES, Resource
from tests import factories
from tests.core.instances import cloud_instance
from tests.reconcilers.conftest import World, apply_fault

TYPES = {entry.name: entry for entry in factories.small_catalog()}


def request(token: str = "token", labels: dict[str, str] | None = None) -> LaunchRequest:
    return LaunchRequest(
        token=token,
        provisioner=factories.provisioner(),
        template=factories.node_template(),
        offerings=(PricedOffering(0.1, "m5.large", "eu-west-1a", "spot"),),
        instance_types=TYPES,
        labels=FrozenMap(labels or {}),
    )


def test_a_launch_is_unsettled_until_the_state_has_its_node(world: World) -> None:
    before = world.caught_up()
    instance = world.launcher.launch(request())
    assert world.launcher.settle(before) == (instance.id,)
    after = world.until(lambda snapshot: instance.node_name in snapshot.nodes)
    assert world.launcher.settle(after) == ()
    assert world.launcher.settle(before) == (), "settled once is settled"


@pytest.mark.parametrize(("under_way", "seconds"), [(1, "0"), (101, "15")])
def test_a_node_has_the_ttl_of_a_cluster_of_its_size(
    world: World, monkeypatch: pytest.MonkeyPatch, under_way: int, seconds: str
) -> None:
    """Those that are being launched count: kube-controller-manager need not add it then."""
    monkeypatch.setattr(world.launcher, "under_way", lambda: under_way)
    instance = world.launcher.launch(request())
    assert world.node(instance.node_name)["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] == seconds


def test_a_node_that_its_kubelet_made_first_gets_what_it_lacks(world: World) -> None:
    name = cloud_instance(number=1).node_name
    world.kube.create(NODES, {"metadata": {"name": name, "labels": {"from": "kubelet"}}})
    instance = world.launcher.launch(request())
    metadata = world.node(name)["metadata"]
    assert metadata["labels"]["from"] == "kubelet"
    assert metadata["labels"]["karpenter.sh/provisioner-name"] == "default"
    assert metadata["finalizers"] == ["karpenter.sh/termination"]
    assert world.node(name)["spec"]["providerID"] == instance.provider_id


@pytest.mark.parametrize("written_since", [False, True])
def test_a_node_that_the_watch_has_shown_already_is_completed_in_one_request_unless_it_changed_since(
    world: World, monkeypatch: pytest.MonkeyPatch, written_since: bool
) -> None:
    name = cloud_instance(number=1).node_name
    world.add_node({"metadata": {"name": name, "finalizers": ["a/b"]}})
    seen = world.informers.snapshot()
    asked: list[str] = []
    if written_since:
        world.kube.patch(NODES, name, {"metadata": {"finalizers": ["a/b", "c/d"]}})
        monkeypatch.setattr(world.informers, "snapshot", lambda: seen)
    for verb in ("get", "create", "patch"):
        monkeypatch.setattr(world.kube, verb, _noting(verb, getattr(world.kube, verb), asked))
    instance = world.launcher.launch(request())
    assert asked == (["patch", "create", "get", "patch"] if written_since else ["patch"])
    node = world.node(name)
    before = ["a/b", "c/d"] if written_since else ["a/b"]
    assert node["metadata"]["finalizers"] == [*before, "karpenter.sh/termination"]
    assert node["spec"]["providerID"] == instance.provider_id


def _noting(verb: str, call: Callable[..., Any], asked: list[str]) -> Callable[..., Any]:
    def noted(resource: Resource, *given: Any, **options: Any) -> Any:
        if resource is NODES:
            asked.append(verb)
        return call(resource, *given, **options)

    return noted


def test_a_kubelet_that_writes_its_node_at_the_same_moment_fails_no_launch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cloud_instance(number=1).node_name
    world.kube.create(NODES, {"metadata": {"name": name}})
    patch, conflicts = world.kube.patch, [ConflictError("the object has been modified")]

    def patch_after_a_conflict(*given: Any, **options: Any) -> dict[str, Any]:
        if conflicts:
            raise conflicts.pop()
        return patch(*given, **options)

    monkeypatch.setattr(world.kube, "patch", patch_after_a_conflict)
    instance = world.launcher.launch(request())
    assert not conflicts
    assert world.node(name)["spec"]["providerID"] == instance.provider_id


def test_a_node_that_the_api_server_calls_invalid_costs_nothing(world: World) -> None:
    """Its instance is terminated at once, and nothing stays open."""
    with pytest.raises(InvalidObjectError):
        world.launcher.launch(request(labels={"bad": "no such value!"}))
    assert not world.cloud.running
    assert world.launcher.settle(world.informers.snapshot()) == ()


def test_the_node_of_another_instance_by_the_same_name_is_not_taken_over(world: World) -> None:
    """EC2 hands out an address again while the Node of the instance before is still draining."""
    name = cloud_instance(number=1).node_name
    world.kube.create(NODES, {"metadata": {"name": name}, "spec": {"providerID": "aws:///eu-west-1a/i-old"}})
    with pytest.raises(ConflictError, match="i-old"):
        world.launcher.launch(request())
    assert world.launcher.settle(world.caught_up()) != ()
    world.kube.delete(NODES, name)
    world.clock.ahead_seconds = 1.0
    world.until(lambda s: world.launcher.settle(s) == () and name in s.nodes, "the Node of the new instance")
    assert world.node(name)["spec"]["providerID"] == world.cloud.running[0].provider_id


def test_a_name_that_a_dead_node_has_is_freed_and_holds_back_its_own_pods_alone(world: World) -> None:
    """EC2 has terminated the old instance: its Node goes at once, and planning for other pods goes on meanwhile."""
    old = world.cloud.add(cloud_instance(number=1, zone="eu-west-1b", state="terminated"))
    labels = {"karpenter.sh/provisioner-name": "default"}
    metadata = {"name": old.node_name, "labels": labels, "finalizers": ["example.com/slow"]}
    world.kube.create(NODES, {"metadata": metadata, "spec": {"providerID": old.provider_id}})
    pods = (("default", "mine"),)
    with pytest.raises(NodeNameTakenError, match=old.id):
        world.launcher.launch(request(), pods)
    assert world.node(old.node_name)["metadata"]["deletionTimestamp"]
    assert world.launcher.settle(world.caught_up()) == (), "other pods get their nodes"
    assert world.launcher.held_back() == frozenset(pods)
    world.kube.patch(NODES, old.node_name, {"metadata": {"finalizers": None}})
    world.clock.ahead_seconds = 1.0
    world.until(lambda s: world.launcher.settle(s) == () and not world.launcher.held_back(), "the new Node")
    assert world.node(old.node_name)["spec"]["providerID"] != old.provider_id


def test_a_name_that_a_living_node_has_is_not_freed(world: World) -> None:
    """Nor that of a Node whose instance the cloud does not know while its kubelet reports."""
    old = cloud_instance(number=1, zone="eu-west-1b")
    labels = {"karpenter.sh/provisioner-name": "default"}
    world.add_node({"metadata": {"name": old.node_name, "labels": labels}, "spec": {"providerID": old.provider_id}})
    for known in (False, True):
        if known:
            world.cloud.add(old)
        with pytest.raises(NodeNameTakenError):
            world.launcher.launch(request(), [("default", "mine")])
        assert "deletionTimestamp" not in world.node(old.node_name)["metadata"]
    world.clock.ahead_seconds = 61.0
    assert world.launcher.held_back() == frozenset(), "for a minute: then its pods are planned for again"


def test_a_launch_whose_node_cannot_be_written_is_taken_up_again(world: World) -> None:
    """The API server refuses for a while: the instance is not forgotten, nobody plans meanwhile."""
    apply_fault(world, {"kind": "errors", "seconds": 60, "code": 500})
    with pytest.raises(KubeError):
        world.launcher.launch(request())
    assert world.launcher.settle(world.informers.snapshot()) != ()
    apply_fault(world, None)
    world.clock.ahead_seconds = 5.0
    world.until(lambda s: world.launcher.settle(s) == () and s.nodes, "the Node")
    assert len(world.cloud.running) == 1


def test_an_unsettled_launch_stops_blocking_after_a_minute(world: World) -> None:
    before = world.caught_up()
    apply_fault(world, {"kind": "errors", "seconds": 60, "code": 500})
    with pytest.raises(KubeError):
        world.launcher.launch(request())
    world.clock.ahead_seconds = 61.0
    assert world.launcher.settle(before) == ()


def test_an_instance_without_a_name_gets_its_node_when_it_has_one(world: World) -> None:
    nameless = world.cloud.add(cloud_instance(number=9, node_name="", launched_at=world.clock.now()))
    with pytest.raises(Exception, match="no private DNS name"):
        world.launcher.adopt(nameless, factories.provisioner())
    world.cloud.add(cloud_instance(number=9, launched_at=world.clock.now()))
    world.clock.ahead_seconds = 1.0
    world.until(lambda s: world.launcher.settle(s) == () and s.nodes, "the Node")


def test_what_was_launched_is_said_with_its_price_and_its_difference_from_the_plan(world: World) -> None:
    """The cloud had launched the token's instance for another offering: the line says both."""
    world.cloud.add(cloud_instance(number=9, instance_type="m5.xlarge", tags={"karpenter.sh/launch-token": "token"}))
    with capture_logs() as logs:
        world.launcher.launch(request())
    (line,) = [entry for entry in logs if entry["event"] == "Launched instance"]
    assert line["planned"] == "m5.large/eu-west-1a/spot"
    assert line["instance_type"] == "m5.xlarge"
    assert line["price_difference_per_hour"] == pytest.approx(line["price_per_hour"] - 0.1)


def test_a_node_that_registered_with_the_token_of_a_shared_call_gets_its_launchs_own(world: World) -> None:
    """Many launches may be one call: its token, as the instance's tag, names none of them."""
    name = cloud_instance(number=1).node_name
    shared = {"name": name, "annotations": {"karpenter.sh/launch-token": "of-a-shared-call"}}
    world.kube.create(NODES, {"metadata": shared})
    world.launcher.launch(request())
    assert world.node(name)["metadata"]["annotations"]["karpenter.sh/launch-token"] == "token"


def test_an_instance_that_cannot_hold_its_pods_is_warned_about(world: World) -> None:
    heavy = replace(request(), requests=FrozenMap({"cpu": 64_000}))
    with capture_logs() as logs:
        world.launcher.launch(heavy)
    (line,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert line["missing"]["cpu"] > 60_000
