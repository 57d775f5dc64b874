"""Repair over the API server: what is deleted, what is said, and that nothing happens while too many are sick."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from structlog.testing import capture_logs

from controller.core.api.labels import INITIALIZED, INSTANCE_TYPE, PROVISIONER_NAME, TERMINATION_FINALIZER
from controller.core.api.timestamps import format_time
from controller.core.deprovisioning.repair import Repair, RepairPolicy
from controller.kube.resources import NODES
from controller.reconcilers.deprovisioning.executor import CommandExecutor
from controller.reconcilers.deprovisioning.repair_reconciler import RepairReconciler
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests import factories
from tests.reconcilers.conftest import World
from tests.telemetry.test_registry import values

HOUR = 3600.0


class Leader:
    """The loop with its metrics and its ledger."""

    def __init__(self, world: World, **changed: Any) -> None:
        self.metrics = Metrics(world.clock)
        self.ledger = Ledger(world.clock, self.metrics)
        context = replace(world.context, ledger=self.ledger, **changed)
        repair = Repair(RepairPolicy())
        self.loop = RepairReconciler(context, repair, CommandExecutor(context, [repair]))

    def values(self, metric: str, *labels: str) -> dict[tuple[str, ...], float]:
        return values(self.metrics.page({}).body, metric, *labels)


def serving(world: World, name: str, labels: dict[str, str] | None = None) -> None:
    """An initialized node of the Provisioner."""
    own = {PROVISIONER_NAME: "default", INITIALIZED: "true"} if labels is None else labels
    world.add_node({"metadata": {"name": name, "labels": own, "finalizers": [TERMINATION_FINALIZER]}})


def condition(world: World, name: str, status: str, kind: str = "Ready") -> None:
    """The node's condition changes now."""
    changed = {"type": kind, "status": status, "lastTransitionTime": format_time(world.clock.now())}
    world.kube.patch(NODES, name, {"status": {"conditions": [changed]}}, subresource="status")
    world.caught_up()


def deleted(world: World) -> set[str]:
    return {node["metadata"]["name"] for node in world.kube.list(NODES) if "deletionTimestamp" in node["metadata"]}


def test_a_broken_node_is_deleted_and_it_is_said_why(world: World) -> None:
    world.add_provisioner()
    for name in ("a", "b", "broken"):
        serving(world, name)
    condition(world, "broken", "Unknown")
    leader = Leader(world)
    world.clock.ahead_seconds = 1700.0
    assert leader.loop.reconcile(world.caught_up()) <= 60.0
    assert deleted(world) == set()
    assert leader.values("nodeless_unhealthy_nodes", "provisioner", "condition") == {("default", "Ready"): 1.0}
    world.clock.ahead_seconds = HOUR
    leader.loop.reconcile(world.caught_up())
    assert deleted(world) == {"broken"}
    assert "condition Ready has been Unknown" in world.await_event("DeprovisioningTerminating")["message"]
    (decision,) = (entry.decision for entry in leader.ledger.entries())
    assert (decision.kind, decision.subject, decision.method) == ("remove", "Node/broken", "repair")
    performed = leader.values("karpenter_deprovisioning_actions_performed_total", "action", "deprovisioner")
    assert performed == {("repair/delete", "repair"): 1.0}


def test_while_too_many_are_sick_nothing_is_deleted_and_it_is_said_once(world: World) -> None:
    world.add_provisioner()
    for name in ("a", "b", "c", "d"):
        serving(world, name)
    for name in ("a", "b"):
        condition(world, name, "Unknown")
    leader = Leader(world)
    world.clock.ahead_seconds = HOUR
    with capture_logs() as logs:
        for _ in range(3):
            leader.loop.reconcile(world.caught_up())
        assert deleted(world) == set()
        event = world.await_event("NodeRepairBlocked")
        assert (event["involvedObject"]["kind"], event["type"]) == ("Provisioner", "Warning")
        assert "2 of 4 nodes of Provisioner default are unhealthy at once" in event["message"]
        assert leader.values("nodeless_node_repair_blocked", "provisioner") == {("default",): 1.0}
        condition(world, "b", "True")
        leader.loop.reconcile(world.caught_up())
    assert deleted(world) == {"a"}, "the others are well: it was the node"
    assert leader.values("nodeless_node_repair_blocked", "provisioner") == {}
    said = [line["event"] for line in logs if line["event"].startswith("Node repair")]
    assert said == ["Node repair held back", "Node repair goes on"]


def test_a_node_that_never_becomes_ready_is_deleted_at_its_deadline(world: World) -> None:
    world.add_provisioner()
    serving(world, "late", {PROVISIONER_NAME: "default"})
    condition(world, "late", "False")
    leader = Leader(world)
    world.clock.ahead_seconds = 890.0
    leader.loop.reconcile(world.caught_up())
    assert deleted(world) == set()
    world.clock.ahead_seconds = 1000.0
    leader.loop.reconcile(world.caught_up())
    assert deleted(world) == {"late"}
    assert "not initialized within 900 s" in world.await_event("DeprovisioningTerminating")["message"]


def test_a_node_whose_device_never_comes_is_deleted_by_what_its_type_has(world: World) -> None:
    """The second look, before the deletion, knows the type as well."""
    world.add_provisioner()
    world.cloud.types = (factories.instance_type(name="g5.xlarge", extended={"nvidia.com/gpu": 1}),)
    serving(world, "no-driver", {PROVISIONER_NAME: "default", INSTANCE_TYPE: "g5.xlarge"})
    leader = Leader(world)
    world.clock.ahead_seconds = 1000.0
    world.until(lambda s: s.nodes["no-driver"].no_room, "its deadline is over")
    leader.loop.reconcile(world.caught_up())
    assert deleted(world) == {"no-driver"}


def test_nothing_is_repaired_before_the_cluster_is_known(world: World) -> None:
    """Instances of an earlier leader may lack their Nodes: then it is not known how many nodes there are."""
    world.add_provisioner()
    serving(world, "a")
    condition(world, "a", "False")
    world.clock.ahead_seconds = HOUR
    for flag in ("adopted", "planned"):
        Leader(world, **{flag: type(world.stop)()}).loop.reconcile(world.caught_up())
    assert deleted(world) == set()
