"""Publish an event on nodes that fail a consistency check, for each node at most every ten minutes."""

from __future__ import annotations

from controller.cloud.catalogs import template_of
from controller.core.api.provisioner import Provisioner
from controller.core.deprovisioning.drift import as_launched
from controller.core.machines.consistency import Issue, issues
from controller.core.state.snapshot import Snapshot, StateNode
from controller.errors import CloudError, ValidationError
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.runtime.metrics import CONSISTENCY_ERRORS

AGAIN_SECONDS = 600.0
"""Between two checks of one node (Karpenter v0.27's value)."""
PAUSE_SECONDS = 60.0


class ConsistencyReconciler(ContextReconciler):
    """Check the nodes of known Provisioners. It reports and changes nothing."""

    name = "consistency"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._checked_at: dict[str, float] = {}
        """When a node was checked last (monotonic seconds), by its uid."""

    def _pass(self, snapshot: Snapshot) -> float:
        """Check the nodes that are due."""
        now = self._clock.monotonic()
        uids = {node.node.uid for node in snapshot.nodes.values()}
        self._checked_at = {uid: at for uid, at in self._checked_at.items() if uid in uids and now - at < AGAIN_SECONDS}
        due = [node for node in snapshot.nodes.values() if node.node.uid not in self._checked_at]
        view = self._catalogs.view(snapshot) if any(node.provisioner_name for node in due) else None
        for node in due:
            provisioner = snapshot.provisioners.get(node.provisioner_name)
            if provisioner is None or view is None or provisioner.name not in view.types:
                continue  # not ours, or its catalog is not known yet: the next pass tries again
            self._checked_at[node.node.uid] = now
            types = view.types[provisioner.name]
            expected = next((each.capacity for each in types if each.name == node.node.instance_type), None)
            same = _as_launched(node, provisioner, snapshot)
            budgets, at = snapshot.budgets.values(), self._clock.now()
            for issue in issues(node, provisioner, expected, budgets, at, as_launched=same):
                self._report(node, issue)
        return PAUSE_SECONDS

    def _report(self, node: StateNode, issue: Issue) -> None:
        dedupe = (node.node.uid, issue.message)
        self._events.publish(ObjectRef.of(node.node), "Warning", "FailedConsistencyCheck", issue.message, dedupe)
        self._recorder.count(CONSISTENCY_ERRORS, issue.check)
        self._log.warning("Consistency check failed", node=node.name, check=issue.check, because=issue.message)


def _as_launched(node: StateNode, provisioner: Provisioner, snapshot: Snapshot) -> bool:
    try:
        return as_launched(node.node, provisioner, template_of(snapshot, provisioner))
    except (CloudError, ValidationError):
        return False  # the Provisioner's condition says why
