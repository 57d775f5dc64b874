"""Write the capacity of each Provisioner's nodes to its status.resources."""

from __future__ import annotations

import structlog

from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import format_quantity
from controller.core.machines.provisioner_limits import usage
from controller.core.state.snapshot import Snapshot
from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.resources import PROVISIONERS
from controller.reconcilers.context import ReconcilerContext
from controller.runtime.loops import ItemBackoff


class CounterReconciler:
    """Write status.resources of the Provisioners, against which limits are checked."""

    name = "counter"

    def __init__(self, context: ReconcilerContext) -> None:
        self._kube, self._informers = context.kube, context.informers
        self._log = structlog.get_logger(self.name)
        self._provisioners = ItemBackoff(context.clock, self.name)

    def reconcile(self, snapshot: Snapshot) -> float:
        """Write the sums that changed. Not before the caches are synced: a partial sum would understate usage."""
        if not snapshot.synced:
            return 1.0
        self._provisioners.keep(set(snapshot.provisioners))
        for name, provisioner in snapshot.provisioners.items():
            if self._provisioners.ready(name):
                self._count(snapshot, provisioner)
        return self._provisioners.next_try_seconds()

    def _count(self, snapshot: Snapshot, provisioner: Provisioner) -> None:
        used = usage(snapshot, provisioner.name)
        if used == provisioner.status_resources:
            return
        resources: dict[str, str | None] = {name: format_quantity(name, amount) for name, amount in used.items()}
        resources |= {name: None for name in provisioner.status_resources if name not in used}
        patch = {"status": {"resources": resources}}
        try:
            written = self._kube.patch(PROVISIONERS, provisioner.name, patch, subresource="status")
        except (NotFoundError, ConflictError) as error:
            self._log.debug("Provisioner changed meanwhile", provisioner=provisioner.name, error=str(error))
            return
        except KubeError as error:
            self._provisioners.failed(
                provisioner.name, error, "Status could not be written", provisioner=provisioner.name
            )
            return
        self._provisioners.succeeded(provisioner.name)
        self._informers.learn(PROVISIONERS, written)
