"""The SQS queue of interruption events: long polls, and deletion of messages that were handled, ten in a call.

Visibility timeout and message count are Karpenter v0.27's (20 s, 10). The poll is shorter than its 20 s, so that a
process that stops ends in time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import structlog

from controller.aws.api.aws_errors import translated
from controller.core.cloud import QueueMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

VISIBILITY_SECONDS = 20
POLL_SECONDS = 10
MAX_MESSAGES = 10
"""SQS' limit, for ReceiveMessage and DeleteMessageBatch alike."""

_log = structlog.get_logger("interruption")


class SqsQueue:
    """Implements InterruptionQueue for the queue of this name; its URL is asked for once."""

    def __init__(self, sqs: SQSClient, name: str, poll_seconds: int = POLL_SECONDS) -> None:
        self._sqs = sqs
        self._name = name
        self._poll_seconds = poll_seconds
        self._url = ""

    def receive(self, *, wait: bool = True) -> tuple[QueueMessage, ...]:
        """See InterruptionQueue. Raises CloudError for a missing queue, too."""
        with translated("sqs:GetQueueUrl", f"queue {self._name}"):
            if not self._url:
                self._url = self._sqs.get_queue_url(QueueName=self._name)["QueueUrl"]
        with translated("sqs:ReceiveMessage", f"queue {self._name}"):
            answer = self._sqs.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=MAX_MESSAGES,
                VisibilityTimeout=VISIBILITY_SECONDS,
                WaitTimeSeconds=self._poll_seconds if wait else 0,
            )
        messages = answer.get("Messages", [])
        return tuple(QueueMessage(entry.get("Body", ""), entry.get("ReceiptHandle", "")) for entry in messages)

    def delete(self, messages: Collection[QueueMessage]) -> int:
        """See InterruptionQueue. The permission for DeleteMessageBatch is sqs:DeleteMessage."""
        receipts = [message.receipt for message in messages]
        batches = (receipts[start : start + MAX_MESSAGES] for start in range(0, len(receipts), MAX_MESSAGES))
        return sum(map(self._delete_batch, batches))

    def _delete_batch(self, receipts: list[str]) -> int:
        with translated("sqs:DeleteMessage", f"queue {self._name}"):
            answer = self._sqs.delete_message_batch(
                QueueUrl=self._url,
                Entries=[{"Id": str(place), "ReceiptHandle": receipt} for place, receipt in enumerate(receipts)],
            )
        failed = answer.get("Failed", [])
        if failed:
            codes = sorted({entry.get("Code", "") for entry in failed})
            _log.warning("Handled messages were not deleted; they come again", count=len(failed), codes=codes)
        return len(receipts) - len(failed)
