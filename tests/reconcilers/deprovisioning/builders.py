"""A leader over the API server, nodes for it to remove, and what is seen of its commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from controller.cloud.drift_checks import DriftChecks
from controller.core.api.labels import (
    CAPACITY_TYPE,
    INITIALIZED,
    INSTANCE_AMI_ID,
    INSTANCE_TYPE,
    PROVISIONER_NAME,
    TERMINATION_FINALIZER,
    ZONE,
)
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.deprovisioning.consolidation import Consolidation
from controller.core.deprovisioning.drift import Drift
from controller.core.deprovisioning.emptiness import Emptiness
from controller.core.deprovisioning.expiration import Expiration
from controller.core.deprovisioning.method import Method
from controller.core.deprovisioning.rebalance.approved_removal import ApprovedRebalance
from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.state.snapshot import Snapshot
from controller.kube.resources import (
    NODES,
    PROVISIONERS,
)
from controller.reconcilers.deprovisioning.deprovisioning_reconciler import (
    DeprovisioningReconciler,
    DeprovisioningTimes,
)
from controller.reconcilers.deprovisioning.emptiness_reconciler import EmptinessReconciler
from controller.reconcilers.deprovisioning.executor import CommandExecutor, CommandTimes
from controller.runtime.loops import BackoffTimes
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.reconcilers.conftest import World

QUICK = CommandTimes(
    ready_seconds=600.0, appear_seconds=1.0, patience_seconds=0.3, part_seconds=0.3, hold_back=BackoffTimes(60.0, 60.0)
)


@dataclass
class Leader:
    """One process that leads: a loop with its own memory. What it holds in memory dies with it."""

    world: World
    loop: DeprovisioningReconciler
    executor: CommandExecutor
    metrics: Metrics
    ledger: Ledger

    def decided(self) -> list[tuple[str, str, str]]:
        """Kind, what it is about, and by which method and action."""
        decisions = [entry.decision for entry in self.ledger.entries()]
        return [(each.kind, each.subject.partition("/")[2], f"{each.method}/{each.action}") for each in decisions]

    def metrics_text(self) -> str:
        return self.metrics.page({}).body.decode()

    def passes(self, done: Callable[[Snapshot], Any], what: str = "") -> Snapshot:
        return self.world.passes(self.loop, done, what)

    def some_passes(self, count: int = 6) -> Snapshot:
        for _ in range(count):
            self.loop.reconcile(self.world.caught_up())
        return self.world.caught_up()


def leader(
    world: World,
    times: CommandTimes = QUICK,
    images: Callable[[AWSNodeTemplate], tuple[str, ...]] | None = None,
    surge: bool = False,
    consolidation: Consolidation | None = None,
) -> Leader:
    if images is not None:
        world.cloud.images = images
    drift = [Drift(DriftChecks(world.cloud, world.clock))] if images else []
    methods: list[Method] = [Expiration(), *drift, ApprovedRebalance(), consolidation or Consolidation()]
    metrics = Metrics(world.clock)
    ledger = Ledger(world.clock, metrics)
    ledger.look = lambda: (world.informers.snapshot(), world.catalogs.view(world.informers.snapshot()).types)
    context = replace(world.context, ledger=ledger)
    world.change_settings(surge_single_replicas=surge)
    executor = CommandExecutor(context, methods, times)
    loop = DeprovisioningReconciler(context, methods, executor, DeprovisioningTimes(0.0, 0.0, 0.05))
    return Leader(world, loop, executor, metrics, ledger)


def emptiness_loop(world: World, ledger: Ledger | None = None, **changed: Any) -> EmptinessReconciler:
    """The loop that deletes empty nodes, over the world's context with some members changed."""
    context = replace(world.context, **(changed | ({"ledger": ledger} if ledger else {})))
    emptiness = Emptiness()
    return EmptinessReconciler(context, emptiness, CommandExecutor(context, [emptiness]))


def on_record(world: World, nodes: list[str], tokens: list[str], method: str = "expiration") -> None:
    """Write the record of a command on `nodes` on the first of them, with replacements of these launch tokens."""
    record = {"id": "x", "method": method, "reason": "old", "nodes": nodes, "replacements": tokens}
    text = json.dumps({**record, "startedAt": world.clock.now(), "cordoned": True})
    patch = {"metadata": {"annotations": {COMMAND_ANNOTATION: text}}, "spec": {"unschedulable": True}}
    world.kube.patch(NODES, nodes[0], patch)
    world.caught_up()


def annotate_provisioner(world: World, **annotations: str) -> None:
    """Write `karpenter.sh/` annotations on the Provisioner, with `_` for `-` in their names."""
    keys = {f"karpenter.sh/{name.replace('_', '-')}": text for name, text in annotations.items()}
    world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": keys}})
    world.until(lambda s: keys.items() <= s.provisioners["default"].object_annotations.items(), "annotated")


def old_node(world: World, name: str = "old", pods: int = 1, kind: str = "c5.large", **spec: Any) -> None:
    """A node of a Provisioner with a TTL of 30 s, an hour from now long expired."""
    labels = {
        PROVISIONER_NAME: "default",
        INITIALIZED: "true",
        INSTANCE_TYPE: kind,
        ZONE: "eu-west-1a",
        CAPACITY_TYPE: "on-demand",
    }
    metadata = {"name": name, "labels": labels, "finalizers": [TERMINATION_FINALIZER]}
    world.add_node({"metadata": metadata, "spec": {"providerID": f"aws:///eu-west-1a/i-{name}", **spec}})
    for number in range(pods):
        world.add_pod(f"{name}-{number}", node=name, labels={"app": "web"})


def expire_all(world: World) -> None:
    world.clock.ahead_seconds = 3600.0


def record_of(snapshot: Snapshot, name: str = "old") -> dict[str, Any] | None:
    text = snapshot.nodes[name].node.annotations.get(COMMAND_ANNOTATION)
    return None if text is None else json.loads(text)


def replacements(snapshot: Snapshot) -> list[str]:
    return [name for name, node in snapshot.nodes.items() if LAUNCH_TOKEN in node.node.annotations]


def come_up(world: World, name: str) -> None:
    world.come_up(name)
    world.kube.patch(NODES, name, {"metadata": {"labels": {INITIALIZED: "true"}}})
    world.until(lambda s: s.nodes[name].initialized, "initialized")


def untouched(snapshot: Snapshot, name: str = "old") -> bool:
    """Nothing left of a command: no record, no cordon, not going."""
    node = snapshot.nodes[name]
    return record_of(snapshot, name) is None and not node.node.unschedulable and not node.leaving


def begun(world: World, one: Leader) -> str:
    """An expired node's command on record, its replacement launched; the replacement's name."""
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    expire_all(world)
    (name,) = replacements(one.passes(replacements, "replacement"))
    return name


def consolidating(world: World, **spec: Any) -> None:
    world.add_provisioner(consolidation={"enabled": True}, **spec)


def set_image(world: World, name: str, image: str) -> None:
    world.kube.patch(NODES, name, {"metadata": {"labels": {INSTANCE_AMI_ID: image}}})
