"""Drain nodes whose instances AWS is about to interrupt, stop or terminate.

A mass interruption brings hundreds of messages at once, with two minutes for each: a pass takes messages until the
queue is empty, and handles their nodes concurrently, first those whose instances end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.core.api.timestamps import format_time
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import QueueMessage
from controller.core.decisions.decision import Decision, node_details
from controller.core.deprovisioning.expiration import EXPIRED
from controller.core.machines.draining import DEADLINE_ANNOTATION, cordon
from controller.core.machines.interruption_messages import Interruption, Kind, parse_message
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import NodelessError, NotFoundError
from controller.kube.events import ObjectRef
from controller.kube.resources import NODES
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.runtime.metrics import (
    INTERRUPTION_ACTIONS,
    INTERRUPTION_DELETED,
    INTERRUPTION_LATENCY,
    INTERRUPTION_RECEIVED,
)

WORKERS = 20
"""Nodes handled concurrently."""
ROUND_MESSAGES = 100
"""Messages handled together: enough for all workers, few enough to be deleted before SQS delivers them again."""
DELETE_MESSAGES = 10
"""Messages deleted by one call: SQS' limit."""
TAKE_SECONDS = 5.0
"""No more messages are taken after this long: those at hand become visible again 20 s after they were received."""
PASS_SECONDS = 60.0
"""A pass ends after the round in which this has passed, so that a queue that is never empty does not look stuck."""


@dataclass(slots=True)
class _Task:
    """The announcements of one round about a node, each once. `decisions` and `failed` are the outcome."""

    node: StateNode
    announced: list[Interruption] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    failed: bool = False

    @property
    def ends(self) -> bool:
        """Whether the instance is about to end."""
        return any(each.kind is not Kind.REBALANCE for each in self.announced)


class InterruptionReconciler(ContextReconciler):
    """Handle the messages of the interruption queue; its long poll paces the loop."""

    name = "interruption"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._stop = context.stop
        self._executor = context.executors.executor("interrupt", WORKERS)

    def _pass(self, _snapshot: Snapshot) -> float:
        """Handle messages until the queue is empty. A message is deleted once all that follows from it is done."""
        ends_at = self._clock.monotonic() + PASS_SECONDS
        while self._round() and self._clock.monotonic() < ends_at and not self._stop.is_set():
            continue
        return 0.0

    def _round(self) -> bool:
        """Take messages and handle them; False when there were none, or none of them could be handled."""
        messages = self._take()
        handled = self._handle(messages) if messages else []
        if handled:
            batches = [handled[start : start + DELETE_MESSAGES] for start in range(0, len(handled), DELETE_MESSAGES)]
            deleted = sum(self._executor.map(self._cloud.interruptions.delete, batches))
            self._recorder.count(INTERRUPTION_DELETED, amount=deleted)
        return bool(handled)

    def _take(self) -> list[QueueMessage]:
        queue = self._cloud.interruptions
        messages = list(queue.receive())
        ends_at = self._clock.monotonic() + TAKE_SECONDS
        while 0 < len(messages) < ROUND_MESSAGES and self._clock.monotonic() < ends_at:
            if not (more := queue.receive(wait=False)):
                break
            messages += more
        return messages

    def _handle(self, messages: Sequence[QueueMessage]) -> list[QueueMessage]:
        """Handle messages; return those that are done. The queue delivers the others again."""
        announced = [(message, self._read(message)) for message in messages]
        tasks = _tasks(announced, _by_instance(self._informers.snapshot()))
        first = sorted(tasks.values(), key=lambda task: not task.ends)
        self._ledger.record_all(decision for made in self._executor.map(self._run, first) for decision in made)
        done = []
        for message, interruption in announced:
            if not any(tasks[instance].failed for instance in interruption.instance_ids if instance in tasks):
                done.append(message)
                if interruption.at > 0:
                    self._recorder.observe(INTERRUPTION_LATENCY, max(0.0, self._clock.now() - interruption.at))
        return done

    def _read(self, message: QueueMessage) -> Interruption:
        """Parse the announcement in a message; one that cannot be parsed announces nothing."""
        try:
            interruption = parse_message(message.body)
        except ValueError as error:
            self._recorder.count(INTERRUPTION_RECEIVED, "malformed")
            self._log.warning("Dropped a message that cannot be read", error=str(error), body=message.body[:200])
            return Interruption(Kind.NO_OP)
        self._recorder.count(INTERRUPTION_RECEIVED, interruption.kind.value)
        return interruption

    def _run(self, task: _Task) -> list[Decision]:
        """Handle the announcements about one node; return the decisions, and note on the task if that failed."""
        try:
            for interruption in sorted(task.announced, key=lambda each: each.kind is Kind.REBALANCE):
                self._act(interruption, task)
        except NotFoundError:
            self._log.debug("Node was gone before its interruption was handled", node=task.node.name)
        except Exception as error:  # noqa: BLE001 - one node never stops the others; the message comes again
            task.failed = True
            unexpected = not isinstance(error, NodelessError)
            text = "Interruption not handled; its message is delivered again"
            self._log.error(text, node=task.node.name, error=f"{type(error).__name__}: {error}", exc_info=unexpected)
        return task.decisions

    def _act(self, interruption: Interruption, task: _Task) -> None:
        drains, node = interruption.kind is not Kind.REBALANCE, task.node
        self._recorder.count(INTERRUPTION_ACTIONS, "CordonAndDrain" if drains else "NoAction")
        if not drains:
            self._rebalance(interruption, task)
            return
        if interruption.kind is Kind.SPOT_INTERRUPTION and node.node.instance_type and node.node.zone:
            self._cloud.spot_interrupted(node.node.instance_type, node.node.zone)
        if interruption.deadline is not None:
            stamp = format_time(interruption.deadline)
            if node.node.annotations.get(DEADLINE_ANNOTATION) != stamp:
                self._write(node, cordon({DEADLINE_ANNOTATION: stamp}))
        if node.node.deleted_at is not None or task.decisions:
            return
        reason, owner = f"AWS announced it: {interruption.kind.value}", node.provisioner_name
        self._publish(node, "Warning", interruption.reason, reason)
        self._removals.delete(node.node)
        text = f"Deleting node because of {interruption.kind.value}"
        self._publish(node, "Warning", "NodeTerminatingOnInterruption", text)
        self._log.info("Deleted node", node=node.name, because=interruption.kind.value, state=interruption.state)
        task.decisions.append(
            Decision("remove", self.name, f"Node/{node.name}", reason, owner, details=node_details(node))
        )

    def _rebalance(self, interruption: Interruption, task: _Task) -> None:
        """On a rebalance recommendation, expire the node (replacement first) if its Provisioner asks for that."""
        node = task.node
        self._publish(node, "Normal", interruption.reason, "The instance is at an elevated risk of interruption")
        provisioner = self._informers.snapshot().provisioners.get(node.provisioner_name)
        wanted = provisioner is not None and provisioner.disruption.replace_at_risk
        key = V1ALPHA5.keys.voluntary_disruption
        if wanted and not node.leaving and not task.ends and key not in node.node.annotations:
            self._write(node, {"metadata": {"annotations": {key: EXPIRED}}})

    def _write(self, node: StateNode, patch: dict[str, Any]) -> None:
        self._informers.learn(NODES, self._kube.patch(NODES, node.name, patch))

    def _publish(self, node: StateNode, kind: str, reason: str, message: str) -> None:
        self._events.publish(ObjectRef.of(node.node), kind, reason, message, (node.node.uid,))


def _tasks(announced: Iterable[tuple[QueueMessage, Interruption]], nodes: Mapping[str, StateNode]) -> dict[str, _Task]:
    """Group announcements by instance id, for instances of our nodes."""
    tasks: dict[str, _Task] = {}
    for _, interruption in announced:
        for instance in interruption.instance_ids:
            if instance in nodes:
                task = tasks.setdefault(instance, _Task(nodes[instance]))
                if interruption not in task.announced:
                    task.announced.append(interruption)
    return tasks


def _by_instance(snapshot: Snapshot) -> dict[str, StateNode]:
    """Return nodes of ours by the last part of their provider id."""
    owned = (node for node in snapshot.nodes.values() if node.provisioner_name and node.node.provider_id)
    return {node.node.provider_id.rpartition("/")[2]: node for node in owned}
