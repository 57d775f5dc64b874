"""The interruption queue: who may write to it, and which events are sent.

Where we differ from Karpenter v0.27: TLS only, one sender for each rule, and the rules filter what the controller acts
on, so that a state change to `running` of any instance of the account wakes nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.documents.names import bounded
from components.documents.policy import Policy, policy

RETENTION_SECONDS = 300
"""Message retention: an interruption that nobody received within five minutes has happened already."""

RULES: dict[str, dict[str, Any]] = {
    "SpotInterruption": {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]},
    "Rebalance": {"source": ["aws.ec2"], "detail-type": ["EC2 Instance Rebalance Recommendation"]},
    "ScheduledChange": {
        "source": ["aws.health"],
        "detail-type": ["AWS Health Event"],
        "detail": {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]},
    },
    "InstanceStateChange": {
        "source": ["aws.ec2"],
        "detail-type": ["EC2 Instance State-change Notification"],
        "detail": {"state": ["stopping", "stopped", "shutting-down", "terminated"]},
    },
}
"""Event patterns by the name of their rule (EventBridge user guide, EC2 and Health events)."""


def rule_name(kind: str, cluster: str) -> str:
    """The rule's name, within EventBridge's limit."""
    return bounded(f"Karpenter{kind}-{cluster}")


def queue_policy(queue_arn: str, rule_arns: Sequence[str]) -> Policy:
    """Queue policy: the rules may send, and nobody may do anything without TLS."""
    return policy(
        {
            "Sid": "RulesSend",
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue_arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": sorted(rule_arns)}},
        },
        {
            "Sid": "OnlyTLS",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": queue_arn,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    )
