"""Detect loops of pods that fill their node's disk, are evicted and are created again, by their owner.

A kubelet under disk pressure evicts pods (Kubernetes, "Node-pressure eviction"); their owner creates new ones, which
fill the same disk. A single eviction is no loop. When a pod that did not exist at the first eviction is evicted too, it
is one, and the nodes tried so far are known to be too small, independent of what the pod requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import OwnerReference, Pod

STORAGE = "ephemeral-storage"
MAX_OWNERS = 1000
"""Owners remembered; the oldest is dropped first."""


@dataclass(frozen=True, slots=True)
class StorageLoop:
    """An owner whose pods were evicted for storage again and again."""

    namespace: str
    owner: OwnerReference
    rounds: int
    node: str
    """The last node, and the Provisioner that it was of."""
    provisioner: str
    allocatable_bytes: int
    """Ephemeral storage of the largest node that was too small."""
    declared_bytes: int
    """Ephemeral storage that a pod requests."""


@dataclass(frozen=True, slots=True)
class _Record:
    loop: StorageLoop
    known: frozenset[str]
    """Uids of the owner's pods at the last eviction: their evictions are of the same round."""


class StorageEvictions:
    """Record evictions, in memory: a restarted process detects a loop in its next round."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._loops: Mapping[str, StorageLoop] = EMPTY

    @property
    def loops(self) -> Mapping[str, StorageLoop]:
        """Loops by the owner's uid; the same object until one changes."""
        return self._loops

    def note(self, pod: Pod, siblings: Iterable[str], provisioner: str, allocatable_bytes: int) -> bool:
        """Record a pod evicted for storage. Returns whether a loop is new or changed.

        `siblings` are the uids of its owner's pods. Pods without an owner are ignored, since nothing recreates them;
        changed requests start a new count.
        """
        if not pod.owners or pod.daemon or allocatable_bytes <= 0:
            return False
        owner, declared = pod.owners[0], pod.spec.requests.get(STORAGE, 0)
        known = frozenset({pod.uid, *siblings})
        record = self._records.get(owner.uid)
        if record is None or record.loop.declared_bytes != declared:
            first = StorageLoop(pod.namespace, owner, 1, pod.node_name, provisioner, allocatable_bytes, declared)
            return self._keep(_Record(first, known))
        if pod.uid in record.known:
            return False
        again = replace(
            record.loop,
            rounds=record.loop.rounds + 1,
            node=pod.node_name,
            provisioner=provisioner,
            allocatable_bytes=max(record.loop.allocatable_bytes, allocatable_bytes),
        )
        return self._keep(_Record(again, record.known | known))

    def _keep(self, record: _Record) -> bool:
        uid = record.loop.owner.uid
        self._records.pop(uid, None)
        self._records[uid] = record
        while len(self._records) > MAX_OWNERS:
            del self._records[next(iter(self._records))]
        loops = {uid: one.loop for uid, one in sorted(self._records.items()) if one.loop.rounds > 1}
        changed = loops != self._loops
        if changed:
            self._loops = FrozenMap(loops)
        return changed
