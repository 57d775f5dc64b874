"""The decision ledger: the last launches, skips and removals, each with its inputs' digest, its reason and its price.

The newest are kept in memory, served as JSON on the metrics port, and stored in a ConfigMap for the next leader. A
decision that is repeated (a pod that stays pending for the same reason) is one entry with a count.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import msgspec
import structlog

from controller.core.cloud import Catalog
from controller.core.decisions.decision import KINDS, Decision, Entry, entry_of, shortened
from controller.core.decisions.standing import Standing
from controller.core.state.snapshot import Snapshot
from controller.core.untrusted_json import UnreadableJsonError, read_object, unpacked
from controller.runtime.clock import Clock
from controller.runtime.metrics import DECISIONS, NODES_CREATED, NODES_TERMINATED, SILENT, UNREADABLE_RECORDS, Recorder
from controller.telemetry.http_server import Page

RECORD = "karpenter-decisions"
"""The ConfigMap that keeps the ledger, as a label of metrics."""
MOST_ENTRIES = 2000
MOST_BYTES = 192 * 1024
"""Of the compact form: a ConfigMap has room for 1 MiB, and etcd keeps old versions for a while."""
MOST_UNPACKED_BYTES = 16 * 2**20
"""Of the stored form: several times the size of MOST_ENTRIES entries."""
MOST_SHOWN = 2000
_FILTERS = ("kind", "method", "subject", "provisioner", "since", "limit")

_log = structlog.get_logger("ledger")


class Ledger:
    """One per process. Thread-safe. `record` also counts decisions as metrics."""

    def __init__(self, clock: Clock, recorder: Recorder = SILENT, most_entries: int = MOST_ENTRIES) -> None:
        self._clock = clock
        self.recorder = recorder
        self.look: Callable[[], tuple[Snapshot, Catalog]] | None = None
        """Returns the newest snapshot and catalog: a decision without a plan gets its digest and prices from them."""
        self._standing: Standing | None = None
        self._most = most_entries
        self._lock = threading.Lock()
        self._entries: dict[int, Entry] = {}
        """By number, oldest first."""
        self._latest: dict[str, int] = {}
        """The number of each subject's newest entry."""
        self._removed: set[str] = set()
        """Subjects whose newest entry is a removal."""
        self._numbers = 0
        self.version = 0
        """Changes whenever an entry does."""

    def record(self, decision: Decision) -> Entry:
        return self._record(self._completed(decision, self._newest(decision)))

    def record_all(self, decisions: Iterable[Decision]) -> None:
        """Record decisions that were made together: their digests and prices are of one state of the cluster.

        Reading that state is the expensive part. While many nodes leave, it changes between any two decisions.
        """
        standing: Standing | None = None
        for decision in decisions:
            standing = standing or self._newest(decision)
            self._record(self._completed(decision, standing))

    def _record(self, decision: Decision) -> Entry:
        decision = shortened(decision)
        self._count(decision)
        now = self._clock.now()
        with self._lock:
            self.version += 1
            known = self._entries.get(self._latest.get(decision.subject, 0))
            if known is not None and _same(known.decision, decision):
                # The subject's last decision is repeated, with new prices and inputs.
                entry = replace(known, decision=decision, times=known.times + 1, last_at=now)
            else:
                self._numbers += 1
                entry = Entry(self._numbers, now, decision, 1, now)
            self._keep(entry)
            return entry

    def _newest(self, decision: Decision) -> Standing | None:
        """Return the newest state of the cluster, if the decision lacks anything that comes from it."""
        if self.look is None or (decision.inputs and decision.price_before is not None):
            return None
        seen, standing = self.look(), self._standing
        if standing is None or not standing.still_of(*seen):
            self._standing = standing = Standing.of(*seen)
        return standing

    def _completed(self, decision: Decision, standing: Standing | None) -> Decision:
        return decision if standing is None else standing.completed(decision, self.removed())

    def removed(self) -> frozenset[str]:
        """Return the names of nodes whose latest decision is a removal."""
        with self._lock:
            return frozenset(subject.partition("/")[2] for subject in self._removed)

    def _keep(self, entry: Entry) -> None:
        self._entries[entry.number] = entry
        self._latest[entry.decision.subject] = entry.number
        if entry.decision.kind == "remove":
            self._removed.add(entry.decision.subject)
        else:
            self._removed.discard(entry.decision.subject)
        while len(self._entries) > self._most:
            oldest = self._entries.pop(next(iter(self._entries)))
            if self._latest.get(oldest.decision.subject) == oldest.number:
                del self._latest[oldest.decision.subject]
                self._removed.discard(oldest.decision.subject)

    def _count(self, decision: Decision) -> None:
        self.recorder.count(DECISIONS, decision.kind, decision.method, decision.provisioner)
        reason = f"{decision.method}/{decision.action}" if decision.action else decision.method
        if decision.kind == "launch":
            self.recorder.count(NODES_CREATED, reason, decision.provisioner)
        elif decision.kind == "remove":
            self.recorder.count(NODES_TERMINATED, reason, decision.provisioner)

    def entries(
        self,
        *,
        kind: str = "",
        method: str = "",
        subject: str = "",
        provisioner: str = "",
        since: int = 0,
        limit: int = MOST_SHOWN,
    ) -> tuple[Entry, ...]:
        """Return the newest matches, oldest first. `since`: only numbers above it.
        `subject` matches a whole subject, its name alone, and the pods that a decision is about."""
        with self._lock:
            known = list(self._entries.values())

        def matches(entry: Entry) -> bool:
            own = entry.decision
            return (
                entry.number > since
                and kind in ("", own.kind)
                and method in ("", own.method)
                and provisioner in ("", own.provisioner)
                and (subject == "" or _about(own, subject))
            )

        matching = [entry for entry in known if matches(entry)]
        return tuple(matching[max(0, len(matching) - limit) :])

    def page(self, query: Mapping[str, str]) -> Page:
        """Serve /decisions?kind=&method=&subject=&provisioner=&since=&limit=. Raises ValueError for a bad query."""
        if unknown := sorted(set(query) - set(_FILTERS)):
            raise ValueError(f"unknown parameter {', '.join(unknown)}; there are {', '.join(_FILTERS)}")
        if query.get("kind", "") not in ("", *KINDS):
            raise ValueError(f"kind is one of {', '.join(KINDS)}")
        texts = {name: query.get(name, "") for name in ("kind", "method", "subject", "provisioner")}
        entries = self.entries(**texts, since=_count(query, "since", 0), limit=_count(query, "limit", MOST_SHOWN))
        body = msgspec.json.encode({"decisions": [entry.document() for entry in entries]})
        return Page(body + b"\n", "application/json")

    def compact(self) -> bytes:
        """Return the newest entries that fit, for the cluster: JSON lines, gzipped."""
        with self._lock:
            known = list(self._entries.values())
        lines = [msgspec.json.encode(entry.document()) for entry in known]
        while True:
            packed = gzip.compress(b"\n".join(lines), 6, mtime=0)
            if len(packed) <= MOST_BYTES:
                return packed
            del lines[: max(1, len(lines) // 4)]

    def restore(self, packed: bytes) -> int:
        """Insert the entries that another process stored before those of this one; return their number.

        Unreadable ones are skipped: a damaged record must not prevent the controller from starting.
        """
        stored = sorted(_read(packed, self.recorder), key=lambda entry: entry.number)
        with self._lock:
            own = list(self._entries.values())
            last = stored[-1].number if stored else 0
            self._entries, self._latest, self._removed = {}, {}, set()
            # Entries made before the stored ones were read are numbered after those.
            for entry in (*stored, *(replace(entry, number=last + place) for place, entry in enumerate(own, 1))):
                self._keep(entry)
            self._numbers = max(self._numbers, last + len(own))
            self.version += 1
        return len(stored)


def _same(known: Decision, new: Decision) -> bool:
    """Return whether a skip repeats the previous one. Launches and removals are never repeats."""
    return new.kind == known.kind == "skip" and (new.method, new.reason) == (known.method, known.reason)


def _about(decision: Decision, subject: str) -> bool:
    own = decision.subject
    return subject in (own, own.partition("/")[2], own.rpartition("/")[2]) or subject in decision.pods


def _count(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if text == "":
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise ValueError(f"{name} is a number of 0 or more, not {text!r}")
    return int(text)


def _read(packed: bytes, recorder: Recorder) -> Iterable[Entry]:
    try:
        lines = unpacked(packed, MOST_UNPACKED_BYTES).splitlines() if packed else []
    except UnreadableJsonError as error:
        recorder.count(UNREADABLE_RECORDS, RECORD)
        _log.warning("Stored decisions cannot be read; a new record begins", error=str(error))
        return
    unreadable = 0
    for line in lines:
        try:
            yield entry_of(read_object(line))
        except ValueError:
            unreadable += 1
    if unreadable:
        recorder.count(UNREADABLE_RECORDS, RECORD, amount=unreadable)
        _log.warning("Some stored decisions cannot be read, and are left out", count=unreadable)
