"""Keep the memory learned from joined nodes in a ConfigMap, so that the next process has it at once."""

from __future__ import annotations

import structlog

from controller.core.state.snapshot import Snapshot
from controller.kube.config_maps import read_config_map, write_config_map
from controller.reconcilers.context import ReconcilerContext

CONFIG_MAP = "karpenter-learned-memory"
PAUSE_SECONDS = 30.0
"""Between two passes at most: nothing waits for it."""


class MemoryReconciler:
    """Learn from initialized nodes. The ConfigMap is read before it is written: successive leaders only add to it."""

    name = "memory"

    def __init__(self, context: ReconcilerContext) -> None:
        self._kube, self._namespace, self._cloud = context.kube, context.namespace, context.cloud
        self._stored: dict[str, str] | None = None
        """The ConfigMap's data as last read or written; None: not read yet."""
        self._log = structlog.get_logger(self.name)

    def reconcile(self, snapshot: Snapshot) -> float:
        """Learn, and write what is new. Raises KubeError, CloudError; a later pass writes what was learned."""
        if not snapshot.synced:
            return 1.0
        if self._stored is None:
            data = read_config_map(self._kube, self._namespace, CONFIG_MAP).get("data") or {}
            self._stored = {str(key): str(value) for key, value in data.items()}
            self._cloud.restore_memory(self._stored)
        learned = dict(self._cloud.learn_memory(node.node for node in snapshot.nodes.values()))
        if learned != self._stored:
            write_config_map(self._kube, self._namespace, CONFIG_MAP, data=learned)
            self._stored = learned
            self._log.info("Learned the memory of instance types", known=len(learned))
        return PAUSE_SECONDS
