"""The SQS queue of interruption events: long polls, and deletion of messages that were handled.

Visibility timeout and message count are Karpenter v0.27's (20 s, 10). The poll is shorter than its 20 s, so that a
process that stops ends in time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controller.aws.api.aws_errors import translated
from controller.core.cloud import QueueMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

VISIBILITY_SECONDS = 20
POLL_SECONDS = 10
MAX_MESSAGES = 10


class SqsQueue:
    """Implements InterruptionQueue for the queue of this name; its URL is asked for once."""

    def __init__(self, sqs: SQSClient, name: str, poll_seconds: int = POLL_SECONDS) -> None:
        self._sqs = sqs
        self._name = name
        self._poll_seconds = poll_seconds
        self._url = ""

    def receive(self) -> tuple[QueueMessage, ...]:
        """See InterruptionQueue. Raises CloudError for a missing queue, too."""
        with translated("sqs:GetQueueUrl", f"queue {self._name}"):
            if not self._url:
                self._url = self._sqs.get_queue_url(QueueName=self._name)["QueueUrl"]
        with translated("sqs:ReceiveMessage", f"queue {self._name}"):
            answer = self._sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=MAX_MESSAGES,
                VisibilityTimeout=VISIBILITY_SECONDS,
                WaitTimeSeconds=self._poll_seconds,
            )
        messages = answer.get("Messages", [])
        return tuple(QueueMessage(entry.get("Body", ""), entry.get("ReceiptHandle", "")) for entry in messages)

    def delete(self, messages: Iterable[QueueMessage]) -> None:
        """See InterruptionQueue."""
        for message in messages:
            with translated("sqs:DeleteMessage", f"queue {self._name}"):
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message.receipt)
