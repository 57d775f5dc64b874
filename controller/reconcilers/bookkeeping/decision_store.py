"""Keep the decision ledger in a ConfigMap, so that the next leader still has it."""

from __future__ import annotations

import base64
import binascii

from controller.core.state.snapshot import Snapshot
from controller.reconcilers.bookkeeping.stored_record import StoredRecord
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

CONFIG_MAP = "karpenter-decisions"
KEY = "decisions.jsonl.gz"
PAUSE_SECONDS = 30.0
"""Between two writes. A decision that a crash loses is still in the log."""
FIRST_SECONDS = 2.0
"""Until the first write after a time without decisions."""


class DecisionsReconciler(ContextReconciler):
    """Read the ConfigMap once, then write new decisions."""

    name = "decisions"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._record = StoredRecord(context, CONFIG_MAP)
        self._written: int | None = None
        """The ledger's version as last read or written; None: not read yet."""
        self._due_in(FIRST_SECONDS)

    def reconcile(self, _snapshot: Snapshot) -> float:
        """Read the ConfigMap, or write what is new when it is due. Raises KubeError; the next pass tries again."""
        if self._written is None:
            self._restore()
            self._written = self._ledger.version
        if (left := self._left_seconds()) > 0:
            return left
        version = self._ledger.version
        if version == self._written:
            return FIRST_SECONDS
        data = {KEY: base64.b64encode(self._ledger.compact()).decode()}
        self._record.write(binaryData=data)
        self._written = version
        return self._due_in(PAUSE_SECONDS)

    def flush(self) -> None:
        """Write what is new at once, before the lease is released. Raises KubeError."""
        if self._written is not None and self._ledger.version != self._written:
            self._due_at = self._clock.monotonic()
            self.reconcile(Snapshot())

    def _restore(self) -> None:
        data = self._record.read().get("binaryData") or {}
        try:
            packed = base64.b64decode(str(data.get(KEY, "")), validate=True)
        except binascii.Error as error:
            packed = b""
            self._record.unreadable(f"is not base64: {error}", "a new record begins")
        restored = self._ledger.restore(packed)
        self._log.debug("Read the decisions on record", known=restored)
