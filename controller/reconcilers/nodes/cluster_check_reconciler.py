"""Prove periodically that the process works on its own cluster; publish an event while it is not proven."""

from __future__ import annotations

from controller.core.state.snapshot import Snapshot
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ContextReconciler

PROVEN_SECONDS = 60.0
"""Between two checks while the cluster is proven: credentials and responses of the cloud may change."""
DOUBTED_SECONDS = 5.0


class ClusterCheckReconciler(ContextReconciler):
    """Removals are refused until its first check, and so are launches."""

    name = "clustercheck"

    def _pass(self, snapshot: Snapshot) -> float:
        """Check when it is due, or while there are doubts; changes of the cluster in between do nothing."""
        if (left := self._left_seconds()) > 0:
            return left
        proof = self._removals.check(snapshot)
        if not proof.proven:
            for provisioner in snapshot.provisioners.values():
                message = f"No node is removed: {proof.because} ({proof.standing.value})"
                dedupe = (provisioner.uid, proof.because)
                self._events.publish(ObjectRef.of(provisioner), "Warning", "RemovalsRefused", message, dedupe)
        return self._due_in(PROVEN_SECONDS if proof.proven else DOUBTED_SECONDS)
