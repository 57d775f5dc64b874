"""Keep the memory learned from joined nodes in a ConfigMap, so that the next process has it at once."""

from __future__ import annotations

from controller.core.state.snapshot import Snapshot
from controller.reconcilers.bookkeeping.stored_record import StoredRecord
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

CONFIG_MAP = "karpenter-learned-memory"
PAUSE_SECONDS = 30.0
"""Between two passes at most: nothing waits for it."""


class MemoryReconciler(ContextReconciler):
    """Learn from initialized nodes. The ConfigMap is read before it is written: successive leaders only add to it."""

    name = "memory"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._record = StoredRecord(context, CONFIG_MAP)
        self._stored: dict[str, str] | None = None
        """The ConfigMap's data as last read or written; None: not read yet."""

    def _pass(self, snapshot: Snapshot) -> float:
        """Learn, and write what is new. Raises KubeError, CloudError; a later pass writes what was learned."""
        if self._stored is None:
            data = self._record.read().get("data") or {}
            self._stored = self._restored({str(key): str(value) for key, value in data.items()})
        learned = dict(self._cloud.learn_memory(node.node for node in snapshot.nodes.values()))
        if learned != self._stored:
            self._record.write(data=learned)
            self._stored = learned
            self._log.info("Learned the memory of instance types", known=len(learned))
        return PAUSE_SECONDS

    def _restored(self, stored: dict[str, str]) -> dict[str, str]:
        """Hand over what is stored; return what of it was taken. The rest stays in the ConfigMap."""
        self._cloud.restore_memory(stored)
        taken = self._cloud.learn_memory(())
        if ignored := sorted(stored.keys() - taken.keys()):
            self._record.unreadable(f"{len(ignored)} entries, the first {ignored[0][:80]!r}", "they are ignored")
        return {key: value for key, value in stored.items() if key in taken}
