"""Break the loop of pods that fill a node's disk: no further node of that size is launched or nominated for them.

The pods are planned as if they requested more ephemeral storage than the largest node that was too small. Once a larger
disk is configured, the next plan places them.
"""

from __future__ import annotations

from dataclasses import replace

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod, PodSpec
from controller.core.api.quantity import format_quantity
from controller.core.state.evictions import STORAGE, StorageLoop
from controller.core.state.snapshot import Snapshot


def loop_of(snapshot: Snapshot, pod: Pod) -> StorageLoop | None:
    """Return the loop that the pod would continue: its owner's, while it requests what the evicted pods did."""
    loop = snapshot.storage_loops.get(pod.owners[0].uid) if pod.owners else None
    return loop if loop is not None and pod.spec.requests.get(STORAGE, 0) == loop.declared_bytes else None


def with_learned_storage(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot in which waiting pods of a loop request one byte more than what was too little."""
    if not snapshot.storage_loops:
        return snapshot
    specs: dict[PodSpec, PodSpec] = {}
    changed: dict[tuple[str, str], Pod] = {}
    for pod in snapshot.unbound:
        if (loop := loop_of(snapshot, pod)) is not None:
            requests = FrozenMap({**pod.spec.requests, STORAGE: loop.allocatable_bytes + 1})
            spec = specs.setdefault(pod.spec, replace(pod.spec, requests=requests))
            changed[pod.key] = replace(pod, spec=spec)
    return replace(snapshot, pods=FrozenMap({**snapshot.pods, **changed})) if changed else snapshot


def cure(loop: StorageLoop, snapshot: Snapshot) -> str:
    """Describe the loop and its remedy, in one sentence for the user."""
    provisioner = snapshot.provisioners.get(loop.provisioner)
    template = provisioner.provider_ref if provisioner is not None else None
    where = f"AWSNodeTemplate {template}" if template else f"the node template of Provisioner {loop.provisioner}"
    size = format_quantity(STORAGE, loop.allocatable_bytes)
    request = "request as much ephemeral-storage as the pod uses"
    return (
        f"Pods of {loop.owner.kind} {loop.namespace}/{loop.owner.name} filled the disk of their node and were evicted, "
        f"{loop.rounds} times in a row (last: {loop.node}, {size} of ephemeral-storage); no further node of that size "
        f"is launched for them: raise ebs.volumeSize in spec.blockDeviceMappings of {where}, and {request}"
    )
