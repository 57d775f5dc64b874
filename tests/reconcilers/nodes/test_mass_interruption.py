"""A mass interruption: 600 spot warnings and 600 rebalance recommendations at once, in a time that API calls spend."""

from __future__ import annotations

import heapq
import json
import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import urllib3

from controller.aws.api.interruption_queue import MAX_MESSAGES, VISIBILITY_SECONDS, SqsQueue
from controller.aws.launch.instances import DESCRIBE_WINDOW
from controller.core.api.labels import EXCLUDE_BALANCERS, PROVISIONER_NAME, TERMINATION_FINALIZER
from controller.core.api.timestamps import format_time
from controller.core.cloud import CloudInstance
from controller.core.machines.draining import DEADLINE_ANNOTATION
from controller.core.state.change import Change, ChangeType
from controller.core.state.snapshot import Snapshot
from controller.errors import UnavailableError
from controller.kube.client import KubeClient
from controller.kube.connection import Connection
from controller.kube.resources import NODES, PODS, PROVISIONERS, Resource
from controller.reconcilers.nodes.interruption_reconciler import ROUND_MESSAGES, InterruptionReconciler
from controller.reconcilers.nodes.termination_reconciler import TerminationReconciler
from controller.runtime.executors import INLINE, Job
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.core.instances import cloud_instance
from tests.manual_clock import ManualClock
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import detached_context

CALL_SECONDS = 0.1
"""Of every call, to AWS and to the API server: slower than either is in the sandbox."""
NODES_OF_A_KIND = 600
SPOT, REBALANCE = "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"


class Timeline(ManualClock):
    """A clock that a pool of workers shares: work that runs at the same time does not add up."""

    def turn_to(self, at: float) -> None:
        self.advance(at - self.now())


class Workers:
    """An executor whose workers are busy in virtual time: each job begins when a worker is free."""

    def __init__(self, clock: Timeline, workers: int) -> None:
        self._clock = clock
        self._free = [clock.now()] * workers

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        asked_at = self._clock.now()
        self._clock.turn_to(max(asked_at, heapq.heappop(self._free)))
        job = INLINE.submit(work, *args, **kwargs)
        heapq.heappush(self._free, self._clock.now())
        self._clock.turn_to(asked_at)
        return job

    def map(self, work: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]:
        jobs = [self.submit(work, item) for item in items]
        self.wait(jobs, math.inf)
        return iter([job.result() for job in jobs])

    def wait(self, jobs: Collection[Job[Any]], timeout_seconds: float) -> None:
        """Until the last has ended, later than the loops wait: the state has what the jobs did already."""
        self._clock.turn_to(max(self._clock.now(), *self._free))


class Pool:
    """Executors in virtual time."""

    def __init__(self, clock: Timeline) -> None:
        self._clock = clock

    def executor(self, name: str, workers: int) -> Workers:
        return Workers(self._clock, workers)

    def close(self) -> None:
        """No job is ever queued."""


class SlowSqs:
    """A queue behind SQS' own calls, each of which takes its time."""

    def __init__(self, clock: Timeline) -> None:
        self.calls: Counter[str] = Counter()
        self.waiting: dict[str, str] = {}
        """Body by receipt, of messages that were not deleted."""
        self.undeletable: set[str] = set()
        self.empty_at = 0.0
        self.call_seconds = CALL_SECONDS
        self.longest_held = 0.0
        """Seconds from a message's receipt to its deletion, at most."""
        self._taken: dict[str, float] = {}
        """When each message was received, by receipt."""
        self._clock = clock

    def put(self, bodies: Iterable[str]) -> None:
        self.waiting |= {f"receipt-{place}": body for place, body in enumerate(bodies, len(self.waiting))}

    def _called(self, name: str) -> None:
        self.calls[name] += 1
        self._clock.advance(self.call_seconds)

    def get_queue_url(self, **_: Any) -> Mapping[str, Any]:
        self._called("GetQueueUrl")
        return {"QueueUrl": "https://sqs/queue"}

    def receive_message(self, **asked: Any) -> Mapping[str, Any]:
        self._called("ReceiveMessage")
        visible = [receipt for receipt in self.waiting if receipt not in self._taken]
        taken = visible[: asked["MaxNumberOfMessages"]]
        if not taken:
            self._clock.advance(asked["WaitTimeSeconds"])
        self._taken |= dict.fromkeys(taken, self._clock.now())
        return {"Messages": [{"Body": self.waiting[receipt], "ReceiptHandle": receipt} for receipt in taken]}

    def delete_message_batch(self, **asked: Any) -> Mapping[str, Any]:
        self._called("DeleteMessageBatch")
        assert len(asked["Entries"]) <= 10, "SQS refuses more"
        receipts = {entry["Id"]: entry["ReceiptHandle"] for entry in asked["Entries"]}
        failed = [name for name, receipt in receipts.items() if receipt in self.undeletable]
        for name, receipt in receipts.items():
            if name not in failed:
                del self.waiting[receipt]
                self.longest_held = max(self.longest_held, self._clock.now() - self._taken[receipt])
        if not self.waiting:
            self.empty_at = self._clock.now()
        return {"Failed": [{"Id": name, "Code": "InternalError"} for name in failed]}


class SlowCloud(MemoryCloud):
    """Instances behind EC2's calls, each of which is merged with others for a while first."""

    def __init__(self, clock: Timeline) -> None:
        super().__init__()
        self._turn = clock

    def _called(self) -> None:
        self._turn.advance(DESCRIBE_WINDOW.idle_seconds + CALL_SECONDS)

    def find(self, provider_id: str) -> CloudInstance | None:
        self._called()
        return super().find(provider_id)

    def delete(self, provider_id: str) -> None:
        self._called()
        super().delete(provider_id)


class SlowKube(KubeClient):
    """An API server that agrees to everything, after a while; one that has trouble with the nodes in `refuses`."""

    def __init__(self, clock: Timeline) -> None:
        super().__init__(Connection("http://127.0.0.1:9", urllib3.PoolManager(), None), clock=clock)
        self.writes: list[tuple[str, str]] = []
        """Verb or annotation, and node."""
        self.refuses: Collection[str] = ()
        self._turn = clock

    def _wrote(self, what: str, name: str) -> dict[str, Any]:
        self._turn.advance(CALL_SECONDS)
        if name in self.refuses:
            raise UnavailableError(f"no answer about {name}", 500, "InternalError")
        self.writes.append((what, name))
        return {"kind": "Status"}

    def patch(self, resource: Resource, name: str, patch: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        assert resource is NODES
        written = patch["metadata"].get("annotations", {})
        (what,) = [key for key, value in written.items() if value is not None] or ["finalizers"]
        return self._wrote(what, name)

    def delete(self, resource: Resource, name: str, namespace: str = "", **_: Any) -> dict[str, Any]:
        assert (resource, namespace) == (NODES, "")
        return self._wrote("delete", name)

    def evict(self, namespace: str, name: str, uid: str = "", **_: Any) -> None:
        self._wrote("evict", name)

    def list(
        self, resource: Resource, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> list[dict[str, Any]]:
        """Pods of one node that the watch has not shown: none."""
        assert resource is PODS
        self._turn.advance(CALL_SECONDS)
        return []

    def node_names(self, what: str) -> Sequence[str]:
        return [name for each, name in self.writes if each == what]


class Region:
    """A region that takes its spot capacity back: its queue, an API server, and the loop between them."""

    def __init__(self) -> None:
        self.clock = Timeline()
        self.sqs, self.kube, self.looks = SlowSqs(self.clock), SlowKube(self.clock), 0
        self.cloud = cloud = SlowCloud(self.clock)
        cloud.interruptions = SqsQueue(self.sqs, "queue")  # type: ignore[arg-type]
        self.metrics = Metrics(self.clock)
        self.ledger = Ledger(self.clock, self.metrics)
        self.ledger.look = self._look
        context = detached_context(cloud, self.clock, self.ledger.recorder, self.kube)
        context = replace(context, ledger=self.ledger, executors=Pool(self.clock))
        self.stop: threading.Event = context.stop  # type: ignore[assignment]
        self.informers = context.informers
        self.loop = InterruptionReconciler(context)
        self.drains = TerminationReconciler(context)

    def _look(self) -> tuple[Snapshot, Mapping[str, Any]]:
        self.looks += 1
        return self.informers.snapshot(), {}

    def add_nodes(self, count: int) -> list[str]:
        """Names of nodes, each of the instance `i-NAME`, of a Provisioner that replaces nodes at risk."""
        names = [f"n{number}" for number in range(count)]
        metadata = {"labels": {PROVISIONER_NAME: "default"}, "finalizers": [TERMINATION_FINALIZER]}
        nodes = [
            {"metadata": {**metadata, "name": name, "uid": name}, "spec": {"providerID": f"aws:///a/i-{name}"}}
            for name in names
        ]
        replaces = {"name": "default", "annotations": {"karpenter.sh/rebalance-recommendation": "replace"}}
        pool = {"metadata": replaces, "spec": {"providerRef": {"name": "default"}}}
        for resource, objects in ((NODES, nodes), (PROVISIONERS, [pool])):
            self.informers.take(Change(resource.kind, ChangeType.REPLACED, tuple(objects), "1"))
        return names

    def message(self, detail_type: str, node: str) -> str:
        event = {"version": "0", "source": "aws.ec2", "detail-type": detail_type, "time": format_time(self.clock.now())}
        return json.dumps({**event, "detail": {"instance-id": f"i-{node}"}})

    def handle(self) -> None:
        self.loop.reconcile(self._now())

    def _now(self) -> Snapshot:
        return replace(self.informers.snapshot(), synced=True)

    def run_a_pod_on_each(self, names: Iterable[str]) -> None:
        """And the instance of each node."""
        pods = []
        for name in names:
            metadata = {"name": name, "namespace": "default", "uid": f"pod-{name}"}
            spec = {"nodeName": name, "containers": [{"name": "c", "image": "i"}]}
            pods.append({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
            self.cloud.add(replace(cloud_instance(), id=f"i-{name}", provider_id=f"aws:///a/i-{name}"))
        self.informers.take(Change(PODS.kind, ChangeType.REPLACED, tuple(pods), "2"))

    def show_deletions(self) -> None:
        """What the watches bring of the nodes that were deleted, and of the pods that were evicted."""
        now, released = format_time(self.clock.now()), set(self.kube.node_names("finalizers"))
        labels = {PROVISIONER_NAME: "default", EXCLUDE_BALANCERS: "karpenter"}
        for name in self.kube.node_names("delete"):
            metadata = {"name": name, "uid": name, "labels": labels, "finalizers": [TERMINATION_FINALIZER]}
            spec = {"providerID": f"aws:///a/i-{name}", "unschedulable": True}
            document = {"metadata": {**metadata, "deletionTimestamp": now}, "spec": spec}
            change = ChangeType.DELETED if name in released else ChangeType.MODIFIED
            self.informers.take(Change(NODES.kind, change, (document,), "3"))
        for name in self.kube.node_names("evict"):
            pod = {"metadata": {"name": name, "namespace": "default", "uid": f"pod-{name}"}, "spec": {}, "status": {}}
            self.informers.take(Change(PODS.kind, ChangeType.DELETED, (pod,), "4"))

    def drain(self) -> None:
        """Make passes of termination until no node is leaving."""
        self.show_deletions()
        while any(node.leaving for node in self._now().nodes.values()):
            self.clock.advance(self.drains.reconcile(self._now()))
            self.show_deletions()


@pytest.fixture
def region() -> Region:
    return Region()


def test_1200_messages_at_once_are_handled_in_one_pass_within_a_minute(region: Region) -> None:
    names = region.add_nodes(2 * NODES_OF_A_KIND)
    at_risk, ending = names[:NODES_OF_A_KIND], names[NODES_OF_A_KIND:]
    region.sqs.put(region.message(REBALANCE, name) for name in at_risk)
    region.sqs.put(region.message(SPOT, name) for name in ending)
    began = region.clock.now()
    region.handle()
    assert region.sqs.waiting == {}
    assert region.sqs.empty_at - began < 60.0
    assert sorted(region.kube.node_names("delete")) == sorted(region.kube.node_names(DEADLINE_ANNOTATION))
    assert sorted(region.kube.node_names("delete")) == sorted(ending)
    assert sorted(region.kube.node_names("karpenter.sh/voluntary-disruption")) == sorted(at_risk)
    rounds, batches = len(names) // ROUND_MESSAGES, len(names) // MAX_MESSAGES
    assert region.sqs.calls == {"GetQueueUrl": 1, "ReceiveMessage": batches + 1, "DeleteMessageBatch": batches}
    assert region.looks <= rounds, "the cluster is read once a round, not once a decision"
    assert {entry.decision.subject for entry in region.ledger.entries()} == {f"Node/{name}" for name in ending}


def test_600_nodes_are_drained_and_their_instances_ended_within_a_minute_of_the_1200_messages(region: Region) -> None:
    """One after the other, though the loops of interruption and of termination run at the same time."""
    names = region.add_nodes(2 * NODES_OF_A_KIND)
    region.run_a_pod_on_each(names)
    ending = names[NODES_OF_A_KIND:]
    region.sqs.put(region.message(REBALANCE, name) for name in names[:NODES_OF_A_KIND])
    region.sqs.put(region.message(SPOT, name) for name in ending)
    began = region.clock.now()
    region.handle()
    region.drain()
    assert region.clock.now() - began < 60.0
    assert sorted(region.cloud.deleted) == sorted(f"aws:///a/i-{name}" for name in ending)
    assert sorted(region.kube.node_names("evict")) == sorted(region.kube.node_names("finalizers")) == sorted(ending)


def test_of_messages_that_come_together_those_about_ends_are_handled_first_and_one_does_not_undo_another(
    region: Region,
) -> None:
    names = region.add_nodes(40)
    region.sqs.put(region.message(REBALANCE, name) for name in names)
    region.sqs.put(region.message(SPOT, name) for name in (*names[20:], *names[20:]))
    region.handle()
    assert region.sqs.waiting == {}
    order = [name for _, name in region.kube.writes]
    assert set(order[:40]) == set(names[20:]), "two writes each, before any other node's"
    assert len(region.kube.writes) == 2 * 20 + 20, "what is about to end is not marked for replacement, nor ended twice"


def test_of_a_slow_queue_no_more_is_taken_than_is_deleted_before_it_is_delivered_again(region: Region) -> None:
    names = region.add_nodes(ROUND_MESSAGES)
    region.sqs.call_seconds = 3.0
    region.sqs.put(region.message(SPOT, name) for name in names)
    region.handle()
    assert region.sqs.waiting == {}
    assert region.sqs.longest_held < VISIBILITY_SECONDS


def test_a_node_that_cannot_be_written_stops_no_other_and_keeps_its_message_alone(region: Region) -> None:
    names = region.add_nodes(30)
    region.kube.refuses = names[7:8]
    region.sqs.put(region.message(SPOT, name) for name in names)
    region.handle()
    assert list(region.sqs.waiting) == ["receipt-7"]
    assert sorted(region.kube.node_names("delete")) == sorted(name for name in names if name != "n7")


def test_when_nothing_can_be_handled_the_pass_ends(region: Region) -> None:
    """Else an API server that is down would be asked without a pause."""
    region.kube.refuses = names = region.add_nodes(ROUND_MESSAGES + 20)
    region.sqs.put(region.message(SPOT, name) for name in names)
    region.handle()
    assert region.sqs.calls["ReceiveMessage"] == ROUND_MESSAGES // MAX_MESSAGES
    assert region.sqs.calls["DeleteMessageBatch"] == 0


def test_a_message_that_sqs_does_not_delete_is_no_failure_of_the_others(region: Region) -> None:
    names = region.add_nodes(15)
    region.sqs.undeletable = {"receipt-3"}
    region.sqs.put(region.message(SPOT, name) for name in names)
    region.handle()
    assert list(region.sqs.waiting) == ["receipt-3"]
    assert "karpenter_interruption_deleted_messages 14.0" in region.metrics.page({}).body.decode()


def test_a_process_that_stops_ends_after_the_round_at_hand(region: Region) -> None:
    names = region.add_nodes(2 * ROUND_MESSAGES)
    region.sqs.put(region.message(SPOT, name) for name in names)
    region.stop.set()
    region.handle()
    assert len(region.sqs.waiting) == ROUND_MESSAGES
