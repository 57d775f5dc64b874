"""Decisions of the ledger and events about an object, as sections of an answer."""

from __future__ import annotations

from collections.abc import Iterable

from controller.cli.cluster.decision_log import line
from controller.cli.explain.answer import Section
from controller.cli.formatting import age
from controller.core.api.document import mapping, text, timestamp, whole
from controller.core.decisions.decision import Entry
from controller.errors import KubeError
from controller.kube.client import KubeClient
from controller.kube.resources import EVENTS

SHOWN = 8


def decisions_section(entries: Iterable[Entry], now: float) -> Section:
    """Return the entries of the ledger, a line each; `now` in Unix seconds."""
    return Section("Decisions", tuple(line(entry, now) for entry in entries))


def events_section(kube: KubeClient | None, kind: str, name: str, namespace: str, now: float) -> Section:
    """Return the newest events, newest last: `3m ago ×4, karpenter: FailedScheduling: ...`. Empty for a dump."""
    return Section("Events", () if kube is None else _events(kube, kind, name, namespace, now))


def _events(kube: KubeClient, kind: str, name: str, namespace: str, now: float) -> tuple[str, ...]:
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    try:
        events = kube.list(EVENTS, namespace, field_selector=selector)
    except KubeError as error:
        return (f"events cannot be read: {error}",)
    dated = []
    for event in events:
        series = mapping(event.get("series"))
        last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
        seen = timestamp(last) or timestamp(mapping(event.get("metadata")).get("creationTimestamp")) or 0.0
        times = max(whole(event.get("count"), 1), whole(series.get("count"), 1))
        who = text(event.get("reportingComponent")) or text(mapping(event.get("source")).get("component"))
        repeated = f" ×{times}" if times > 1 else ""
        dated.append((seen, f"{age(now - seen)} ago{repeated}, {who}: {event.get('reason')}: {event.get('message')}"))
    return tuple(line for _, line in sorted(dated)[-SHOWN:])
