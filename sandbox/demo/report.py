"""Tables of nodes, pods and events, as a person wants to see them at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich import box
from rich.table import Table

from sandbox.demo.timeline import Moment
from sandbox.world.resources import Obj


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node as it was while its pods ran."""

    name: str
    instance_type: str
    zone: str
    capacity_type: str
    price_per_hour: float
    pods: tuple[str, ...]


def node_line(node: Obj, price_per_hour: float, pods: Iterable[Obj]) -> NodeLine:
    """From the Node object, its price and the pods that are bound to it."""
    labels = node["metadata"]["labels"]
    name = node["metadata"]["name"]
    return NodeLine(
        name=name,
        instance_type=labels["node.kubernetes.io/instance-type"],
        zone=labels["topology.kubernetes.io/zone"],
        capacity_type=labels["karpenter.sh/capacity-type"],
        price_per_hour=price_per_hour,
        pods=tuple(sorted(p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") == name)),
    )


def nodes_table(lines: Iterable[NodeLine]) -> Table:
    """Nodes with type, zone, capacity type, price and pods."""
    table = Table(title="Nodes and their pods", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("NODE", "TYPE", "ZONE", "CAPACITY"):
        table.add_column(heading, no_wrap=True)
    table.add_column("$/HOUR", justify="right")
    table.add_column("PODS")
    for line in lines:
        price = f"{line.price_per_hour:.4f}"
        table.add_row(line.name, line.instance_type, line.zone, line.capacity_type, price, "\n".join(line.pods))
    return table


def events_table(events: Iterable[Obj]) -> Table:
    """Events as `kubectl get events` prints them, oldest first."""
    table = Table(title="Events of the controller", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("TYPE", "REASON", "OBJECT"):
        table.add_column(heading, no_wrap=True)
    table.add_column("MESSAGE", overflow="fold")
    for event in sorted(events, key=_event_time):
        about = event["involvedObject"]
        times = f" (x{event['count']})" if (event.get("count") or 1) > 1 else ""
        style = "yellow" if event["type"] == "Warning" else ""
        where = f"{about['kind'].lower()}/{about['name']}"
        table.add_row(event["type"], event["reason"], where, event["message"] + times, style=style)
    return table


def _event_time(event: Obj) -> tuple[str, str]:
    return (event.get("firstTimestamp") or event.get("eventTime") or "", event["metadata"].get("resourceVersion", ""))


def durations_table(moments: Iterable[Moment], spans: Mapping[str, tuple[str, str]]) -> Table:
    """How long each part took, act by act: first to last."""
    acts = _acts(list(moments))
    table = Table(title="Durations, seconds", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("FROM … TO", no_wrap=True)
    for number in range(1, len(acts) + 1):
        table.add_column(f"ACT {number}", justify="right")
    for label, (start, end) in spans.items():
        table.add_row(label, *(_span(act, start, end) for act in acts))
    return table


def _acts(moments: list[Moment]) -> list[list[Moment]]:
    acts: list[list[Moment]] = []
    for moment in moments:
        if moment.what.startswith("Scaled") and not moment.what.endswith(" 0"):
            acts.append([])
        if acts:
            acts[-1].append(moment)
    return acts


def _span(act: list[Moment], start: str, end: str) -> str:
    began = next((m.at for m in act if m.what.startswith(start)), None)
    ended = next((m.at for m in reversed(act) if m.what.startswith(end)), None)
    return "" if began is None or ended is None else f"{ended - began:.1f}"
