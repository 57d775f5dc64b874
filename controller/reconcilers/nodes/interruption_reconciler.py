"""Drain nodes whose instances AWS announces to interrupt, stop or terminate."""

from __future__ import annotations

import structlog

from controller.core.api.labels import INSTANCE_TYPE, ZONE
from controller.core.api.timestamps import format_time
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.cloud import QueueMessage
from controller.core.decisions.decision import Decision, node_details
from controller.core.deprovisioning.expiration import EXPIRED
from controller.core.machines.draining import DEADLINE_ANNOTATION
from controller.core.machines.interruption_messages import (
    Interruption,
    Kind,
    parse_message,
)
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import KubeError, NotFoundError
from controller.kube.events import ObjectRef
from controller.kube.resources import NODES
from controller.reconcilers.context import ReconcilerContext
from controller.runtime.metrics import (
    INTERRUPTION_ACTIONS,
    INTERRUPTION_DELETED,
    INTERRUPTION_LATENCY,
    INTERRUPTION_RECEIVED,
)


class InterruptionReconciler:
    """Handle the messages of the interruption queue; its long poll paces the loop."""

    name = "interruption"

    def __init__(self, context: ReconcilerContext) -> None:
        self._kube, self._informers, self._events = context.kube, context.informers, context.events
        self._clock, self._ledger, self._recorder = context.clock, context.ledger, context.recorder
        self._cloud = context.cloud
        self._log = structlog.get_logger(self.name)

    def reconcile(self, snapshot: Snapshot) -> float:
        """Receive and handle messages. A message is deleted once everything that follows from it is done."""
        if not snapshot.synced:
            return 1.0
        messages = self._cloud.interruptions.receive()
        if messages:
            nodes = _by_instance(self._informers.snapshot())
            handled = [message for message in messages if self._handled(message, nodes)]
            self._cloud.interruptions.delete(handled)
            self._recorder.count(INTERRUPTION_DELETED, amount=len(handled))
        return 0.0

    def _handled(self, message: QueueMessage, nodes: dict[str, StateNode]) -> bool:
        """Handle a message; False if that failed, and the queue is to deliver it again."""
        try:
            interruption = parse_message(message.body)
        except ValueError as error:
            self._recorder.count(INTERRUPTION_RECEIVED, "malformed")
            self._log.warning("Dropped a message that cannot be read", error=str(error), body=message.body[:200])
            return True
        self._recorder.count(INTERRUPTION_RECEIVED, interruption.kind.value)
        done = True
        for instance in interruption.instance_ids:
            node = nodes.get(instance)
            if node is None:
                continue
            try:
                self._act(interruption, node)
            except NotFoundError:
                self._log.debug("Node was gone before its interruption was handled", node=node.name)
            except KubeError as error:
                self._log.error("Interruption not handled; it comes again", node=node.name, error=str(error))
                done = False
        if done and interruption.at > 0:
            self._recorder.observe(INTERRUPTION_LATENCY, max(0.0, self._clock.now() - interruption.at))
        return done

    def _act(self, interruption: Interruption, node: StateNode) -> None:
        drains = interruption.kind is not Kind.REBALANCE
        self._recorder.count(INTERRUPTION_ACTIONS, "CordonAndDrain" if drains else "NoAction")
        if not drains:
            self._rebalance(interruption, node)
            return
        if interruption.kind is Kind.SPOT_INTERRUPTION:
            labels = node.node.labels
            if INSTANCE_TYPE in labels and ZONE in labels:
                self._cloud.spot_interrupted(labels[INSTANCE_TYPE], labels[ZONE])
        if interruption.deadline is not None:
            stamp = format_time(interruption.deadline)
            self._annotate(node, DEADLINE_ANNOTATION, stamp)
        if node.node.deleted_at is not None:
            return
        self._publish(node, "Warning", interruption.reason, f"AWS announced it: {interruption.kind.value}")
        self._kube.delete(NODES, node.name, uid=node.node.uid)
        text = f"Deleting node because of {interruption.kind.value}"
        self._publish(node, "Warning", "NodeTerminatingOnInterruption", text)
        self._log.info("Deleted node", node=node.name, because=interruption.kind.value, state=interruption.state)
        reason, owner = f"AWS announced it: {interruption.kind.value}", node.provisioner_name
        self._ledger.record(
            Decision("remove", self.name, f"Node/{node.name}", reason, owner, details=node_details(node))
        )

    def _rebalance(self, interruption: Interruption, node: StateNode) -> None:
        """On a rebalance recommendation, expire the node (replacement first) if its Provisioner asks for that."""
        self._publish(node, "Normal", interruption.reason, "The instance is at an elevated risk of interruption")
        provisioner = self._informers.snapshot().provisioners.get(node.provisioner_name)
        wanted = provisioner is not None and provisioner.disruption.replace_at_risk
        key = V1ALPHA5.keys.voluntary_disruption
        if wanted and not node.leaving and key not in node.node.annotations:
            self._annotate(node, key, EXPIRED)

    def _annotate(self, node: StateNode, key: str, value: str) -> None:
        if node.node.annotations.get(key) != value:
            written = self._kube.patch(NODES, node.name, {"metadata": {"annotations": {key: value}}})
            self._informers.learn(NODES, written)

    def _publish(self, node: StateNode, kind: str, reason: str, message: str) -> None:
        self._events.publish(ObjectRef.of(node.node), kind, reason, message, (node.node.uid,))


def _by_instance(snapshot: Snapshot) -> dict[str, StateNode]:
    """Nodes of ours by the last part of their provider id."""
    owned = (node for node in snapshot.nodes.values() if node.provisioner_name and node.node.provider_id)
    return {node.node.provider_id.rpartition("/")[2]: node for node in owned}
