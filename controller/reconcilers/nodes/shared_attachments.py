"""One list of VolumeAttachments for all nodes of a pass.

The API has no selector by node: the list for one node is the list of all of them, and hundreds of nodes may leave at
once. A list that is a pass old errs towards waiting: a volume that it shows may be detached by now.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from controller.errors import KubeError
from controller.kube.client import KubeClient
from controller.kube.resources import VOLUME_ATTACHMENTS
from controller.runtime.executors import Lock


class Attachments:
    """VolumeAttachments, listed once for all nodes that ask, when the first of them does. Thread-safe."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._lock = Lock()
        self._by_node: dict[str, list[Mapping[str, Any]]] | None = None
        self._error: KubeError | None = None

    def of(self, node_name: str) -> Sequence[Mapping[str, Any]]:
        """Return those of one node. Raises KubeError, to every caller, if they cannot be listed."""
        with self._lock:
            if self._by_node is None and self._error is None:
                self._list()
            if self._by_node is None:
                assert self._error is not None
                raise copy.copy(self._error)  # threads must not share a traceback
            return self._by_node.get(node_name, ())

    def _list(self) -> None:
        try:
            documents = self._kube.list(VOLUME_ATTACHMENTS)
        except KubeError as error:
            self._error = error
            return
        self._by_node = {}
        for each in documents:
            self._by_node.setdefault(str((each.get("spec") or {}).get("nodeName")), []).append(each)
