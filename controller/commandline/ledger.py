"""The decisions that the controller has on record in the cluster."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from controller.clock import SystemClock
from controller.commandline.figures import age, money
from controller.core.api.document import Document
from controller.core.lifecycle.decisions import Entry
from controller.errors import KubeError
from controller.kube.client import KubeClient
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.decisions import CONFIG_MAP, KEY
from controller.telemetry.ledger import Ledger


def decisions(kube: KubeClient | None, subject: str = "", limit: int = 20) -> tuple[Entry, ...]:
    """The newest, oldest first, of one subject (KIND/NAME or a name) or of all. None where they may not be read."""
    if kube is None:
        return ()
    try:
        found = kube.list(CONFIG_MAPS, field_selector=f"metadata.name={CONFIG_MAP}")
    except KubeError:
        return ()  # a user without that right still gets an answer, without the record
    return on_record(found, subject, limit)


def on_record(config_maps: Iterable[Document], subject: str = "", limit: int = 20) -> tuple[Entry, ...]:
    """The newest entries of the record, oldest first; what is no record is passed over."""
    ledger = Ledger(SystemClock())
    for each in config_maps:
        try:
            ledger.restore(base64.b64decode(str((each.get("binaryData") or {}).get(KEY, "")), validate=True))
        except binascii.Error:
            continue
    return ledger.entries(subject=subject, limit=limit)


def line(entry: Entry, now: float) -> str:
    """One decision in one line; `now` in Unix seconds."""
    own = entry.decision
    again = f" ×{entry.times}" if entry.times > 1 else ""
    before, after = own.price_before, own.price_after
    price = f" ({money(before)}/h → {money(after)}/h)" if before is not None and after is not None else ""
    when = age(now - (entry.last_at or entry.at))
    return f"{when} ago{again}, {own.method}: {own.kind} {own.subject.partition('/')[2]}: {own.reason}{price}"
