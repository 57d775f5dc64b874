"""Messages of the interruption queue, by the shapes that AWS documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.core.machines.interruption_messages import Kind, parse_message


def event(source: str = "aws.ec2", detail_type: str = "EC2 Spot Instance Interruption Warning", **fields: Any) -> str:
    body = {
        "version": "0",
        "source": source,
        "detail-type": detail_type,
        "time": "2026-03-02T12:00:00Z",
        "detail": {"instance-id": "i-1", "instance-action": "terminate"},
    }
    return json.dumps({**body, **fields})


def health(**detail: Any) -> str:
    defaults = {"service": "EC2", "eventTypeCategory": "scheduledChange"}
    entities = [{"entityValue": "i-1"}, {"entityValue": "i-2"}]
    return event("aws.health", "AWS Health Event", detail={**defaults, "affectedEntities": entities, **detail})


def state(name: str) -> str:
    return event(detail_type="EC2 Instance State-change Notification", detail={"instance-id": "i-1", "state": name})


def test_a_spot_warning_has_a_deadline_two_minutes_after_it_was_given() -> None:
    interruption = parse_message(event())
    assert (interruption.kind, interruption.instance_ids, interruption.reason) == (
        Kind.SPOT_INTERRUPTION,
        ("i-1",),
        "InstanceSpotInterrupted",
    )
    assert interruption.deadline == interruption.at + 120


def test_a_rebalance_recommendation_has_no_deadline() -> None:
    interruption = parse_message(event(detail_type="EC2 Instance Rebalance Recommendation"))
    assert (interruption.kind, interruption.deadline) == (Kind.REBALANCE, None)


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("stopping", Kind.STATE_CHANGE, "InstanceStopping"),
        ("Stopped", Kind.STATE_CHANGE, "InstanceStopping"),
        ("shutting-down", Kind.STATE_CHANGE, "InstanceTerminating"),
        ("terminated", Kind.STATE_CHANGE, "InstanceTerminating"),
        ("running", Kind.NO_OP, ""),
        ("pending", Kind.NO_OP, ""),
    ],
)
def test_state_changes_towards_the_end_count(name: str, kind: Kind, reason: str) -> None:
    interruption = parse_message(state(name))
    assert (interruption.kind, interruption.reason) == (kind, reason)


def test_scheduled_changes_name_all_their_instances() -> None:
    interruption = parse_message(health())
    assert (interruption.kind, interruption.instance_ids) == (Kind.SCHEDULED_CHANGE, ("i-1", "i-2"))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        health(service="RDS"),
        health(eventTypeCategory="issue"),
        event("aws.s3"),
        event(detail_type="Something Else"),
        event(version="1"),
    ],
)
def test_what_does_not_concern_instances_is_a_no_op(body: str) -> None:
    assert parse_message(body).kind is Kind.NO_OP


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        "[]",
        "3",
        event(detail=None),
        event(detail={}),
        event(detail={"instance-id": 3}),
        event(time="yesterday"),
        event(time="2026-03-02T12:00:00"),
        health(affectedEntities="i-1"),
        health(affectedEntities=["i-1"]),
    ],
)
def test_what_cannot_be_read_raises_value_error_alone(body: str) -> None:
    with pytest.raises(ValueError):
        parse_message(body)
