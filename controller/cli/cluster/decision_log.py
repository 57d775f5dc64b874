"""The decisions that the controller has on record in the cluster."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from controller.cli.cluster.node_facts import Prices
from controller.cli.figures import age, money
from controller.core.api.document import Document
from controller.core.decisions.decision import Entry
from controller.errors import KubeError
from controller.kube.client import KubeClient
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.decision_store import CONFIG_MAP, KEY
from controller.runtime.clock import SystemClock
from controller.telemetry.decision_ledger import Ledger


def decisions(kube: KubeClient | None, subject: str = "", limit: int = 20) -> tuple[Entry, ...]:
    """The newest, oldest first, of one subject (KIND/NAME or a name) or of all. None where they may not be read."""
    if kube is None:
        return ()
    try:
        config_maps = kube.list(CONFIG_MAPS, field_selector=f"metadata.name={CONFIG_MAP}")
    except KubeError:
        return ()  # a user without that right still gets an answer, without the record
    return on_record(config_maps, subject, limit)


def on_record(config_maps: Iterable[Document], subject: str = "", limit: int = 20) -> tuple[Entry, ...]:
    """The newest entries of the record, oldest first; what is no record is passed over."""
    ledger = Ledger(SystemClock())
    for each in config_maps:
        try:
            ledger.restore(base64.b64decode(str((each.get("binaryData") or {}).get(KEY, "")), validate=True))
        except binascii.Error:
            continue
    return ledger.entries(subject=subject, limit=limit)


def prices_on_record(entries: Iterable[Entry]) -> Prices:
    """What the controller reckoned with for each offering that it launched, by its newest launch there."""
    prices: dict[tuple[str, str, str], float] = {}
    for entry in entries:  # oldest first
        of = entry.decision.details
        if entry.decision.kind == "launch" and "price_per_hour" in of:
            key = (of.get("instance_type", ""), of.get("zone", ""), of.get("capacity_type", ""))
            prices[key] = float(of["price_per_hour"])
    return prices


def line(entry: Entry, now: float, *, short: bool = False) -> str:
    """One decision in one line; `now` in Unix seconds. `short`: a node's name without its domain."""
    own = entry.decision
    again = f" ×{entry.times}" if entry.times > 1 else ""
    before, after = own.price_before, own.price_after
    price = f" ({money(before)}/h → {money(after)}/h)" if before is not None and after is not None else ""
    when = age(now - (entry.last_at or entry.at))
    kind, _, name = own.subject.partition("/")
    subject = name.partition(".")[0] if short and kind == "Node" else name
    return f"{when} ago{again}, {own.method}: {own.kind} {subject}: {own.reason}{price}"
