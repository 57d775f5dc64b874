"""Keep the memory learned from joined nodes in a ConfigMap, so that the next process knows it at once."""

from __future__ import annotations

from typing import Any

import structlog

from controller.core.cloud import CloudProvider
from controller.core.state.snapshot import Snapshot
from controller.errors import AlreadyExistsError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import CONFIG_MAPS

CONFIG_MAP = "karpenter-learned-memory"
PAUSE_SECONDS = 30.0
"""Between two passes at most: nothing waits for it."""


class MemoryReconciler:
    """Learn from initialized nodes. The ConfigMap is read before it is written: successive leaders only add to it."""

    name = "memory"

    def __init__(self, *, kube: KubeClient, namespace: str, cloud: CloudProvider) -> None:
        self._kube = kube
        self._namespace = namespace
        self._cloud = cloud
        self._written: dict[str, str] | None = None
        """The ConfigMap's data as last read or written; None: not read yet."""
        self._log = structlog.get_logger(self.name)

    def reconcile(self, snapshot: Snapshot) -> float:
        """Learn, and write what is new. Raises KubeError; what was learned is written in a later pass."""
        if not snapshot.synced:
            return 1.0
        if self._written is None:
            self._written = self._read()
            self._cloud.restore_memory(self._written)
        document = dict(self._cloud.learn_memory(node.node for node in snapshot.nodes.values()))
        if document != self._written:
            self._write(document)
            self._written = document
            self._log.info("Learned the memory of instance types", known=len(document))
        return PAUSE_SECONDS

    def _read(self) -> dict[str, str]:
        try:
            data: Any = self._kube.get(CONFIG_MAPS, CONFIG_MAP, self._namespace).get("data")
        except NotFoundError:
            return {}
        return {str(key): str(value) for key, value in (data or {}).items()}

    def _write(self, document: dict[str, str]) -> None:
        made = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": self._namespace},
            "data": document,
        }
        if not self._written:
            try:
                self._kube.create(CONFIG_MAPS, made, self._namespace)
            except AlreadyExistsError:
                self._log.debug("ConfigMap of learned memory exists", name=CONFIG_MAP)
            else:
                return
        try:
            self._kube.patch(CONFIG_MAPS, CONFIG_MAP, {"data": document}, namespace=self._namespace)
        except NotFoundError:
            self._written = {}  # somebody deleted it: the next pass creates it again
            raise
