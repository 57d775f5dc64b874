"""Memory of instance types learned from joined nodes.

EC2 states a type's nominal memory; the kubelet sees less, by an overhead of hypervisor, firmware and kernel (2 to 8 %).
Karpenter v0.27 subtracts 7.5 % for all types, which wastes memory on most and overcommits a few. Nodes of one type and
image have the same memory, so the first that joins replaces the flat share (`vmMemoryOverheadPercent`). Of what a
kubelet writes only the number is used: the node's owner, type and image are read from EC2.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from controller.core.api import labels as keys
from controller.core.api.node import Node
from controller.core.cloud import CloudInstance

_log = structlog.get_logger("memory")

MAX_DIGITS: Final = 19
LEAST_SHARE: Final = 0.85
LEAST_LOSS_BYTES: Final = 256 * 2**20
"""A node has at most the nominal memory, and at least this share of it less this much: kubelets write their own Nodes,
and a compromised one must not change what plans expect of all nodes of its type."""

MOST_IMPLAUSIBLE: Final = 10_000
"""Nodes remembered for it; then all are forgotten, and logged once more."""


@dataclass(frozen=True, slots=True)
class MeasuredMemory:
    """Bytes of memory that a Node reports; instance type and image are EC2's."""

    node_name: str
    instance_type: str
    image_id: str
    memory: int


def measured(nodes: Iterable[Node], owned: Iterable[CloudInstance]) -> Iterator[MeasuredMemory]:
    """Yield what the Nodes of `owned` instances report."""
    by_id = {instance.provider_id: instance for instance in owned if instance.provider_id}
    for node in nodes:
        instance = by_id.get(node.provider_id)
        if instance is not None:
            memory = node.capacity.get("memory", 0)
            yield MeasuredMemory(node.name, instance.instance_type, instance.image_id, memory)


def plausible(memory: int, nominal: int) -> bool:
    """Return whether a node of that nominal memory may have so many bytes."""
    return nominal * LEAST_SHARE - LEAST_LOSS_BYTES <= memory <= nominal and memory > 0


class LearnedMemory:
    """Bytes of memory by instance type and image. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: dict[tuple[str, str], int] = {}
        self._implausible: dict[str, int] = {}
        """By node, the implausible bytes that it reported: it is not asked about again, and logged once."""
        self._version = 0

    @property
    def version(self) -> int:
        """Changes with every change of the content."""
        return self._version

    def learn(self, measured: Iterable[MeasuredMemory], nominal: Mapping[str, int]) -> bool:
        """Learn what nodes have; returns whether anything changed. Of plausible measurements the smallest counts.

        `nominal`: bytes that EC2 states, by instance type; nothing is learned of others.
        """
        with self._lock:
            before = dict(self._bytes)
            for each in measured:
                key, stated = (each.instance_type, each.image_id), nominal.get(each.instance_type, 0)
                if not plausible(each.memory, stated):
                    self._refuse(each, stated)
                    continue
                known = self._bytes.get(key, each.memory)
                self._bytes[key] = min(each.memory, known) if plausible(known, stated) else each.memory
            changed = self._bytes != before
            self._version += changed
            return changed

    def _refuse(self, report: MeasuredMemory, stated: int) -> None:
        if self._implausible.get(report.node_name) == report.memory:
            return
        if len(self._implausible) >= MOST_IMPLAUSIBLE:
            self._implausible.clear()
        self._implausible[report.node_name] = report.memory
        _log.warning(
            "Node reports an implausible memory; nothing is learned from it",
            node=report.node_name,
            instance_type=report.instance_type,
            memory=report.memory,
            nominal=stated,
        )

    def may_teach(self, node: Node) -> bool:
        """Return whether EC2 is worth asking about an initialized node, since it may report something new."""
        memory = node.capacity.get("memory", 0)
        if self._implausible.get(node.name) == memory:
            return False
        known = self._bytes.get((node.labels.get(keys.INSTANCE_TYPE, ""), node.labels.get(keys.INSTANCE_AMI_ID, "")))
        return memory > 0 and node.labels.get(keys.INITIALIZED) == "true" and (known is None or memory < known)

    def of(self, instance_type: str, image_id: str, nominal: int) -> int | None:
        """Return the bytes of memory of such a node; None while none has joined, and where the entry is implausible.

        `nominal`: bytes that EC2 states for the type.
        """
        memory = self._bytes.get((instance_type, image_id))
        return memory if memory is not None and plausible(memory, nominal) else None

    def document(self) -> dict[str, str]:
        """Return all that was learned, as the data of a ConfigMap: TYPE_IMAGE → bytes."""
        with self._lock:
            return {f"{name}_{image}": str(memory) for (name, image), memory in sorted(self._bytes.items())}

    def restore(self, document: Mapping[str, str]) -> None:
        """Add what an earlier process learned. Entries that cannot be read are left out."""
        with self._lock:
            for key, text in document.items():
                name, _, image = key.partition("_")
                if name and image and text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS:
                    self._bytes.setdefault((name, image), int(text))
            self._version += 1
