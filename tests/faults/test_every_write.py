"""The controller dies before and after every single write of every command kind.

Whatever a kind of removal writes, to the Kubernetes API or to the cloud, one process ends just before it and one just
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
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.backoff import FAILURE_ANNOTATION, RESTING_ANNOTATION
from controller.core.deprovisioning.consolidation import ConsolidationTimes
from controller.core.deprovisioning.records import COMMAND_ANNOTATION
from controller.core.machines.collection import CollectionTimes
from controller.core.scheduling.taints import CLOSED_TAINT_KEY
from controller.errors import InsufficientCapacityError
from controller.kube.resources import NODES, PODS, PROVISIONERS
from controller.operator.composition import OperatorTimes
from controller.reconcilers.deprovisioning.deprovisioning_reconciler import DeprovisioningTimes
from controller.reconcilers.deprovisioning.executor import CommandTimes
from controller.reconcilers.nodes.garbage_collection_reconciler import GarbageTimes
from controller.reconcilers.nodes.termination_reconciler import TerminationTimes
from controller.runtime.loops import BackoffTimes
from tests.core.instances import cloud_instance
from tests.faults.cluster_actors import ClusterActors
from tests.faults.crashing_controller import QUICK_BACKOFF, CrashingController, Killed, exists
from tests.reconcilers.conftest import World, world
from tests.reconcilers.nodes.test_interruption import MemoryQueue

pytestmark = pytest.mark.xdist_group("controller-processes")  # they wait too: after those, on the same worker

__all__ = ["world"]

QUICK = OperatorTimes(
    termination=TerminationTimes(0.03, 0.2, QUICK_BACKOFF),
    garbage=GarbageTimes(0.2, 10_000, 0.2, 0.05, CollectionTimes()),
    commands=CommandTimes(appear_seconds=0.3, patience_seconds=0.5, part_seconds=0.5, hold_back=QUICK_BACKOFF),
    deprovisioning=DeprovisioningTimes(0.05, 0.02, 0.03, ConsolidationTimes(0.05, 0.05, arrival_seconds=0.05)),
    backoff=QUICK_BACKOFF,
    settle_seconds=0.005,
)


@pytest.fixture(autouse=True)
def kills_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report no thread that ends because its process was killed, and all others that end by an exception."""
    import threading

    said = threading.excepthook
    monkeypatch.setattr(threading, "excepthook", lambda args: None if args.exc_type is Killed else said(args))


@pytest.fixture
def controller(world: World) -> Iterator[CrashingController]:
    made = CrashingController(world, ClusterActors(world), QUICK)
    yield made
    made.end()


def old_node(controller: CrashingController, number: int, kind: str, cpus: tuple[str, ...], **labels: str) -> str:
    """A node in service with its instance, and pods of the workload `web` of so much cpu each; its name."""
    world = controller.world
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
        controller.actors.make(f"old-{number}-{index}", f"web-{cpu}", cpu, instance.node_name)
        count, _ = controller.actors.wanted.get(f"web-{cpu}", (0, cpu))
        controller.actors.wanted[f"web-{cpu}"] = (count + 1, cpu)
    controller.actors.turn()
    return instance.node_name


def mark(controller: CrashingController, name: str, **annotations: str) -> None:
    controller.world.kube.patch(NODES, name, {"metadata": {"annotations": annotations}})


@dataclass(frozen=True)
class Case:
    """`begin` makes the nodes and gives those that are to go; `launches` are the instances to be launched for them."""

    begin: Callable[[CrashingController], list[str]]
    launches: int
    writes: frozenset[str]
    """Some of the writes around which processes must have crashed, or the case did not test what it says."""
    spared: frozenset[str] = frozenset()
    """Writes around which processes of another case crash: nodes are registered and terminated alike in all."""


OLD = frozenset(f"aws:///eu-west-1a/i-{number:017x}" for number in range(100, 110))
"""Instances that were there before."""
RECORD = f"PATCH nodes annotations.{COMMAND_ANNOTATION} spec.unschedulable"
TAKEN_BACK = f"PATCH nodes annotations.-{COMMAND_ANNOTATION} annotations.{FAILURE_ANNOTATION} spec.-unschedulable"
ERASED = f"PATCH nodes annotations.-{COMMAND_ANNOTATION} spec.-unschedulable"
GOES = frozenset({"DELETE nodes", "terminate"})
DRAINS = frozenset({"POST pods/eviction"}) | GOES
REPLACES = frozenset({RECORD, "launch", "POST nodes", "DELETE nodes"})
JOINS = frozenset({"PATCH nodes ownerReferences", "PATCH nodes labels"})
OPENS = frozenset({"POST pods/binding", f"PATCH nodes annotations.-{keys.OPENS_WITH}"})
CORDONS = f"PATCH nodes annotations.-{keys.OPENS_WITH} labels"
CLOSES, REOPENS = "PATCH nodes resourceVersion spec.taints", "PATCH nodes resourceVersion spec.-taints"
RESTS = f"PATCH nodes annotations.{RESTING_ANNOTATION}"
ENDS = frozenset({"PATCH nodes labels", "POST pods/eviction", "terminate", "PATCH nodes -finalizers"})


def expiration(controller: CrashingController) -> list[str]:
    controller.world.add_provisioner()
    old = old_node(controller, 1, "c5.large", ("1",))
    mark(controller, old, **{V1ALPHA5.keys.voluntary_disruption: "expired"})
    return [old]


def surge(controller: CrashingController) -> list[str]:
    """The only pod of a Deployment: a rollout is asked for, and the node goes when its pod runs elsewhere."""
    controller.world.add_provisioner()
    controller.settings = replace(controller.settings, surge_single_replicas=True)
    old = old_node(controller, 1, "c5.large", ())
    controller.actors.deploy("one", "1")
    controller.actors.make("one-old", "one", "1", old)
    mark(controller, old, **{V1ALPHA5.keys.voluntary_disruption: "expired"})
    return [old]


def no_capacity(controller: CrashingController) -> list[str]:
    """The first launch that is answered finds none: the command is taken back, and begun anew."""
    controller.world.cloud.create_errors = [InsufficientCapacityError("no capacity")]
    return expiration(controller)


def drift(controller: CrashingController) -> list[str]:
    controller.world.add_provisioner()
    controller.settings = replace(controller.settings, drift_enabled=True)
    controller.world.cloud.images = lambda _template: ("ami-new",)
    return [old_node(controller, 1, "c5.large", ("1",), **{keys.INSTANCE_AMI_ID: "ami-old"})]


def consolidation_delete(controller: CrashingController) -> list[str]:
    controller.world.add_provisioner(consolidation={"enabled": True})
    old_node(controller, 2, "c5.xlarge", ("2", "1"))
    return [old_node(controller, 1, "c5.large", ("500m",))]


def consolidation_replace(controller: CrashingController) -> list[str]:
    controller.world.add_provisioner(consolidation={"enabled": True})
    return [old_node(controller, 1, "m5.4xlarge", ("1",))]


def consolidation_many(controller: CrashingController) -> list[str]:
    """Two nodes of too much memory, with pods that no single node holds: two others instead, in one command."""
    controller.world.add_provisioner(consolidation={"enabled": True})
    annotation = {"karpenter.sh/disruption-budgets": json.dumps([{"nodes": "100%"}])}
    controller.world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    return [old_node(controller, number, "r5.4xlarge", ("9500m",)) for number in (1, 2)]


def consolidation_as_planned(controller: CrashingController) -> list[str]:
    """The same with pods of two sizes: the replacements stay closed until the pods are bound to them."""
    controller.world.add_provisioner(consolidation={"enabled": True})
    annotation = {"karpenter.sh/disruption-budgets": json.dumps([{"nodes": "100%"}])}
    controller.world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    going = []
    for number, (app, cpu) in enumerate((("large", "9500m"), ("small", "9200m")), start=1):
        going.append(old_node(controller, number, "r5.4xlarge", ()))
        controller.actors.deploy(app, cpu)
        controller.actors.make(f"{app}-old", app, cpu, going[-1])
    return going


def consolidation_onto_nodes_in_service(controller: CrashingController) -> list[str]:
    """Pods of two sizes, each of which has room on another node: these are closed until the pods are bound to them."""
    controller.world.add_provisioner(consolidation={"enabled": True})
    for number, cpu in ((2, "2300m"), (3, "3200m")):
        old_node(controller, number, "c5.xlarge", (cpu,))
    going = old_node(controller, 1, "c5.xlarge", ())
    for app, cpu in (("large", "1500m"), ("small", "500m")):
        controller.actors.deploy(app, cpu)
        controller.actors.make(f"{app}-old", app, cpu, going)
    return [going]


def consolidation_part(controller: CrashingController) -> list[str]:
    """A set on record, of which one node may not go any more: the other goes, and this one is given back."""
    world = controller.world
    world.add_provisioner(consolidation={"enabled": True})
    old_node(controller, 3, "c5.xlarge", ("2", "1"))
    held, goes = (old_node(controller, number, "c5.large", (cpu,)) for number, cpu in ((1, "1500m"), (2, "500m")))
    world.kube.patch(
        PODS, "old-1-0", {"metadata": {"annotations": {V1ALPHA5.keys.do_not_evict: "true"}}}, namespace="default"
    )
    begun = {"id": "set", "method": "consolidation", "reason": "it saves", "startedAt": world.clock.now()}
    record = json.dumps({**begun, "nodes": [held, goes], "replacements": [], "cordoned": True})
    for name in (held, goes):
        patch = {"metadata": {"annotations": {COMMAND_ANNOTATION: record}}, "spec": {"unschedulable": True}}
        world.kube.patch(NODES, name, patch)
    return [goes]


def emptiness(controller: CrashingController) -> list[str]:
    controller.world.add_provisioner(ttlSecondsAfterEmpty=0)
    return [old_node(controller, 1, "c5.large", ())]


def interruption(controller: CrashingController) -> list[str]:
    controller.world.add_provisioner()
    controller.settings = replace(controller.settings, interruption_queue_name="queue")
    controller.world.cloud.interruptions = queue = MemoryQueue()
    old = old_node(controller, 1, "c5.large", ("1",))
    instance = controller.world.node(old)["spec"]["providerID"].rpartition("/")[2]
    event = {"version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning"}
    event["time"] = format_time(controller.world.clock.now())
    queue.put(json.dumps({**event, "detail": {"instance-id": instance}}))
    return [old]


def termination(controller: CrashingController) -> list[str]:
    controller.world.add_provisioner()
    old = old_node(controller, 1, "c5.large", ("1",))
    controller.world.kube.delete(NODES, old)
    return [old]


def placing(controller: CrashingController) -> list[str]:
    """Pods of two sizes, for which one plan has two nodes: these are created cordoned, get their pods, and open."""
    kind = {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["c5.large"]}
    controller.world.add_provisioner(requirements=[kind])
    for app, cpu in (("small", "1200m"), ("large", "1500m")):
        controller.actors.deploy(app, cpu)
    return []


CASES = {
    "expiration": Case(expiration, 1, REPLACES | DRAINS),
    "expiration: surge": Case(surge, 1, frozenset({RECORD, "PATCH deployments", "DELETE nodes"}), JOINS | ENDS),
    "expiration: no capacity": Case(no_capacity, 1, frozenset({TAKEN_BACK, "launch"}), JOINS | ENDS | {"POST nodes"}),
    "drift": Case(drift, 1, REPLACES, JOINS | ENDS),
    "consolidation: delete": Case(consolidation_delete, 0, frozenset({RECORD, "DELETE nodes"}), JOINS | ENDS),
    "consolidation: replace": Case(consolidation_replace, 1, REPLACES, JOINS | ENDS),
    "consolidation: N to M": Case(consolidation_many, 2, REPLACES, JOINS | ENDS),
    "consolidation: as planned, begun": Case(consolidation_as_planned, 2, REPLACES, JOINS | ENDS),
    "consolidation: as planned, bound": Case(
        consolidation_as_planned,
        2,
        OPENS,
        JOINS | ENDS | REPLACES | {RESTS, CORDONS},
    ),
    "consolidation: onto nodes in service, begun": Case(
        consolidation_onto_nodes_in_service, 0, frozenset({RECORD, CLOSES, "DELETE nodes"}), JOINS | ENDS
    ),
    "consolidation: onto nodes in service, bound": Case(
        consolidation_onto_nodes_in_service,
        0,
        frozenset({"POST pods/binding", REOPENS}),
        JOINS | ENDS | {RECORD, RESTS, CLOSES, "DELETE nodes", CORDONS},
    ),
    "consolidation: part": Case(consolidation_part, 0, frozenset({"DELETE nodes", ERASED}), JOINS | ENDS),
    "emptiness": Case(emptiness, 0, GOES, JOINS),
    "interruption": Case(interruption, 1, DRAINS | {"launch"}, JOINS),
    "placing: launched": Case(placing, 2, frozenset({"launch", "POST nodes"}), JOINS | OPENS),
    "placing: opened": Case(placing, 2, OPENS, JOINS | {"launch", "POST nodes"}),
    "termination": Case(termination, 1, (DRAINS | {"launch"}) - {"DELETE nodes"}, JOINS),
}


def test_a_rollback_leaves_nothing_behind_around_whichever_write_the_controller_dies(
    controller: CrashingController,
) -> None:
    """A replacement that never joins: the old node stays in service, and the new one is not paid for."""
    world = controller.world
    slow = BackoffTimes(600.0, 600.0)
    controller.times = replace(QUICK, commands=replace(QUICK.commands, ready_seconds=0.3, hold_back=slow))
    controller.plan.spared = JOINS | ENDS
    controller.actors.joining = False
    (old,) = expiration(controller)
    controller.until(lambda: len(world.cloud.instances) > 1, "a replacement launched")
    controller.until(lambda: FAILURE_ANNOTATION in world.node(old)["metadata"]["annotations"], "taken back")
    controller.until(lambda: len(world.kube.list(NODES)) == 1, "no replacement left")
    controller.until(lambda: controller.alive, "a last process")
    controller.until(lambda: len(world.cloud.running) == 1, "and no instance of one")
    assert not _touched(world.node(old))
    assert controller.actors.running() == 1
    crashed_around = {write for write, _ in controller.plan.crashes}
    taken_back = {one for one in crashed_around if FAILURE_ANNOTATION in one}
    assert taken_back, f"never crashed around the way back, but around {sorted(crashed_around)}"


@pytest.mark.parametrize("name", CASES)
def test_it_ends_right_around_whichever_write_the_controller_dies(controller: CrashingController, name: str) -> None:
    case, world = CASES[name], controller.world
    controller.plan.spared = case.spared
    going = case.begin(controller)
    pods = sum(count for count, _ in controller.actors.wanted.values())
    controller.until(lambda: not any(exists(world, NODES, node) for node in going), f"{going} gone")
    controller.until(lambda: controller.actors.running() == pods, "all pods running")
    controller.until(lambda: len(world.cloud.running) == len(world.kube.list(NODES)), "a node for each instance")
    controller.until(
        lambda: not any(map(_touched, world.kube.list(NODES))), "nothing cordoned or closed, no record left"
    )
    controller.until(lambda: controller.alive, "a last process")

    launched = {one for one in world.cloud.instances if one not in OLD}
    assert len(launched) == case.launches, "launched twice, or given back and launched again"
    crashed_around = {write for write, _ in controller.plan.crashes}
    missing = {write for write in case.writes if not any(one.startswith(write) for one in crashed_around)}
    assert not missing, f"never crashed around {missing}, but around {sorted(crashed_around)}"
    assert controller.count == len(controller.plan.crashes) + 1, (
        "each process ended around one write, and the last one did not"
    )


def test_headroom_is_launched_once_around_whichever_write_the_controller_dies(controller: CrashingController) -> None:
    """There is no pod to plan for again: what was launched for nobody is found by its tags, and is the room."""
    world = controller.world
    world.add_provisioner(ttlSecondsAfterEmpty=0)
    annotation = {"karpenter.sh/headroom": json.dumps([{"cpu": "1", "count": 1}])}
    world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotation}})
    world.until(lambda s: s.provisioners["default"].object_annotations, "annotated")
    initialized = {keys.INITIALIZED: "true"}
    controller.until(
        lambda: [one for one in world.kube.list(NODES) if initialized.items() <= one["metadata"]["labels"].items()],
        "a node in service for nobody",
    )
    controller.until(lambda: controller.alive, "a last process")
    kept = world.clock.monotonic() + 0.5
    controller.until(lambda: world.clock.monotonic() > kept, "and nobody calls it empty")
    (node,) = world.kube.list(NODES)
    assert node["metadata"].get("deletionTimestamp") is None
    assert len(world.cloud.instances) == 1, "launched twice, or given back and launched again"
    crashed_around = {write for write, _ in controller.plan.crashes}
    assert crashed_around >= {"launch", "POST nodes"}, crashed_around
    assert controller.count == len(controller.plan.crashes) + 1


def _touched(node: dict[str, Any]) -> bool:
    annotations = node["metadata"].get("annotations") or {}
    marks = annotations.keys() & {COMMAND_ANNOTATION, keys.OPENS_WITH}
    closed = any(taint["key"] == CLOSED_TAINT_KEY for taint in node["spec"].get("taints") or ())
    return bool(node["spec"].get("unschedulable") or closed or marks)
