"""Report records on nodes that cannot be read: once each, by a log line, a metric and an event of the node."""

from __future__ import annotations

import structlog

from controller.core.deprovisioning.unreadable_records import unreadable_records
from controller.core.state.snapshot import Snapshot
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ReconcilerContext
from controller.runtime.metrics import UNREADABLE_RECORDS


class RecordReports:
    """Report each record once, as long as it is unchanged."""

    def __init__(self, context: ReconcilerContext) -> None:
        self._events, self._recorder = context.events, context.recorder
        self._reported: frozenset[tuple[str, str, str]] = frozenset()
        """Records reported, by the node's uid, the annotation's key and its value."""
        self._log = structlog.get_logger("deprovisioning")

    def report(self, snapshot: Snapshot) -> None:
        """Report the records that were not reported before."""
        standing = set()
        for state in snapshot.nodes.values():
            node = state.node
            for record in unreadable_records(node):
                seen = (node.uid, record.key, node.annotations[record.key])
                standing.add(seen)
                if seen in self._reported:
                    continue
                self._recorder.count(UNREADABLE_RECORDS, record.key)
                text = "Record cannot be read"
                self._log.warning(text, node=node.name, record=record.key, error=record.error, so=record.consequence)
                message = f"{record.key} {record.error}; {record.consequence}"
                self._events.publish(ObjectRef.of(node), "Warning", "UnreadableRecord", message)
        self._reported = frozenset(standing)
