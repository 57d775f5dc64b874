"""Interruptions over the API server: what AWS is about to take goes at once, and what nobody can read stops nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.labels import (
    EXCLUDE_BALANCERS,
    INSTANCE_TYPE,
    PROVISIONER_NAME,
    TERMINATION_FINALIZER,
    ZONE,
)
from controller.core.api.timestamps import format_time, parse_time
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import QueueMessage
from controller.core.machines.draining import DEADLINE_ANNOTATION
from controller.errors import NotFoundError
from controller.kube.resources import NODES, PROVISIONERS
from controller.reconcilers.nodes.interruption_reconciler import InterruptionReconciler
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.reconcilers.conftest import World, apply_fault

SPOT = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE = "EC2 Instance State-change Notification"


class MemoryQueue:
    """What is not deleted comes again with the next long poll."""

    def __init__(self) -> None:
        self.waiting: list[QueueMessage] = []
        self._taken: set[QueueMessage] = set()
        self._receipts = itertools.count(1)

    def put(self, body: str) -> None:
        self.waiting.append(QueueMessage(body, str(next(self._receipts))))

    def tell(self, detail_type: str, instance: str = "i-node", source: str = "aws.ec2", **detail: Any) -> None:
        at = format_time(1_770_000_000.0)
        event = {"version": "0", "source": source, "detail-type": detail_type, "time": at}
        self.put(json.dumps({**event, "detail": {"instance-id": instance, **detail}}))

    def receive(self, *, wait: bool = True) -> tuple[QueueMessage, ...]:
        if wait:
            self._taken.clear()
        fresh = tuple(message for message in self.waiting if message not in self._taken)
        self._taken |= set(fresh)
        return fresh

    def delete(self, messages: Collection[QueueMessage]) -> int:
        gone = set(messages)
        self.waiting = [message for message in self.waiting if message not in gone]
        return len(gone)


class Post:
    """A node, the queue, and the loop between them."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.cloud.interruptions = self.queue = MemoryQueue()
        self.metrics = Metrics(world.clock)
        self.ledger = Ledger(world.clock, self.metrics)
        self.loop = InterruptionReconciler(replace(world.context, ledger=self.ledger))
        world.add_provisioner()
        labels = {PROVISIONER_NAME: "default", INSTANCE_TYPE: "m5.large", ZONE: "eu-west-1a"}
        metadata = {"name": "node", "labels": labels, "finalizers": [TERMINATION_FINALIZER]}
        world.add_node({"metadata": metadata, "spec": {"providerID": "aws:///eu-west-1a/i-node"}})

    def handle(self) -> None:
        self.loop.reconcile(self.world.caught_up())

    @property
    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.world.node("node")["metadata"]
        return metadata

    @property
    def going(self) -> bool:
        return "deletionTimestamp" in self.metadata


@pytest.fixture
def post(world: World) -> Post:
    return Post(world)


def test_a_spot_warning_deletes_the_node_with_a_deadline_and_marks_the_offering(post: Post) -> None:
    post.queue.tell(SPOT)
    post.handle()
    assert post.going
    assert post.world.node("node")["spec"]["unschedulable"] is True, "nothing more is scheduled to it until its drain"
    assert EXCLUDE_BALANCERS in post.metadata["labels"]
    assert parse_time(post.metadata["annotations"][DEADLINE_ANNOTATION]) == 1_770_000_120.0
    assert post.world.cloud.spot_interruptions == [("m5.large", "eu-west-1a")]
    assert post.queue.waiting == []
    post.world.await_event("InstanceSpotInterrupted")
    post.world.await_event("NodeTerminatingOnInterruption")
    (entry,) = post.ledger.entries()
    assert (entry.decision.kind, entry.decision.subject) == ("remove", "Node/node")
    assert "SpotInterruptionKind" in entry.decision.reason
    text = post.metrics.page({}).body.decode()
    for series in (
        'karpenter_nodes_terminated{provisioner="default",reason="interruption"} 1.0',
        'karpenter_interruption_received_messages{message_type="SpotInterruptionKind"} 1.0',
        "karpenter_interruption_deleted_messages 1.0",
        'karpenter_interruption_actions_performed{action_type="CordonAndDrain"} 1.0',
        "karpenter_interruption_message_latency_time_seconds_count 1.0",
    ):
        assert series in text, series


def test_a_stopping_instance_takes_its_node_along(post: Post) -> None:
    post.queue.tell(STATE, state="stopping")
    post.handle()
    assert post.going
    assert post.world.cloud.spot_interruptions == []


def test_whatever_announces_an_end_takes_its_node_along_in_one_batch(post: Post) -> None:
    """I2, I3, I4, I7: four states, and a scheduled change of two instances; a state that is no end changes nothing."""
    states = ("stopping", "stopped", "shutting-down", "terminated", "running")
    for instance in (*states, "health-1", "health-2"):
        metadata = {"name": instance, "labels": {PROVISIONER_NAME: "default"}, "finalizers": [TERMINATION_FINALIZER]}
        post.world.add_node({"metadata": metadata, "spec": {"providerID": f"aws:///eu-west-1a/i-{instance}"}})
    for state in states:
        post.queue.tell(STATE, f"i-{state}", state=state)
    entities = [{"entityValue": "i-health-1"}, {"entityValue": "i-health-2"}, {"entityValue": "i-stranger"}]
    change: dict[str, Any] = {"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": entities}
    post.queue.tell("AWS Health Event", source="aws.health", **change)
    post.handle()
    nodes = {node["metadata"]["name"]: node["metadata"] for node in post.world.kube.list(NODES)}
    assert {name for name, metadata in nodes.items() if "deletionTimestamp" not in metadata} == {"node", "running"}
    assert post.queue.waiting == []


def test_a_rebalance_recommendation_is_an_event_unless_the_provisioner_asks_for_more(post: Post) -> None:
    post.queue.tell(REBALANCE)
    post.handle()
    assert not post.going
    assert 'actions_performed{action_type="NoAction"} 1.0' in post.metrics.page({}).body.decode()
    assert post.ledger.entries() == ()
    assert V1ALPHA5.keys.voluntary_disruption not in (post.metadata.get("annotations") or {})
    post.world.await_event("InstanceSpotRebalanceRecommendation")
    annotations = {"karpenter.sh/rebalance-recommendation": "replace"}
    post.world.kube.patch(PROVISIONERS, "default", {"metadata": {"annotations": annotations}})
    post.world.until(lambda s: s.provisioners["default"].object_annotations)
    post.queue.tell(REBALANCE)
    post.handle()
    asked = post.metadata["annotations"][V1ALPHA5.keys.voluntary_disruption]
    assert asked == "expired", "it is replaced first, through the gate"
    assert not post.going


@pytest.mark.parametrize("body", ["nonsense", "", '{"version": "0", "source": "aws.ec2"}'])
def test_what_nobody_can_use_is_dropped_and_counted(post: Post, body: str) -> None:
    post.queue.put(body)
    post.queue.tell(SPOT)
    post.handle()
    assert post.queue.waiting == []
    assert post.going, "the others are handled all the same"
    lines = post.metrics.page({}).body.decode().splitlines()
    counts = [line.rpartition(" ")[2] for line in lines if line.startswith("karpenter_interruption_received_messages{")]
    assert counts == ["1.0", "1.0"]


def test_instances_that_are_not_ours_are_dropped(post: Post) -> None:
    """I5: those of node groups, and those that are no nodes."""
    managed = {"metadata": {"name": "managed"}, "spec": {"providerID": "aws:///eu-west-1a/i-managed"}}
    post.world.add_node(managed)
    for instance in ("i-managed", "i-nobody"):
        post.queue.tell(SPOT, instance)
    post.handle()
    assert post.queue.waiting == []
    assert not post.going
    assert post.world.node("managed")["metadata"]["uid"], "still there"
    assert post.world.cloud.spot_interruptions == []


def test_a_message_whose_handling_failed_comes_again(post: Post) -> None:
    post.queue.tell(STATE, state="terminated")
    snapshot = post.world.caught_up()
    apply_fault(post.world, {"kind": "errors", "seconds": 60, "code": 500})
    post.loop.reconcile(snapshot)
    apply_fault(post.world, None)
    assert len(post.queue.waiting) == 1
    post.handle()
    assert post.going
    assert post.queue.waiting == []


def test_a_node_that_goes_while_its_message_is_handled_is_no_error(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: between our last look at it and its deletion."""

    def gone(*_args: object, **_more: object) -> None:
        raise NotFoundError('nodes "node" not found', 404, "NotFound")

    post.queue.tell(STATE, state="terminated")
    snapshot = post.world.caught_up()
    monkeypatch.setattr(post.world.kube, "delete", gone)
    post.loop.reconcile(snapshot)
    assert post.queue.waiting == [], "there is nothing left to do for it"


def test_the_same_message_twice_does_no_harm(post: Post) -> None:
    post.queue.tell(SPOT)
    post.queue.tell(SPOT)
    post.handle()
    post.queue.tell(SPOT)
    post.handle()
    assert post.queue.waiting == []
