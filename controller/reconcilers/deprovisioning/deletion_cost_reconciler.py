"""Write pod deletion costs, so that scale-ins empty the nodes that consolidation would empty."""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.scale_in.deletion_costs import CostChange, changes, removals
from controller.core.deprovisioning.scale_in.emptying_order import emptying_order
from controller.core.state.snapshot import Snapshot
from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.resources import PODS
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.runtime.metrics import DELETION_COSTS_WRITTEN

PASS_SECONDS = 20.0
MOST_WRITES = 100
"""Limit for one pass."""
MOST_FAILURES = 5
"""Failed writes after which a pass ends: the others would fail as well."""


class DeletionCostReconciler(ContextReconciler):
    """One pass in PASS_SECONDS, with at most MOST_WRITES. With the setting off, costs that were written are removed."""

    name = "deletioncost"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._stop = context.stop

    def _pass(self, snapshot: Snapshot) -> float:
        """Write the most important changes; return the seconds until the next pass."""
        if (left := self._left_seconds()) > 0:
            return left
        self._due_in(PASS_SECONDS)
        self._write(self._changes(snapshot))
        return PASS_SECONDS

    def _changes(self, snapshot: Snapshot) -> Sequence[CostChange]:
        self._items.keep({pod.uid for pod in snapshot.pods.values()})
        if not self._settings.current.pod_deletion_cost:
            return removals(snapshot)
        view, now = self._catalogs.view(snapshot), self._clock.now()
        beside = self._settings.current.solve_options().beside
        order = emptying_order(candidates(snapshot, view.types, now, beside=beside), Gate(snapshot, now))

        def known(change: CostChange) -> bool:
            """Return False where a cost would be removed only because prices cannot be read at the moment."""
            node = snapshot.nodes.get(change.pod.node_name)
            return change.cost is not None or node is None or node.provisioner_name not in view.problems

        return [each for each in changes(snapshot, [node.name for node in order], now) if known(each)]

    def _write(self, wanted: Sequence[CostChange]) -> None:
        written, failed = {"write": 0, "remove": 0}, 0
        for change in [each for each in wanted if self._items.ready(each.pod.uid)][:MOST_WRITES]:
            if self._stop.is_set() or failed >= MOST_FAILURES:
                break
            try:
                done = self._patch(change)
            except KubeError as error:
                failed += 1
                pod = change.pod
                self._items.failed(pod.uid, error, "Pod deletion cost not written", pod=pod.full_name)
                continue
            self._items.succeeded(change.pod.uid)
            written["remove" if change.cost is None else "write"] += done
        for action, count in written.items():
            self._recorder.count(DELETION_COSTS_WRITTEN, action, amount=count)
        if any(written.values()):
            self._log.info("Pod deletion costs written", written=written["write"], removed=written["remove"])

    def _patch(self, change: CostChange) -> bool:
        """Write both annotations at once; False when the pod is gone or has changed since. Raises KubeError."""
        pod = change.pod
        metadata = {"annotations": change.annotations, "uid": pod.uid, "resourceVersion": pod.resource_version}
        try:
            answer = self._kube.patch(PODS, pod.name, {"metadata": metadata}, namespace=pod.namespace)
        except (NotFoundError, ConflictError):
            return False
        self._informers.learn(PODS, answer)
        return True
