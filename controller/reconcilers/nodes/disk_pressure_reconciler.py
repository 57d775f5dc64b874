"""Warn once, with the remedy, about pods that are evicted for disk pressure and replaced in a loop."""

from __future__ import annotations

from controller.core.api.pod import Pod
from controller.core.machines.disk_pressure import cure, loop_of
from controller.core.state.evictions import StorageLoop
from controller.core.state.snapshot import Snapshot
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

PAUSE_SECONDS = 60.0


class DiskPressureReconciler(ContextReconciler):
    """Report the storage loops of the snapshot; provisioning launches no further nodes for them."""

    name = "diskpressure"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._logged: set[tuple[str, int]] = set()
        """(owner uid, allocatable bytes of the disk)."""
        self._published: set[str] = set()

    def reconcile(self, snapshot: Snapshot) -> float:
        """Log each owner and disk size once; publish an event on each of its pending pods."""
        loops = snapshot.storage_loops
        self._logged = {(uid, size) for uid, size in self._logged if uid in loops}
        for uid, loop in loops.items():
            if (uid, loop.allocatable_bytes) not in self._logged:
                self._logged.add((uid, loop.allocatable_bytes))
                self._log.warning(
                    "Pods fill the disk of their node in a loop",
                    owner=f"{loop.owner.kind} {loop.namespace}/{loop.owner.name}",
                    node=loop.node,
                    provisioner=loop.provisioner,
                    cure=cure(loop, snapshot),
                )
        self._publish(snapshot)
        return PAUSE_SECONDS

    def _publish(self, snapshot: Snapshot) -> None:
        waiting = {pod.uid: (pod, loop) for pod, loop in _waiting(snapshot)} if snapshot.storage_loops else {}
        for uid, (pod, loop) in waiting.items():
            if uid not in self._published:
                message = cure(loop, snapshot)
                self._events.publish(ObjectRef.of(pod), "Warning", "DiskPressureLoop", message, (pod.uid,))
        self._published = set(waiting)


def _waiting(snapshot: Snapshot) -> list[tuple[Pod, StorageLoop]]:
    return [
        (pod, loop)
        for pod in snapshot.pods.values()
        if not pod.node_name and not pod.terminal and (loop := loop_of(snapshot, pod)) is not None
    ]
