"""Publish the list prices of plans in a ConfigMap, so that the command line uses the same prices."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any, Final

from controller.core.state.snapshot import Snapshot
from controller.reconcilers.bookkeeping.stored_record import StoredRecord
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

CONFIG_MAP: Final = "karpenter-prices"
KEY: Final = "prices.json.gz"
PAUSE_SECONDS = 900.0
"""Between two writes at least: some spot price always changes."""
FIRST_SECONDS = 10.0
"""Between two reads until the prices are known."""


class PricesReconciler(ContextReconciler):
    """Write the prices when they changed. They are never read back: each process reads AWS."""

    name = "prices"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._record = StoredRecord(context, CONFIG_MAP)
        self._published: dict[str, Any] | None = None

    def reconcile(self, _snapshot: Snapshot) -> float:
        """Write what is new when it is due. Raises KubeError; the next pass tries again."""
        if (left := self._left_seconds()) > 0:
            return left
        document = dict(self._cloud.price_book())
        if not document:
            return FIRST_SECONDS
        content = {key: value for key, value in document.items() if key != "generated"}
        if content != self._published:
            if self._published is None:
                self._record.read()  # a record of a later version is left alone
            packed = gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)
            self._record.write(binaryData={KEY: base64.b64encode(packed).decode()})
            self._published = content
        return self._due_in(PAUSE_SECONDS)
