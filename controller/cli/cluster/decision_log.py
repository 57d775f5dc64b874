"""The decision ledger that the controller keeps in a ConfigMap of the cluster."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from controller.cli.formatting import age, money
from controller.core.api.document import Document
from controller.core.decisions.decision import Entry
from controller.errors import KubeError
from controller.kube.client import KubeClient
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.decision_store import CONFIG_MAP, KEY
from controller.runtime.clock import SystemClock
from controller.telemetry.decision_ledger import Ledger


def decisions(kube: KubeClient | None, subject: str = "") -> tuple[Entry, ...]:
    """Return the newest entries, oldest first, of one subject (KIND/NAME or a name) or all;
    none without the right to read."""
    if kube is None:
        return ()
    try:
        config_maps = kube.list(CONFIG_MAPS, field_selector=f"metadata.name={CONFIG_MAP}")
    except KubeError:
        return ()  # a user without that right still gets an answer, without the record
    return on_record(config_maps, subject)


def on_record(config_maps: Iterable[Document], subject: str = "", limit: int = 20) -> tuple[Entry, ...]:
    """Return the newest entries in these ConfigMaps, oldest first; unreadable data is skipped."""
    ledger = Ledger(SystemClock())
    for each in config_maps:
        try:
            ledger.restore(base64.b64decode(str((each.get("binaryData") or {}).get(KEY, "")), validate=True))
        except binascii.Error:
            continue
    return ledger.entries(subject=subject, limit=limit)


def line(entry: Entry, now: float, *, short: bool = False) -> str:
    """Return one entry as a line; `now` in Unix seconds. `short`: node names without their domain."""
    own = entry.decision
    again = f" ×{entry.times}" if entry.times > 1 else ""
    before, after = own.price_before, own.price_after
    price = ""
    if before is not None and after is not None and before != after:
        price = f" ({money(before)}/h → {money(after)}/h)"
    when = age(now - (entry.last_at or entry.at))
    kind, _, name = own.subject.partition("/")
    subject = name.partition(".")[0] if short and kind == "Node" else name
    return f"{when} ago{again}, {own.method}: {own.kind} {subject}: {own.reason}{price}"
