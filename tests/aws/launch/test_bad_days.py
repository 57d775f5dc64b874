"""EC2's bad days from end to end: the whole controller over a real API server and the sandbox AWS, on the machine's
clock. Every pod runs in the end, no instance leaks, and the log says what happened once.

There are no kubelets here: the test brings nodes up and binds pods, as a kubelet and kube-scheduler would.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from controller.aws.api.clients import Clients, make_clients
from controller.aws.provider import AWSProvider
from controller.core.cloud import InstanceType
from controller.core.state.snapshot import Snapshot
from controller.kube.resources import AWS_NODE_TEMPLATES, PODS
from controller.operator.composition import Edges, Operator, OperatorTimes
from controller.reconcilers.nodes.garbage_collection_reconciler import GarbageTimes
from controller.reconcilers.nodes.termination_reconciler import TerminationTimes
from controller.runtime.clock import SystemClock
from controller.runtime.loops import BackoffTimes
from controller.telemetry.decision_ledger import Ledger
from sandbox.aws import Aws, AwsSettings, Delays, serve
from sandbox.aws.faults import Fault, Shortage
from tests.aws.conftest import CLUSTER, SETTINGS, copy_catalog, make_due, provisioner, template
from tests.reconcilers.conftest import World, world

__all__ = ["world"]

pytestmark = pytest.mark.timeout(600)

QUICK = replace(SETTINGS, batch_idle_duration_seconds=0.1, batch_max_duration_seconds=0.5)
TIMES = OperatorTimes(
    termination=TerminationTimes(0.05, 0.1, BackoffTimes(0.05, 0.5)),
    garbage=GarbageTimes(0.5, 1000, 0.5, 0.05),
    backoff=BackoffTimes(0.1, 1.0),
)
TURNS = 1200
"""Turns of the test's world before what it waits for counts as missed: a minute, and longer on a busy machine, as they
take longer there, too."""
PODS_WANTED = 4
TYPES = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge", "c5.large"]}
BOTH = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}


@dataclass
class Day:
    """One test's cluster, cloud and controller."""

    world: World
    aws: Aws
    provider: AWSProvider
    types: Mapping[str, InstanceType]
    logs: list[Any]

    def alive(self) -> list[str]:
        """Ids of the instances that cost money."""
        return sorted(i["instanceId"] for i in self.aws.instances() if i["state"] in ("pending", "running"))

    def add_pods(self, count: int = PODS_WANTED) -> None:
        for index in range(count):
            self.world.add_pod(f"p{index}")

    def step(self, snapshot: Snapshot) -> None:
        """What kubelets and kube-scheduler do: nodes come up, and waiting pods go where there is room."""
        for name, node in snapshot.nodes.items():
            if not node.node.ready:
                have = self.types[node.node.labels["node.kubernetes.io/instance-type"]].allocatable
                room = {key: f"{amount}m" if key == "cpu" else str(amount) for key, amount in have.items()}
                self.world.come_up(name, room)
        free = {name: node.allocatable.get("cpu", 0) // 1000 - len(node.pods) for name, node in snapshot.nodes.items()}
        for (_, pod), value in snapshot.pods.items():
            place = next((name for name, left in free.items() if left > 0 and snapshot.nodes[name].node.ready), "")
            if value.node_name or value.labels.get("bound") or not place:
                continue
            free[place] -= 1
            binding = {"metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": place}}
            self.world.kube.create(PODS, binding, "default", subresource="binding", name=pod)
            self.world.until(partial(_bound, pod), "bound")

    def until(self, done: Callable[[Snapshot], Any], what: str) -> Snapshot:
        """Let the world go on until the condition holds."""
        for _ in range(TURNS):
            if done(snapshot := self.world.informers.snapshot()):
                return snapshot
            self.step(snapshot)
            self.world.clock.wait(self.world.stop, 0.05)
        pytest.fail(f"{what} did not come true; log: {self.said()}")

    def all_run(self) -> Snapshot:
        """Every pod has its node, and every instance that lives has one too: nothing leaked."""
        snapshot = self.until(lambda s: s.pods and all(pod.node_name for pod in s.pods.values()), "every pod runs")
        ids = sorted(node.node.provider_id.rpartition("/")[2] for node in snapshot.nodes.values())
        assert ids == self.alive()
        return snapshot

    def said_once(self) -> None:
        """Of what went wrong each thing was said once, and once at most that it is over."""
        repeated = {what: count for what, count in self.said().items() if count > 1}
        assert not repeated
        for ends, begins in (
            ("Object can be used again", "Object cannot be used"),
            ("Launches work again", "Launch failed"),
            ("Reading from AWS works again", "Reading from AWS fails"),
        ):
            assert self.lines(ends) <= self.lines(begins), (ends, begins)
        assert self.lines("Recovered") <= sum(entry["log_level"] == "error" for entry in self.logs)

    def lines(self, beginning: str) -> int:
        """How many log lines begin so."""
        return sum(str(entry["event"]).startswith(beginning) for entry in self.logs if entry["log_level"] != "debug")

    def said(self) -> Counter[tuple[str, ...]]:
        """How often each warning and error was said of what."""
        about = ("what", "provisioner", "instance_type", "node", "node_template", "id", "because")
        return Counter(
            (str(entry["event"]), *(str(entry.get(name, "")) for name in about))
            for entry in self.logs
            if entry["log_level"] in ("warning", "error")
        )


def _bound(pod: str, snapshot: Snapshot) -> bool:
    return bool(snapshot.pods["default", pod].node_name)


@pytest.fixture(scope="module")
def cloud() -> Iterator[tuple[Aws, Clients]]:
    """A sandbox AWS on the machine's clock, and clients of it."""
    delays = Delays(pending_seconds=0.2, shutting_down_seconds=0.2, forgotten_after_seconds=3600)
    with serve(AwsSettings(cluster=CLUSTER, delays=delays)) as aws, pytest.MonkeyPatch.context() as patch:
        for name, value in aws.environment().items():
            patch.setenv(name, value)
        yield aws, make_clients(version="test")


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore's own retries take no real time."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _seconds: None))


@pytest.fixture
def day(world: World, cloud: tuple[Aws, Clients], loaded: AWSProvider) -> Iterator[Day]:
    aws, clients = cloud
    fresh = copy_catalog(loaded, AWSProvider(QUICK, clients, SystemClock(), structlog.get_logger("aws")))
    types = {item.name: item for item in loaded.instance_types(provisioner(), template())}
    _objects(world)
    with capture_logs() as logs:
        yield Day(world, aws, fresh, types, logs)
    aws.faults.clear()
    aws.world.instances.delays = replace(aws.world.instances.delays, unseen_seconds=0)
    if left := [i["instanceId"] for i in aws.instances() if i["state"] in ("pending", "running")]:
        aws.client("ec2").terminate_instances(InstanceIds=left)


def _objects(world: World) -> None:
    discovery = {"karpenter.sh/discovery": CLUSTER}
    world.kube.create(
        AWS_NODE_TEMPLATES,
        {
            "apiVersion": AWS_NODE_TEMPLATES.api_version,
            "kind": "AWSNodeTemplate",
            "metadata": {"name": "default"},
            "spec": {"subnetSelector": discovery, "securityGroupSelector": discovery},
        },
    )
    world.add_provisioner(requirements=[TYPES, BOTH], ttlSecondsAfterEmpty=1)


@contextmanager
def acting(day: Day) -> Iterator[Operator]:
    stop = threading.Event()
    clock = SystemClock()
    edges = Edges(day.world.kube, day.provider, clock, Ledger(clock), stop)
    operator = Operator(QUICK, edges, namespace="kube-system", times=TIMES)
    operator.watch()
    operator.start_leading()
    try:
        yield operator
    finally:
        stop.set()
        assert operator.close(15.0)


def test_throttled_at_every_call_for_a_while(day: Day) -> None:
    day.aws.faults.add(Fault(code="RequestLimitExceeded"))
    with acting(day):
        day.add_pods()
        day.until(lambda _: day.lines("Pass failed"), "a pass fails")
        day.aws.faults.clear()
        day.all_run()
        day.until(lambda _: day.lines("Recovered"), "it is said to be over")
    day.said_once()


def test_no_capacity_in_all_offerings_but_one(day: Day) -> None:
    day.aws.faults.add_shortage(Shortage(capacityType="spot"))
    for name in ("c5.large", "m5.large"):
        day.aws.faults.add_shortage(Shortage(instanceType=name))
    for zone in ("a", "b", "d"):
        day.aws.faults.add_shortage(Shortage(zone=f"ap-northeast-2{zone}"))
    with acting(day):
        day.add_pods()
        snapshot = day.all_run()
    labels = [node.node.labels for node in snapshot.nodes.values()]
    assert {one["node.kubernetes.io/instance-type"] for one in labels} == {"m5.xlarge"}
    assert {one["topology.kubernetes.io/zone"] for one in labels} == {"ap-northeast-2c"}
    assert {one["karpenter.sh/capacity-type"] for one in labels} == {"on-demand"}
    day.said_once()


def test_the_fleet_has_fewer_than_are_asked_for(day: Day) -> None:
    """Two spot instances are all that there are; the rest comes from elsewhere at once."""
    day.aws.faults.add_shortage(Shortage(capacityType="spot", capacity=1))
    with acting(day):
        day.add_pods(8)
        day.all_run()
    assert sum(i["capacityType"] == "spot" for i in day.aws.instances() if i["instanceId"] in day.alive()) <= 1
    day.said_once()
    assert day.lines("Offerings have no capacity") > 0, "it is said when it begins"


def test_describe_does_not_see_a_new_instance_for_ten_seconds(day: Day) -> None:
    day.aws.world.instances.delays = replace(day.aws.world.instances.delays, unseen_seconds=10)
    before = len(day.aws.instances())
    with acting(day):
        day.add_pods()
        snapshot = day.all_run()
    assert len(day.aws.instances()) - before == len(snapshot.nodes), "nothing was launched a second time"
    day.said_once()


def test_a_terminate_that_half_succeeds_leaves_nothing_behind(day: Day) -> None:
    day.aws.faults.add(Fault(service="ec2", action="TerminateInstances", half=True, times=2))
    with acting(day):
        day.add_pods()
        day.all_run()
        for index in range(PODS_WANTED - 1):
            day.world.kill_pod(f"p{index}")
        day.until(lambda s: len(s.nodes) == 1, "the empty nodes are gone")
        day.all_run()
        day.world.kill_pod(f"p{PODS_WANTED - 1}")
        day.until(lambda s: not s.nodes, "the last one too")
    assert day.alive() == []
    day.said_once()


def test_pricing_is_down_all_day(day: Day) -> None:
    day.aws.faults.add(Fault(service="pricing", code="InternalError"))
    make_due(day.provider, "on-demand prices")
    with acting(day):
        day.add_pods()
        day.all_run()
    assert day.lines("Reading from AWS fails") == 1


def test_credentials_expire_and_are_renewed(day: Day) -> None:
    day.aws.faults.add(Fault(code="RequestExpired", forSeconds=3))
    with acting(day):
        day.add_pods()
        day.all_run()
    day.said_once()
