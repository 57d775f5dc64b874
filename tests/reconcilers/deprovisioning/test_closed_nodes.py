"""Nodes in service are closed before the pods of a removed node move to them, over the API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record
from controller.core.scheduling.taints import CLOSED_TAINT_KEY
from controller.errors import KubeError
from controller.kube.resources import NODES, REPLICA_SETS, Resource
from controller.reconcilers.deprovisioning.node_writes import NodeWrites
from tests.reconcilers.conftest import World
from tests.reconcilers.deprovisioning.builders import Leader, consolidating, leader, old_node, record_of

PLACES = {"large": "one", "small": "two"}
"""The pods of the old node, and the only nodes with room for both."""


@pytest.fixture
def one(world: World) -> Leader:
    """The leader of a cluster whose old node is about to go."""
    consolidating(world)
    for name in ("one", "two", "old"):
        old_node(world, name, pods=0, kind="c5.xlarge")
        world.come_up(name, {"cpu": "4", "memory": "8Gi", "pods": "58"})
    pods = (("first", "one", "2300m"), ("second", "two", "3200m"), ("large", "old", "1500m"), ("small", "old", "500m"))
    for name, node, cpu in pods:
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        made = world.kube.create(REPLICA_SETS, {"metadata": {"name": name}, "spec": spec}, "default")["metadata"]
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": made["uid"], "controller": True}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        world.add_pod(name, node=node, spec={"containers": [container]}, ownerReferences=[owner])
    return leader(world)


def search(one: Leader) -> None:
    """As long as a removal that was found has to hold, and a little more."""
    one.some_passes(2)
    one.world.clock.ahead_seconds += 16.0


def closed_by(world: World) -> dict[str, str]:
    """Of each closed node the command."""
    taints = {node["metadata"]["name"]: node["spec"].get("taints") or [] for node in world.kube.list(NODES)}
    return {name: t["value"] for name, each in taints.items() for t in each if t["key"] == CLOSED_TAINT_KEY}


def places(world: World) -> dict[str, str]:
    """Of the pods that are about to be evicted."""
    return {pod.name: place.node for moves in world.context.planning.moves for pod, place in moves}


def until_deleted(one: Leader) -> None:
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "old node deleted")


def before_closing(monkeypatch: pytest.MonkeyPatch, world: World, name: str, act: Callable[[], object]) -> None:
    """Something happens in the moment in which this node is to be closed."""
    patch = world.kube.patch

    def first(resource: Resource, target: str, body: dict[str, Any], **more: Any) -> Any:
        if target == name and any(each["key"] == CLOSED_TAINT_KEY for each in body.get("spec", {}).get("taints", ())):
            act()
        return patch(resource, target, body, **more)

    monkeypatch.setattr(world.kube, "patch", first)


def test_they_are_closed_and_their_places_known_before_the_old_node_is_deleted(
    one: Leader, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[tuple[dict[str, str], dict[str, str]]]()
    delete = world.kube.delete

    def spying(resource: Resource, name: str, *args: Any, **more: Any) -> Any:
        if name == "old":
            seen.append((closed_by(world), places(world)))
        return delete(resource, name, *args, **more)

    monkeypatch.setattr(world.kube, "delete", spying)
    search(one)
    until_deleted(one)
    record = record_of(world.caught_up())
    assert record is not None
    assert seen == [({"one": record["id"], "two": record["id"]}, PLACES)]


def test_with_the_setting_off_they_stay_open(one: Leader, world: World) -> None:
    world.change_settings(place_as_planned=False)
    search(one)
    until_deleted(one)
    assert (closed_by(world), places(world)) == ({}, {})


def test_one_that_changes_in_that_moment_stays_open(one: Leader, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that knows nothing of the change would take it back."""
    taints = [{"key": "mine", "effect": "NoSchedule"}]
    before_closing(monkeypatch, world, "one", lambda: world.kube.patch(NODES, "one", {"spec": {"taints": taints}}))
    search(one)
    until_deleted(one)
    assert world.node("one")["spec"]["taints"] == taints
    assert set(closed_by(world)) == {"two"}
    assert places(world) == {"small": "two"}


def test_one_that_another_command_has_closed_meanwhile_keeps_its_taint(one: Leader, world: World) -> None:
    """Two commands of one pass see the same snapshot."""
    writes, seen = NodeWrites(one.world.context), world.caught_up().nodes["one"]
    for command in ("first", "second"):
        writes.close([seen], Record(command, "consolidation", "it saves", (), (), 0.0), [])
        writes.wait_until_applied()
    taints = world.node("one")["spec"]["taints"]
    assert [each["value"] for each in taints if each["key"] == CLOSED_TAINT_KEY] == ["first"]


def test_where_one_cannot_be_closed_the_old_node_stays_until_the_next_pass(
    one: Leader, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise KubeError("the API server is busy", 500)

    before_closing(monkeypatch, world, "two", refuse)
    search(one)
    one.passes(lambda _: closed_by(world), "one is closed")
    seen = one.some_passes(1)
    assert not seen.nodes["old"].leaving
    assert COMMAND_ANNOTATION in seen.nodes["old"].node.annotations
    monkeypatch.undo()
    world.clock.ahead_seconds += 60.0
    until_deleted(one)
    assert places(world) == PLACES
