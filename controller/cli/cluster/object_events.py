"""Events of an object, as lines: what the controller, kube-scheduler and kubelets said of it."""

from __future__ import annotations

from controller.cli.figures import age
from controller.core.api.document import mapping, text, timestamp, whole
from controller.errors import KubeError
from controller.kube.client import KubeClient
from controller.kube.resources import EVENTS

SHOWN = 8


def lines(kube: KubeClient | None, kind: str, name: str, namespace: str, now: float) -> tuple[str, ...]:
    """The newest last: `3m ago ×4 karpenter FailedScheduling: ...`. Empty for a file; `now` in Unix seconds."""
    if kube is None:
        return ()
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
