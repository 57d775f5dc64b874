"""Prove periodically that the process works on its own cluster; publish an event while it is not proven."""

from __future__ import annotations

from controller.core.state.snapshot import Snapshot
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ReconcilerContext

PROVEN_SECONDS = 60.0
"""Between two checks while the cluster is proven: credentials and responses of the cloud may change."""
DOUBTED_SECONDS = 5.0


class ClusterCheckReconciler:
    """Removals are refused until its first check, and so are launches."""

    name = "clustercheck"

    def __init__(self, context: ReconcilerContext) -> None:
        self._removals, self._events, self._clock = context.removals, context.events, context.clock
        self._due_at = self._clock.monotonic()

    def reconcile(self, snapshot: Snapshot) -> float:
        """Check when it is due, or while there are doubts; changes of the cluster in between do nothing."""
        if not snapshot.synced:
            return 1.0
        now = self._clock.monotonic()
        if now < self._due_at:
            return self._due_at - now
        proof = self._removals.check(snapshot)
        if not proof.proven:
            for provisioner in snapshot.provisioners.values():
                message = f"No node is removed: {proof.because} ({proof.standing.value})"
                dedupe = (provisioner.uid, proof.because)
                self._events.publish(ObjectRef.of(provisioner), "Warning", "RemovalsRefused", message, dedupe)
        seconds = PROVEN_SECONDS if proof.proven else DOUBTED_SECONDS
        self._due_at = self._clock.monotonic() + seconds
        return seconds
