"""Events about instances: what a controller finds in its queue."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from moto.sqs import models as sqs_models

from tests.sandbox.aws.conftest import Sandbox

_numbers = itertools.count(1)


class Queue:
    """A queue of its own that a rule feeds with everything about instances."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.name = f"events-{next(_numbers)}"
        self.events = sandbox.aws.client("events")
        self.sqs = sandbox.aws.client("sqs")
        self.url = self.sqs.create_queue(QueueName=self.name)["QueueUrl"]
        self.events.put_rule(Name=self.name, EventPattern=json.dumps({"source": ["aws.ec2", "aws.health"]}))
        arn = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        self.events.put_targets(Rule=self.name, Targets=[{"Id": "queue", "Arn": arn}])

    def close(self) -> None:
        self.events.remove_targets(Rule=self.name, Ids=["queue"])
        self.events.delete_rule(Name=self.name)
        self.sqs.delete_queue(QueueUrl=self.url)

    def drain(self) -> list[dict[str, Any]]:
        """All messages, deleted from the queue."""
        found: list[dict[str, Any]] = []
        while messages := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                found.append(json.loads(message["Body"]))
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return found


@pytest.fixture
def queue(sandbox: Sandbox) -> Iterator[Queue]:
    queue = Queue(sandbox)
    yield queue
    queue.close()


def test_every_state_change_is_announced_once_and_in_order(sandbox: Sandbox, queue: Queue) -> None:
    instance = sandbox.launch()
    for seconds in (0, 5, 5):
        sandbox.clock.advance(seconds)
        sandbox.describe()
    sandbox.ec2.terminate_instances(InstanceIds=[instance])
    sandbox.describe()
    sandbox.clock.advance(10)
    events = queue.drain()
    assert [e["detail"]["state"] for e in events] == ["pending", "running", "shutting-down", "terminated"]
    assert {e["detail"]["instance-id"] for e in events} == {instance}
    assert {(e["version"], e["source"], e["detail-type"]) for e in events} == {
        ("0", "aws.ec2", "EC2 Instance State-change Notification")
    }


def test_the_seeded_rules_feed_the_clusters_queue(sandbox: Sandbox) -> None:
    """Each event once, though four rules point at the queue."""
    assert sandbox.aws.seeded is not None
    url = sandbox.aws.seeded.queue_url
    sqs = sandbox.aws.client("sqs")
    sqs.purge_queue(QueueUrl=url)
    instance = sandbox.launch()
    sandbox.describe()
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [json.loads(m["Body"])["detail"] for m in messages] == [{"instance-id": instance, "state": "pending"}]


def test_spot_warning_comes_two_minutes_before_the_end(sandbox: Sandbox, queue: Queue) -> None:
    instance = sandbox.launch()
    sandbox.clock.advance(5)
    sandbox.describe()
    queue.drain()
    sandbox.aws.world.interruptions.interrupt(sandbox.aws.world.instances.all()[-1], "spot", sandbox.clock.now())
    event = queue.drain()[0]
    assert event["detail-type"] == "EC2 Spot Instance Interruption Warning"
    assert event["detail"] == {"instance-id": instance, "instance-action": "terminate"}
    assert event["account"] == sandbox.aws.account
    assert event["region"] == "ap-northeast-2"
    assert event["resources"] == [f"arn:aws:ec2:ap-northeast-2:{sandbox.aws.account}:instance/{instance}"]
    sandbox.clock.advance(119)
    assert sandbox.state(instance) == "running"
    sandbox.clock.advance(1)
    assert sandbox.state(instance) == "shutting-down"
    assert sandbox.describe(InstanceIds=[instance])[0]["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_on_demand_instances_are_not_reclaimed(sandbox: Sandbox) -> None:
    sandbox.launch(spot=False)
    with pytest.raises(ValueError, match="not a spot instance"):
        sandbox.aws.world.interruptions.interrupt(sandbox.aws.world.instances.all()[-1], "spot", sandbox.clock.now())


@pytest.mark.parametrize(
    ("kind", "source", "detail_type"),
    [
        ("rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
        ("state-change", "aws.ec2", "EC2 Instance State-change Notification"),
        ("health", "aws.health", "AWS Health Event"),
    ],
)
def test_other_kinds_have_their_source_and_type(
    sandbox: Sandbox, queue: Queue, kind: str, source: str, detail_type: str
) -> None:
    instance = sandbox.launch()
    sandbox.describe()
    queue.drain()
    sandbox.aws.world.interruptions.interrupt(sandbox.aws.world.instances.all()[-1], kind, sandbox.clock.now())
    events = queue.drain()
    assert [(e["source"], e["detail-type"]) for e in events] == [(source, detail_type)]
    assert instance in json.dumps(events[0]["detail"])


def test_health_event_is_a_scheduled_change_of_ec2(sandbox: Sandbox, queue: Queue) -> None:
    instance = sandbox.launch()
    sandbox.aws.world.interruptions.interrupt(sandbox.aws.world.instances.all()[-1], "health", sandbox.clock.now())
    detail = next(e["detail"] for e in queue.drain() if e["source"] == "aws.health")
    assert (detail["service"], detail["eventTypeCategory"]) == ("EC2", "scheduledChange")
    assert [entity["entityValue"] for entity in detail["affectedEntities"]] == [instance]


def test_messages_that_are_deleted_at_the_same_time_are_all_gone() -> None:
    """moto's own deletion reads the list of messages and writes it anew: others' deletions in between were undone."""
    queue = sqs_models.Queue("queue", "eu-west-1", "123456789012")  # type: ignore[abstract]
    messages = [sqs_models.Message(str(number), "body", {}) for number in range(800)]
    for message in messages:
        queue.add_message(message)
        message.mark_received(visibility_timeout=60)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(queue.delete_message, [message.receipt_handle for message in messages]))
    assert queue._messages == []
