"""EC2's and AWS Health's events about instances: the queues of every EventBridge rule that matches get them.

Sources: EC2 user guide "Spot Instance interruption notices" (two minutes' warning), "EC2 instance rebalance
recommendations", "Monitor instance state changes"; AWS Health user guide "Event schema".
"""

from __future__ import annotations

import json
from typing import Any

from moto.core.utils import unix_time
from moto.events.models import events_backends
from moto.sqs.models import Message, Queue, SQSBackend, sqs_backends

from sandbox.aws.clock import utc
from sandbox.aws.ec2.instances import Instance
from sandbox.aws.seeded import Seeded

SPOT_WARNING_SECONDS = 120.0
KINDS = ("spot", "rebalance", "state-change", "health")


def _retained(backend: SQSBackend, queue_name: str, message: Message) -> bool:
    kept_seconds = float(backend.get_queue(queue_name).message_retention_period)  # type: ignore[attr-defined]
    return (message.sent_timestamp or 0.0) / 1000 + kept_seconds > unix_time()


SQSBackend.is_message_valid_based_on_retention_period = _retained  # type: ignore[assignment, method-assign]
"""moto counts the whole queue for each message that it hands out."""


_delete_message = Queue.delete_message


def _delete_under_lock(queue: Queue, receipt_handle: str) -> None:
    with queue._messages_lock:
        _delete_message(queue, receipt_handle)


Queue.delete_message = _delete_under_lock  # type: ignore[assignment, method-assign]
"""moto writes the list of messages anew without its lock: of deletions at the same time some brought messages back."""


class Interruptions:
    """Announces state changes as they happen, and the bad news that a scenario asks for."""

    def __init__(self, account: str, region: str, seeded: Seeded) -> None:
        self._account = account
        self._region = region
        self._seeded = seeded

    def interrupt(self, instance: Instance, kind: str, now: float, state: str = "stopping") -> None:
        """Send one message about an instance; `state` is for state-change.

        spot also takes the instance away after two sandbox minutes. Raises ValueError for an unknown kind and for a
        spot interruption of an on-demand instance.
        """
        match kind:
            case "spot" if not instance.spot:
                raise ValueError(f"{instance.id} is not a spot instance")
            case "spot":
                instance.reclaim_at = now + SPOT_WARNING_SECONDS
                detail = {"instance-id": instance.id, "instance-action": "terminate"}
                self._put("aws.ec2", "EC2 Spot Instance Interruption Warning", instance, detail, now)
            case "rebalance":
                detail = {"instance-id": instance.id}
                self._put("aws.ec2", "EC2 Instance Rebalance Recommendation", instance, detail, now)
            case "state-change":
                self.state_changed(instance, state, now)
            case "health":
                self._put("aws.health", "AWS Health Event", instance, self._health(instance, now), now)
            case _:
                raise ValueError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")

    def state_changed(self, instance: Instance, state: str, now: float) -> None:
        """EC2 Instance State-change Notification."""
        detail = {"instance-id": instance.id, "state": state}
        self._put("aws.ec2", "EC2 Instance State-change Notification", instance, detail, now)

    def _health(self, instance: Instance, now: float) -> dict[str, Any]:
        when = utc(now).strftime("%a, %d %b %Y %H:%M:%S GMT")
        code = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"
        return {
            "eventArn": f"arn:aws:health:{self._region}::event/EC2/{code}/{code}_{instance.id}",
            "service": "EC2",
            "eventTypeCode": code,
            "eventTypeCategory": "scheduledChange",
            "startTime": when,
            "eventDescription": [{"language": "en_US", "latestDescription": f"{instance.id} is scheduled to retire."}],
            "affectedEntities": [{"entityValue": instance.id, "tags": {}}],
        }

    def _put(self, source: str, detail_type: str, instance: Instance, detail: dict[str, Any], now: float) -> None:
        event: Any = {
            "version": "0",
            "id": self._seeded.uuid("event"),
            "detail-type": detail_type,
            "source": source,
            "account": self._account,
            "time": utc(now).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._region,
            "resources": [f"arn:aws:ec2:{self._region}:{self._account}:instance/{instance.id}"],
            "detail": detail,
        }
        rules = events_backends[self._account][self._region].describe_event_bus("default").rules.values()
        for rule in rules:
            if rule.state == "ENABLED" and rule.event_pattern.matches_event(event):
                self._deliver(event, rule.targets)

    def _deliver(self, event: Any, targets: list[dict[str, Any]]) -> None:
        """To the queues among the targets.

        moto's own delivery leaves out the account, and its SendMessage counts the whole queue: 25 ms at 1,000 messages.
        """
        queues = sqs_backends[self._account][self._region].queues
        for target in targets:
            service, name = target["Arn"].split(":")[2], target["Arn"].rpartition(":")[2]
            if service == "sqs" and name in queues:
                queue: Any = queues[name]
                message = Message(event["id"], json.dumps(event))
                message.mark_sent(delay_seconds=queue.delay_seconds)
                queue.add_message(message)
