"""The controller dies before and after every single write of every command kind.

Whatever a kind of removal writes, to the Kubernetes API or to the cloud, one life ends just before it and one just
after it. The end is always the same: pods running, no instance without a node, none launched twice, nothing cordoned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.timestamps import format_time
from controller.core.deprovisioning.backoff import FAILURE_ANNOTATION
from controller.core.deprovisioning.consolidation import ConsolidationTimes
from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.core.machines.collection import CollectionTimes
from controller.errors import InsufficientCapacityError
from controller.kube.resources import NODES, PROVISIONERS
from controller.operator.composition import OperatorTimes
from controller.reconcilers.deprovisioning.deprovisioning_reconciler import DeprovisioningTimes
from controller.reconcilers.deprovisioning.executor import CommandTimes
from controller.reconcilers.nodes.garbage_collection_reconciler import GarbageTimes
from controller.reconcilers.nodes.termination_reconciler import TerminationTimes
from controller.runtime.loops import BackoffTimes
from tests.core.instances import cloud_instance
from tests.faults.inhabitants import Inhabitants
from tests.faults.lives import QUICK_BACKOFF, Killed, Lives, exists
from tests.reconcilers.conftest import World, world
from tests.reconcilers.nodes.test_interruption import MemoryQueue

__all__ = ["world"]

QUICK = OperatorTimes(
    termination=TerminationTimes(0.03, 0.2, QUICK_BACKOFF),
    garbage=GarbageTimes(0.2, 10_000, 0.2, 0.05, CollectionTimes()),
    commands=CommandTimes(appear_seconds=0.3, patience_seconds=0.5, hold_back=QUICK_BACKOFF),
    deprovisioning=DeprovisioningTimes(0.05, 0.02, 0.03, ConsolidationTimes(0.05, 0.05)),
    backoff=QUICK_BACKOFF,
    settle_seconds=0.005,
)


@pytest.fixture(autouse=True)
def deaths_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that ends because its process is dead is no news; any other that ends by an exception is."""
    import threading

    said = threading.excepthook
    monkeypatch.setattr(threading, "excepthook", lambda args: None if args.exc_type is Killed else said(args))


@pytest.fixture
def lives(world: World) -> Iterator[Lives]:
    made = Lives(world, Inhabitants(world), QUICK)
    yield made
    made.end()


def old_node(lives: Lives, number: int, kind: str, cpus: tuple[str, ...], **labels: str) -> str:
    """A node in service with its instance, and pods of the workload `web` of so much cpu each; its name."""
    world = lives.world
    instance = world.cloud.add(
        cloud_instance(
            number=100 + number, instance_type=kind, capacity_type="on-demand", launched_at=world.clock.now()
        )
    )
    own = {**instance.labels, keys.INITIALIZED: "true", keys.ARCH: "amd64", keys.OS: "linux", **labels}
    own[keys.HOSTNAME] = instance.node_name
    metadata = {"name": instance.node_name, "labels": own, "finalizers": [keys.TERMINATION_FINALIZER]}
    world.kube.create(NODES, {"metadata": metadata, "spec": {"providerID": instance.provider_id}})
    for index, cpu in enumerate(cpus):
        lives.inhabitants.make(f"old-{number}-{index}", f"web-{cpu}", cpu, instance.node_name)
        count, _ = lives.inhabitants.wanted.get(f"web-{cpu}", (0, cpu))
        lives.inhabitants.wanted[f"web-{cpu}"] = (count + 1, cpu)
    lives.inhabitants.turn()
    return instance.node_name


def mark(lives: Lives, name: str, **annotations: str) -> None:
    lives.world.kube.patch(NODES, name, {"metadata": {"annotations": annotations}})


@dataclass(frozen=True)
class Case:
    """`begin` makes the nodes and gives those that are to go; `launches` are the instances to be launched for them."""

    begin: Callable[[Lives], list[str]]
    launches: int
    writes: frozenset[str]
    """Some of the writes around which lives must have ended, or the case did not test what it says."""
    spared: frozenset[str] = frozenset()
    """Writes around which the lives of another case end: what registers and terminates a node is the same for all."""


OLD = frozenset(f"aws:///eu-west-1a/i-{number:017x}" for number in range(100, 110))
"""Instances that were there before."""
RECORD = f"PATCH nodes annotations.{COMMAND_ANNOTATION} spec.unschedulable"
TAKEN_BACK = f"PATCH nodes annotations.-{COMMAND_ANNOTATION} annotations.{FAILURE_ANNOTATION} spec.-unschedulable"
GOES = frozenset({"DELETE nodes", "terminate"})
DRAINS = frozenset({"POST pods/eviction"}) | GOES
REPLACES = frozenset({RECORD, "launch", "POST nodes", "DELETE nodes"})
JOINS = frozenset({"PATCH nodes ownerReferences", "PATCH nodes labels"})
ENDS = frozenset({"PATCH nodes labels", "POST pods/eviction", "terminate", "PATCH nodes -finalizers"})


def expiration(lives: Lives) -> list[str]:
    lives.world.add_provisioner()
    old = old_node(lives, 1, "c5.large", ("1",))
    mark(lives, old, **{keys.VOLUNTARY_DISRUPTION: "expired"})
    return [old]


def surge(lives: Lives) -> list[str]:
    """The only pod of a Deployment: a rollout is asked for, and the node goes when its pod runs elsewhere."""
    lives.world.add_provisioner()
    lives.settings = replace(lives.settings, surge_single_replicas=True)
    old = old_node(lives, 1, "c5.large", ())
    lives.inhabitants.deploy("one", "1")
    lives.inhabitants.make("one-old", "one", "1", old)
    mark(lives, old, **{keys.VOLUNTARY_DISRUPTION: "expired"})
    return [old]


def no_capacity(lives: Lives) -> list[str]:
    """The first launch that is answered finds none: the command is taken back, and begun anew."""
    lives.world.cloud.create_errors = [InsufficientCapacityError("no capacity")]
    return expiration(lives)


def drift(lives: Lives) -> list[str]:
    lives.world.add_provisioner()
    lives.settings = replace(lives.settings, drift_enabled=True)
    lives.world.cloud.images = lambda _template: ("ami-new",)
    return [old_node(lives, 1, "c5.large", ("1",), **{keys.INSTANCE_AMI_ID: "ami-old"})]


def consolidation_delete(lives: Lives) -> list[str]:
    lives.world.add_provisioner(consolidation={"enabled": True})
    old_node(lives, 2, "c5.xlarge", ("2", "1"))
    return [old_node(lives, 1, "c5.large", ("500m",))]


def consolidation_replace(lives: Lives) -> list[str]:
    lives.world.add_provisioner(consolidation={"enabled": True})
    return [old_node(lives, 1, "m5.4xlarge", ("1",))]


def consolidation_many(lives: Lives) -> list[str]:
    """Two nodes of too much memory, with pods that no single node holds: two others instead, in one command."""
    lives.world.add_provisioner(consolidation={"enabled": True})
    annotation = {"karpenter.sh/disruption-budgets": json.dumps([{"nodes": "100%"}])}
    lives.world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    return [old_node(lives, number, "r5.4xlarge", ("9500m",)) for number in (1, 2)]


def emptiness(lives: Lives) -> list[str]:
    lives.world.add_provisioner(ttlSecondsAfterEmpty=0)
    return [old_node(lives, 1, "c5.large", ())]


def interruption(lives: Lives) -> list[str]:
    lives.world.add_provisioner()
    lives.settings = replace(lives.settings, interruption_queue_name="queue")
    lives.world.cloud.interruptions = queue = MemoryQueue()
    old = old_node(lives, 1, "c5.large", ("1",))
    instance = lives.world.node(old)["spec"]["providerID"].rpartition("/")[2]
    event = {"version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning"}
    event["time"] = format_time(lives.world.clock.now())
    queue.put(json.dumps({**event, "detail": {"instance-id": instance}}))
    return [old]


def termination(lives: Lives) -> list[str]:
    lives.world.add_provisioner()
    old = old_node(lives, 1, "c5.large", ("1",))
    lives.world.kube.delete(NODES, old)
    return [old]


CASES = {
    "expiration": Case(expiration, 1, REPLACES | DRAINS),
    "expiration: surge": Case(surge, 1, frozenset({RECORD, "PATCH deployments", "DELETE nodes"}), JOINS | ENDS),
    "expiration: no capacity": Case(no_capacity, 1, frozenset({TAKEN_BACK, "launch"}), JOINS | ENDS | {"POST nodes"}),
    "drift": Case(drift, 1, REPLACES, JOINS | ENDS),
    "consolidation: delete": Case(consolidation_delete, 0, frozenset({RECORD, "DELETE nodes"}), JOINS | ENDS),
    "consolidation: replace": Case(consolidation_replace, 1, REPLACES, JOINS | ENDS),
    "consolidation: N to M": Case(consolidation_many, 2, REPLACES, JOINS | ENDS),
    "emptiness": Case(emptiness, 0, GOES, JOINS),
    "interruption": Case(interruption, 1, DRAINS | {"launch"}, JOINS),
    "termination": Case(termination, 1, (DRAINS | {"launch"}) - {"DELETE nodes"}, JOINS),
}


def test_what_is_taken_back_leaves_nothing_behind_around_whichever_write_the_controller_dies(lives: Lives) -> None:
    """A replacement that never joins: the old node stays in service, and the new one is not paid for."""
    world = lives.world
    slow = BackoffTimes(600.0, 600.0)
    lives.times = replace(QUICK, commands=replace(QUICK.commands, ready_seconds=0.3, hold_back=slow))
    lives.fate.spared = JOINS | ENDS
    lives.inhabitants.joining = False
    (old,) = expiration(lives)
    lives.until(lambda: len(world.cloud.instances) > 1, "a replacement launched")
    lives.until(lambda: FAILURE_ANNOTATION in world.node(old)["metadata"]["annotations"], "taken back")
    lives.until(lambda: len(world.kube.list(NODES)) == 1, "no replacement left")
    lives.until(lambda: lives.alive, "a last life")
    lives.until(lambda: len(world.cloud.running) == 1, "and no instance of one")
    assert not _touched(world.node(old))
    assert lives.inhabitants.running() == 1
    died_around = {write for write, _ in lives.fate.deaths}
    taken_back = {one for one in died_around if FAILURE_ANNOTATION in one}
    assert taken_back, f"never died around the way back, but around {sorted(died_around)}"


@pytest.mark.parametrize("name", CASES)
def test_it_ends_right_around_whichever_write_the_controller_dies(lives: Lives, name: str) -> None:
    case, world = CASES[name], lives.world
    lives.fate.spared = case.spared
    going = case.begin(lives)
    pods = sum(count for count, _ in lives.inhabitants.wanted.values())
    lives.until(lambda: not any(exists(world, NODES, node) for node in going), f"{going} gone")
    lives.until(lambda: lives.inhabitants.running() == pods, "all pods running")
    lives.until(lambda: len(world.cloud.running) == len(world.kube.list(NODES)), "a node for each instance")
    lives.until(lambda: not any(map(_touched, world.kube.list(NODES))), "nothing cordoned, no record left")
    lives.until(lambda: lives.alive, "a last life")

    launched = {one for one in world.cloud.instances if one not in OLD}
    assert len(launched) == case.launches, "launched twice, or given back and launched again"
    died_around = {write for write, _ in lives.fate.deaths}
    missing = {write for write in case.writes if not any(one.startswith(write) for one in died_around)}
    assert not missing, f"never died around {missing}, but around {sorted(died_around)}"
    assert lives.count == len(lives.fate.deaths) + 1, "each life ended around one write, and the last one did not"


def test_headroom_is_launched_once_around_whichever_write_the_controller_dies(lives: Lives) -> None:
    """There is no pod to plan for again: what was launched for nobody is found by its tags, and is the room."""
    world = lives.world
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    annotation = {"karpenter.sh/headroom": json.dumps([{"cpu": "1", "count": 1}])}
    world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    world.until(lambda s: s.provisioners["default"].object_annotations, "annotated")
    initialized = {keys.INITIALIZED: "true"}
    lives.until(
        lambda: [one for one in world.kube.list(NODES) if initialized.items() <= one["metadata"]["labels"].items()],
        "a node in service for nobody",
    )
    lives.until(lambda: lives.alive, "a last life")
    kept = world.clock.monotonic() + 0.5
    lives.until(lambda: world.clock.monotonic() > kept, "and nobody calls it empty")
    (node,) = world.kube.list(NODES)
    assert node["metadata"].get("deletionTimestamp") is None
    assert len(world.cloud.instances) == 1, "launched twice, or given back and launched again"
    died_around = {write for write, _ in lives.fate.deaths}
    assert died_around >= {"launch", "POST nodes"}, died_around
    assert lives.count == len(lives.fate.deaths) + 1


def _touched(node: dict[str, Any]) -> bool:
    annotations = node["metadata"].get("annotations") or {}
    return bool(node["spec"].get("unschedulable")) or COMMAND_ANNOTATION in annotations
