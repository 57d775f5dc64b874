"""Events on Nodes about their removal."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.method import Proposal
from controller.core.deprovisioning.records import Record
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import StateNode
from controller.kube.events import EventRecorder, ObjectRef


class RemovalEvents:
    """Publish the events. Thread-safe except for `proposed`, which one loop calls."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._kept: dict[str, str] = {}
        """Why a node stays, as last published, by the node's uid."""

    def proposed(self, proposal: Proposal, candidates: Iterable[Candidate]) -> None:
        """Publish what blocks nodes from removal, and, when it changes, why the other `candidates` stay."""
        for candidate, reason in proposal.blocked:
            self._publish(candidate.node, "Normal", "DeprovisioningBlocked", f"Cannot be removed: {reason}", reason)
        uids = {candidate.node.node.uid for candidate in candidates}
        self._kept = {uid: reason for uid, reason in self._kept.items() if uid in uids}
        for candidate, reason in proposal.kept:
            uid = candidate.node.node.uid
            if self._kept.get(uid) != reason:
                self._kept[uid] = reason
                self._publish(candidate.node, "Normal", "Unconsolidatable", reason, reason)

    def launched(self, replacement: StateNode, what: str, text: str) -> None:
        """The node was launched for the command that `text` describes; `what`: its offering, in words."""
        self._publish(replacement, "Normal", "Launched", f"{what}, to {text}")
        self._publish(replacement, "Normal", "DeprovisioningLaunching", f"Launched to {text}")

    def waiting_for_readiness(self, replacement: StateNode, record: Record) -> None:
        """A replacement is not initialized yet."""
        message = f"Waits until the node is initialized; then {', '.join(record.nodes)} will go"
        self._publish(replacement, "Normal", "DeprovisioningWaitingReadiness", message)

    def waiting_for_deletion(self, nodes: Iterable[StateNode]) -> None:
        """The nodes are being drained."""
        for node in nodes:
            message = f"Waits until the node is gone; {len(leaving_pods(node))} pods are still to be moved"
            self._publish(node, "Normal", "DeprovisioningWaitingDeletion", message)

    def deleted(self, node: StateNode, message: str) -> None:
        """The node's deletion was requested."""
        self._publish(node, "Normal", "DeprovisioningTerminating", message)

    def rolled_back(self, node: StateNode, record: Record, because: str) -> None:
        """The node is not removed after all."""
        message = f"Not removed ({record.method}: {record.reason}): {because}"
        self._publish(node, "Warning", "DeprovisioningFailed", message)

    def plan_ended(self, node: StateNode, because: str) -> None:
        """The node stays although its removal by a rebalance was approved."""
        message = f"Not removed by the approved rebalance, which has ended: {because}"
        self._publish(node, "Warning", "RebalanceEnded", message, because)

    def _publish(self, node: StateNode, kind: str, reason: str, message: str, *dedupe: str) -> None:
        self._events.publish(ObjectRef.of(node.node), kind, reason, message, (node.node.uid, *dedupe))
