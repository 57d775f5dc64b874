"""Write resources and cost of each Provisioner's nodes to its status: for limits, and `kubectl get provisioners`."""

from __future__ import annotations

from typing import Any

from controller.core.api.frozen import EMPTY
from controller.core.api.pod import Resources
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import bare_words, format_quantity, in_words
from controller.core.decisions.fleet_cost import price_per_hour
from controller.core.machines.provisioner_limits import usage
from controller.core.state.snapshot import Snapshot
from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.resources import PROVISIONERS
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

PRICE_SECONDS = 300.0
"""Between two updates of the price of the same nodes."""


class CounterReconciler(ContextReconciler):
    """Write status.resources of the Provisioners, against which limits are checked, and a summary for people."""

    name = "counter"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._summarized: dict[str, tuple[tuple[object, ...], float]] = {}
        """By Provisioner: what its summary was written for, and when (monotonic seconds)."""

    def _pass(self, snapshot: Snapshot) -> float:
        """Write the sums that changed. Not before the caches are synced: a partial sum would understate usage."""
        self._items.keep(set(snapshot.provisioners))
        self._summarized = {name: held for name, held in self._summarized.items() if name in snapshot.provisioners}
        for name, provisioner in snapshot.provisioners.items():
            if self._items.ready(name):
                self._count(snapshot, provisioner)
        return min(PRICE_SECONDS, self._items.next_try_seconds())

    def _count(self, snapshot: Snapshot, provisioner: Provisioner) -> None:
        name, used, now = provisioner.name, usage(snapshot, provisioner.name), self._clock.monotonic()
        counted = provisioner.uid, provisioner.limits, used
        before, at = self._summarized.get(name, ((), 0.0))
        if used == provisioner.status_resources and before == counted and now - at < PRICE_SECONDS:
            return
        resources: dict[str, str | None] = {name: format_quantity(name, amount) for name, amount in used.items()}
        resources |= {name: None for name in provisioner.status_resources if name not in used}
        patch = {"status": {"resources": resources, **self._summary(snapshot, provisioner, used)}}
        try:
            written = self._kube.patch(PROVISIONERS, name, patch, subresource="status")
        except (NotFoundError, ConflictError) as error:
            self._log.debug("Provisioner changed meanwhile", provisioner=name, error=str(error))
            return
        except KubeError as error:
            self._items.failed(name, error, "Status could not be written", provisioner=name)
            return
        self._items.succeeded(name)
        self._summarized[name] = counted, now
        self._informers.learn(PROVISIONERS, written)

    def _summary(self, snapshot: Snapshot, provisioner: Provisioner, used: Resources) -> dict[str, Any]:
        """Return nodes, use of limits and $ an hour, for people; None removes a field."""
        nodes = snapshot.nodes_of(provisioner.name)
        types = self._catalogs.view(snapshot, {provisioner.name}).types if nodes else EMPTY
        price = price_per_hour(nodes, types.get(provisioner.name, ()))
        return {
            "nodes": len(nodes),
            "limitUse": limit_use(provisioner.limits or EMPTY, used) or None,
            "pricePerHour": f"${price:,.2f}" if price else None,
        }


def limit_use(limits: Resources, used: Resources) -> str:
    """Format each limit with its use: 8 of 100 CPU, 32 GiB of 400 GiB memory."""
    return ", ".join(
        f"{bare_words(name, used.get(name, 0))} of {in_words(name, limit)}" for name, limit in limits.items()
    )
