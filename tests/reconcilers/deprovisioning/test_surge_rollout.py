"""Single replicas start on another node, by a rollout, before theirs is removed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.core.deprovisioning.surge import RESTARTED_FOR
from controller.kube.resources import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
)
from tests.reconcilers.conftest import READY, World
from tests.reconcilers.deprovisioning.builders import (
    QUICK,
    come_up,
    expire_all,
    leader,
    old_node,
    replacements,
    untouched,
)


def single_replica(world: World, node: str) -> None:
    """A Deployment of one, its ReplicaSet, and its pod on the node."""
    labels = {"app": "one"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    made = world.kube.create(DEPLOYMENTS, {"metadata": {"name": "one"}, "spec": spec}, "default")
    owner = owned_by("apps/v1", "Deployment", made)
    metadata = {"name": "one-1", "labels": labels, "ownerReferences": [owner]}
    made = world.kube.create(REPLICA_SETS, {"metadata": metadata, "spec": spec}, "default")
    world.add_pod("one-1-a", node=node, labels=labels, ownerReferences=[owned_by("apps/v1", "ReplicaSet", made)])
    serving = {"status": {"phase": "Running", "conditions": [READY]}}
    world.kube.patch(PODS, "one-1-a", serving, namespace="default", subresource="status")
    world.until(lambda s: s.pods["default", "one-1-a"].ready)


def owned_by(version: str, kind: str, owner: dict[str, Any]) -> dict[str, Any]:
    meta = owner["metadata"]
    return {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def restarts(world: World) -> str:
    template = world.kube.get(DEPLOYMENTS, "one", "default")["spec"]["template"]
    return str((template["metadata"].get("annotations") or {}).get(RESTARTED_FOR, ""))


def test_the_only_pod_of_a_deployment_starts_elsewhere_before_its_node_goes(world: World) -> None:
    """The rollout is asked for once, whoever leads; the node goes when the old pod does."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    single_replica(world, "old")
    expire_all(world)
    one = leader(world, surge=True)
    (new,) = replacements(one.passes(replacements, "replacement"))
    come_up(world, new)
    one.passes(lambda _: restarts(world), "a rollout")
    (asked,) = {restarts(world), json.loads(world.node("old")["metadata"]["annotations"][COMMAND_ANNOTATION])["id"]}
    two = leader(world, surge=True)
    assert not two.some_passes().nodes["old"].leaving, "its pod still runs there alone"
    assert restarts(world) == asked
    world.add_pod("one-2-a", node=new, labels={"app": "one"})
    world.kill_pod("one-1-a")
    two.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "the old node goes")
    assert "Deployment one" in world.await_event("Surging")["message"]


def test_a_single_replica_that_does_not_start_elsewhere_keeps_its_node(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    single_replica(world, "old")
    expire_all(world)
    one = leader(world, replace(QUICK, surge_seconds=0.3), surge=True)
    (new,) = replacements(one.passes(replacements, "replacement"))
    come_up(world, new)
    one.passes(untouched, "rolled back")
    assert "did not start elsewhere" in world.await_event("DeprovisioningFailed")["message"]


def test_single_replicas_are_evicted_unless_the_setting_asks_for_more(world: World) -> None:
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world, pods=0)
    single_replica(world, "old")
    expire_all(world)
    one = leader(world)
    (new,) = replacements(one.passes(replacements, "replacement"))
    come_up(world, new)
    one.passes(lambda s: s.nodes["old"].node.deleted_at is not None, "the old node goes")
    assert restarts(world) == ""
