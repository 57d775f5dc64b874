"""The interruption queue, and the EventBridge rules that fill it."""

import json
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components.documents.interruption import RETENTION_SECONDS, RULES, queue_policy, rule_name
from components.documents.policy import compact


class InterruptionQueueArgs(TypedDict):
    """The queue."""

    cluster_name: str
    """Names of the rules derive from it."""
    queue_name: str
    """Name of the queue."""
    kms_key_arn: NotRequired[str]
    """Key that encrypts it; else SQS's own."""


class InterruptionQueue(pulumi.ComponentResource):
    """Spot interruptions, rebalance recommendations, scheduled changes and state changes of EC2."""

    arn: pulumi.Output[str]
    """ARN of the queue."""
    queue_name: pulumi.Output[str]
    """Name of the queue."""

    def __init__(self, name: str, args: InterruptionQueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:InterruptionQueue", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        key = args.get("kms_key_arn") or None
        queue = aws.sqs.Queue(
            f"{name}-queue",
            name=args["queue_name"],
            message_retention_seconds=RETENTION_SECONDS,
            sqs_managed_sse_enabled=True if key is None else None,
            kms_master_key_id=key,
            opts=child,
        )
        rules = [
            self._rule(f"{name}-{kind}", rule_name(kind, args["cluster_name"]), pattern, queue)
            for kind, pattern in RULES.items()
        ]
        document = pulumi.Output.all(queue.arn, *(rule.arn for rule in rules)).apply(
            lambda arns: compact(queue_policy(arns[0], arns[1:]))
        )
        aws.sqs.QueuePolicy(f"{name}-policy", queue_url=queue.url, policy=document, opts=child)
        self.arn = queue.arn
        self.queue_name = queue.name
        self.register_outputs({"arn": self.arn, "queue_name": self.queue_name})

    def _rule(self, name: str, rule: str, pattern: dict[str, object], queue: aws.sqs.Queue) -> aws.cloudwatch.EventRule:
        child = pulumi.ResourceOptions(parent=self)
        made = aws.cloudwatch.EventRule(f"{name}-rule", name=rule, event_pattern=json.dumps(pattern), opts=child)
        aws.cloudwatch.EventTarget(
            f"{name}-target", rule=made.name, target_id="KarpenterInterruptionQueueTarget", arn=queue.arn, opts=child
        )
        return made
