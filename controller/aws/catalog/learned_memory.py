"""Memory of instance types learned from joined nodes.

EC2 states a type's nominal memory; the kubelet sees less, by an overhead of hypervisor, firmware and kernel (2 to 8 %).
Karpenter v0.27 subtracts 7.5 % for all types, which wastes memory on most and overcommits a few. Nodes of one type and
image have the same memory, so the first that joins replaces the flat share (`vmMemoryOverheadPercent`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from controller.core.api import labels as keys
from controller.core.api.node import Node


class LearnedMemory:
    """Bytes of memory by instance type and image. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: dict[tuple[str, str], int] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """Changes with every change of the content."""
        return self._version

    def learn(self, nodes: Iterable[Node]) -> bool:
        """Learn from the capacity of initialized nodes; returns whether anything changed. The smallest node counts."""
        with self._lock:
            before = dict(self._bytes)
            for node in nodes:
                key = (node.labels.get(keys.INSTANCE_TYPE, ""), node.labels.get(keys.INSTANCE_AMI_ID, ""))
                memory = node.capacity.get("memory", 0)
                if all(key) and memory > 0 and node.labels.get(keys.INITIALIZED) == "true":
                    self._bytes[key] = min(memory, self._bytes.get(key, memory))
            changed = self._bytes != before
            self._version += changed
            return changed

    def of(self, instance_type: str, image_id: str) -> int | None:
        """Bytes of memory of such a node; None while none has joined."""
        return self._bytes.get((instance_type, image_id))

    def document(self) -> dict[str, str]:
        """All that was learned, as the data of a ConfigMap: TYPE_IMAGE → bytes."""
        with self._lock:
            return {f"{name}_{image}": str(memory) for (name, image), memory in sorted(self._bytes.items())}

    def restore(self, document: Mapping[str, str]) -> None:
        """Add what an earlier process learned. Entries that cannot be read are left out."""
        with self._lock:
            for key, text in document.items():
                name, _, image = key.partition("_")
                if name and image and text.isdecimal():
                    self._bytes.setdefault((name, image), int(text))
            self._version += 1
