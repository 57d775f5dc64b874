"""The provisioning loop under test, with a short batch window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.core.provisioning.batch_window import BatchTimes
from controller.core.state.snapshot import Snapshot
from controller.kube.resources import PROVISIONERS
from controller.reconcilers.provisioning.provisioning_reconciler import ProvisioningReconciler, ProvisioningTimes
from controller.runtime.loops import BackoffTimes
from tests.reconcilers.conftest import World

BIG = {"requests": {"cpu": "1500m"}}
HOST_APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
QUICK = BatchTimes(0.05, 0.5, 5.0)


def reconciler(
    world: World, batch: BatchTimes = QUICK, *, hold_back: BackoffTimes | None = None, **context: Any
) -> ProvisioningReconciler:
    """`context`: parts of the ReconcilerContext in place of the world's."""
    made_with = replace(world.context, **{"planned": world.planned, **context})
    set_batch_times(world, batch)
    times = ProvisioningTimes(batch.retrigger_seconds)
    return ProvisioningReconciler(made_with, replace(times, hold_back=hold_back) if hold_back else times)


def set_batch_times(world: World, batch: BatchTimes) -> None:
    world.change_settings(batch_idle_duration_seconds=batch.idle_seconds, batch_max_duration_seconds=batch.max_seconds)


def nodes_are(count: int) -> Any:
    return lambda snapshot: len(snapshot.nodes) == count


def launched(world: World, count: int) -> Any:
    """So many Nodes are there, and their launches have ended: they are logged and on record too."""
    return lambda snapshot: len(snapshot.nodes) == count and not world.context.planning.launching


def settled_passes(world: World, loop: ProvisioningReconciler, seconds: float = 1.0) -> Snapshot:
    """Passes for a while, to see that nothing more happens."""
    end = world.clock.monotonic() + seconds
    while world.clock.monotonic() < end:
        loop.reconcile(world.informers.snapshot())
        world.clock.wait(world.stop, 0.02)
    return world.informers.snapshot()


def annotate(world: World, name: str, **annotations: str) -> None:
    written = {f"karpenter.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    world.kube.patch(PROVISIONERS, name, {"metadata": {"annotations": written}})
    world.until(lambda s: written.items() <= s.provisioners[name].object_annotations.items(), "annotated")
