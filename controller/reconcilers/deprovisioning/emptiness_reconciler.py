"""Emptiness: nodes with nothing to do are stamped, and deleted when the Provisioner's ttlSecondsAfterEmpty is over.

They pass the gate of every voluntary removal: budgets hold for them too, and a command's replacement that waits for its
pods is not empty for want of use.
"""

from __future__ import annotations

import structlog

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import EMPTINESS_TIMESTAMP, PROVISIONER_NAME
from controller.core.api.timestamps import format_time
from controller.core.decisions.decision import Decision, node_details
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.emptiness import EmptinessAction, EmptinessVerdict, verdict
from controller.core.deprovisioning.gate import NOT_EVENTS, Gate
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.events import ObjectRef
from controller.kube.resources import NODES
from controller.reconcilers.context import ReconcilerContext
from controller.runtime.loops import IDLE_SECONDS, ItemBackoff

MARK_TIMEOUT_SECONDS = 5.0


class EmptinessReconciler:
    """One loop over all nodes of ours. Does nothing before the caches are synced (invariant 5)."""

    name = "emptiness"

    def __init__(self, context: ReconcilerContext) -> None:
        """Until `context.planned` is set no node is called empty: the nominations of an earlier leader are forgotten,
        and which nodes pods and headroom are expected on is not known yet."""
        self._kube, self._informers, self._events = context.kube, context.informers, context.events
        self._clock, self._ledger, self._planned = context.clock, context.ledger, context.planned
        self._settings = context.settings
        self._log = structlog.get_logger(self.name)
        self._nodes = ItemBackoff(self._clock, self.name)

    def reconcile(self, snapshot: Snapshot) -> float:
        """Stamp, clear or delete; the soonest time at which a verdict may change by itself."""
        if not snapshot.synced or not self._planned.is_set():
            return 1.0
        owned = [node for node in snapshot.nodes.values() if PROVISIONER_NAME in node.node.labels]
        self._nodes.keep({node.node.uid for node in owned})
        soonest = IDLE_SECONDS
        gate = Gate(snapshot, self._clock.now(), self._settings.current.disruption_budgets)
        for node in owned:
            decision = verdict(node, snapshot.provisioners.get(node.provisioner_name), self._clock.now())
            if decision.requeue_seconds > 0:
                soonest = min(soonest, decision.requeue_seconds)
            if decision.action is EmptinessAction.KEEP or not self._nodes.ready(node.node.uid):
                continue
            if decision.action is EmptinessAction.SET and gate.engaged(node):
                continue  # it waits for the pods of the nodes that it replaces
            if decision.action is not EmptinessAction.DELETE or self._granted(node, snapshot, gate):
                self._act(node, decision)
        return max(0.1, min(soonest, self._nodes.next_try_seconds()))

    def _granted(self, node: StateNode, snapshot: Snapshot, gate: Gate) -> bool:
        """Whether the node may go; a refusal that does not pass by itself is said."""
        found = candidates(snapshot, EMPTY, self._clock.now(), [node])
        refusal = next((gate.refusal(c) or gate.over_budget([c], "empty") for c in found), None)
        if refusal is None:
            gate.grant(found)
            return True
        if refusal.kind not in NOT_EVENTS:
            message = f"Cannot be removed: {refusal.reason}"
            dedupe = (node.node.uid, refusal.reason)
            self._events.publish(ObjectRef.of(node.node), "Normal", "DeprovisioningBlocked", message, dedupe)
        return False

    def _act(self, node: StateNode, decision: EmptinessVerdict) -> None:
        try:
            if decision.action is EmptinessAction.DELETE:
                self._delete(node, decision.reason)
            else:
                self._annotate(node, decision)
        except (NotFoundError, ConflictError) as error:
            self._log.debug("Node changed meanwhile", node=node.name, error=str(error))
        except KubeError as error:
            self._nodes.failed(node.node.uid, error, "Emptiness could not be written", node=node.name)
        else:
            self._nodes.succeeded(node.node.uid)

    def _annotate(self, node: StateNode, decision: EmptinessVerdict) -> None:
        stamp = format_time(self._clock.now()) if decision.action is EmptinessAction.SET else None
        written = self._kube.patch(NODES, node.name, {"metadata": {"annotations": {EMPTINESS_TIMESTAMP: stamp}}})
        self._informers.learn(NODES, written)
        message = "Added emptiness timestamp" if stamp else "Removed emptiness timestamp"
        self._log.info(message, node=node.name, because=decision.reason)

    def _delete(self, node: StateNode, reason: str) -> None:
        if not self._mark(node.name):
            return
        message = f"Deleting node: {reason}"
        self._events.publish(ObjectRef.of(node.node), "Normal", "DeprovisioningTerminating", message, (node.node.uid,))
        try:
            self._kube.delete(NODES, node.name, uid=node.node.uid)
        except KubeError:
            self._informers.submit(lambda cluster: cluster.unmark([node.name]))
            raise
        self._log.info("Deleted empty node", node=node.name, because=reason)
        owner, details = node.provisioner_name, node_details(node)
        self._ledger.record(
            Decision("remove", self.name, f"Node/{node.name}", reason, owner, action="delete", details=details)
        )

    def _mark(self, name: str) -> bool:
        """Mark it in the thread that owns the state, if the verdict still holds there: a nomination may have come."""

        def decide(cluster: Cluster) -> None:
            present = cluster.snapshot()
            node = present.nodes.get(name)
            if node is None:
                return
            decision = verdict(node, present.provisioners.get(node.provisioner_name), self._clock.now())
            if decision.action is EmptinessAction.DELETE:
                cluster.mark_for_deletion([name])

        after = self._informers.submit(decide).result(MARK_TIMEOUT_SECONDS)
        return name in after.nodes and after.nodes[name].marked_for_deletion
