"""A simulation as a document for programs and as tables for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from controller.cli.cluster.simulation import Simulation
from controller.cli.figures import HOURS_A_MONTH, bar, count, money, month, percent
from controller.core.api.pod import Pod, PodKey
from controller.core.api.quantity import format_quantity
from controller.core.provisioning import PlannedNode

SHOWN = ("cpu", "memory")
"""Resources that tables show; others of a node where its pods ask for them."""


def document(found: Simulation) -> dict[str, Any]:
    """Everything, as JSON values."""
    return {
        "name": found.name,
        "summary": summary(found),
        **({} if found.gap is None else {"gap": msgspec.to_builtins(found.gap)}),
        "nodes": [_node(found, node) for node in found.plan.new_nodes],
        "existing": [
            {"node": each.node, "pods": ["/".join(key) for key in each.pods], "reason": each.reason}
            for each in found.plan.existing
        ],
        "unplaced": [{"pod": "/".join(left.pod), "reason": left.reason} for left in found.plan.unplaced],
        "notes": list(found.notes),
    }


def summary(found: Simulation) -> dict[str, Any]:
    """The figures that a comparison is about. Prices in $."""
    pods = len(found.problem.pending)
    kinds = Counter(node.offering.capacity_type for node in found.plan.new_nodes)
    return {
        "pods": pods,
        "unplaced": len(found.plan.unplaced),
        "placedOnNodesThereAre": sum(len(each.pods) for each in found.plan.existing),
        "newNodes": len(found.plan.new_nodes),
        "newNodesByCapacityType": dict(sorted(kinds.items())),
        "pricePerHour": round(found.price_per_hour, 6),
        "pricePerMonth": round(found.price_per_hour * HOURS_A_MONTH, 2),
        "expectedPricePerHour": round(found.plan.expected_price_per_hour, 6),
        "lowerBoundPerHour": round(found.bound.price_per_hour, 6),
        "priceOverLowerBound": None if found.over_bound is None else round(found.over_bound, 4),
        "nodesThereArePricePerHour": None if found.standing_price is None else round(found.standing_price, 6),
    }


def _node(found: Simulation, node: PlannedNode) -> dict[str, Any]:
    allocatable = found.allocatable(node)
    return {
        "provisioner": node.provisioner,
        "instanceType": node.offering.instance_type,
        "zone": node.offering.zone,
        "capacityType": node.offering.capacity_type,
        "pricePerHour": node.offering.price,
        "pricePerMonth": round(node.offering.price * HOURS_A_MONTH, 2),
        "pods": ["/".join(key) for key in node.pods],
        "requests": {name: format_quantity(name, amount) for name, amount in sorted(node.requests.items())},
        "allocatable": {name: format_quantity(name, amount) for name, amount in sorted(allocatable.items())},
        "expectedPricePerHour": round(node.expected_price, 6),
        "runnerUp": None if node.runner_up is None else msgspec.to_builtins(node.runner_up),
        "alternatives": len(node.alternatives),
        "reason": node.reason,
    }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Planned nodes that differ in nothing but zone and pods."""

    provisioner: str
    instance_type: str
    capacity_type: str
    nodes: tuple[PlannedNode, ...]

    @property
    def price_per_hour(self) -> float:
        """Of all of them, $/hour."""
        return sum(node.offering.price for node in self.nodes)

    @property
    def zones(self) -> str:
        """`a 2, b 1`: nodes by zone."""
        found = Counter(node.offering.zone for node in self.nodes)
        return ", ".join(f"{zone} ×{number}" if len(found) > 1 else zone for zone, number in sorted(found.items()))


def groups(found: Simulation) -> tuple[NodeGroup, ...]:
    """The new nodes by Provisioner, type and capacity type, the dearest group first."""
    members: dict[tuple[str, str, str], list[PlannedNode]] = defaultdict(list)
    for node in found.plan.new_nodes:
        members[(node.provisioner, node.offering.instance_type, node.offering.capacity_type)].append(node)
    made = [NodeGroup(*key, tuple(nodes)) for key, nodes in members.items()]
    return tuple(sorted(made, key=lambda g: (-g.price_per_hour, g.provisioner, g.instance_type, g.capacity_type)))


def use(found: Simulation, nodes: Iterable[PlannedNode], resource: str) -> float:
    """Requests over allocatable of these nodes together, daemons included; 0 where there is none of it."""
    nodes = tuple(nodes)
    have = sum(found.allocatable(node).get(resource, 0) for node in nodes)
    return sum(node.requests.get(resource, 0) for node in nodes) / have if have else 0.0


def workload_of(pod: Pod) -> str:
    """NAMESPACE/OWNER, or the pod itself."""
    owner = next(iter(pod.owners), None)
    return f"{pod.namespace}/{owner.name}" if owner else f"{pod.namespace}/{pod.name}"


def by_workload(found: Simulation, keys: Iterable[PodKey]) -> Mapping[str, int]:
    """How many pods of each workload."""
    pods = found.pods
    return dict(sorted(Counter(workload_of(pods[key]) if key in pods else "/".join(key) for key in keys).items()))


def show(found: Simulation, console: Console, *, wide: bool = False) -> None:
    """Print the tables."""
    console.print(Group(*_parts(found, wide=wide)))


def _parts(found: Simulation, *, wide: bool) -> Iterable[RenderableType]:
    if found.plan.new_nodes:
        yield _nodes_table(found) if not wide else _wide_table(found)
    if found.plan.existing:
        yield Text()
        yield _existing_table(found)
    if found.plan.unplaced:
        yield Text()
        yield _unplaced_table(found)
    yield Text()
    yield Text.from_markup(_closing(found))
    for each in found.notes:
        yield Text(f"Note: {each}", style="dim")


def _closing(found: Simulation) -> str:
    placed = len(found.problem.pending) - len(found.plan.unplaced)
    lines = [f"[bold]{count(placed, 'pod')}[/] placed, {count(len(found.plan.new_nodes), 'new node')}"]
    price = found.price_per_hour
    if found.plan.new_nodes:
        lines[0] += f": [bold green]{money(price)}/h, {month(price)}/month[/]"
        gap = f", {percent((found.over_bound or 1.0) - 1.0, 1)} above it" if found.over_bound else ""
        lines.append(f"The least that any plan could cost (lower bound): {money(found.bound.price_per_hour)}/h{gap}")
        expected = found.plan.expected_price_per_hour
        if expected > price * 1.0005:
            lines.append(f"Expected: {money(expected)}/h, as EC2 may choose a dearer offering with capacity to spare")
    parts = found.gap.parts if found.gap is not None else ()
    lines += [f"  {part.cause}: {money(part.price_per_hour)}/h: {part.text}" for part in parts]
    if found.plan.unplaced:
        lines.append(f"[bold red]{count(len(found.plan.unplaced), 'pod')} cannot be placed[/]")
    if found.problem.nodes:
        standing = found.standing_price
        cost = f", {money(standing)}/h" if standing is not None else ", some of types without a known price"
        lines.append(f"{count(len(found.problem.nodes), 'node')} there already{cost}")
    return "\n".join(lines)


def _table(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _row(table: Table, *cells: str | Text) -> None:
    """Names are no markup: what stands in brackets is shown, not obeyed."""
    table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))


def _nodes_table(found: Simulation) -> Table:
    right = ("Nodes", "$/h", "$/month", "Pods")
    table = _table(
        "New nodes", "Nodes", "Type", "Capacity", "Provisioner", "Zones", "Pods", "CPU", "Memory", "$/h", "$/month",
        right=right,
    )  # fmt: skip
    for group in groups(found):
        _row(
            table,
            str(len(group.nodes)),
            group.instance_type,
            group.capacity_type,
            group.provisioner,
            group.zones,
            str(sum(len(node.pods) for node in group.nodes)),
            *(bar(use(found, group.nodes, name)) for name in SHOWN),
            money(group.price_per_hour),
            month(group.price_per_hour),
        )
    return table


def _wide_table(found: Simulation) -> Table:
    table = _table(
        "New nodes", "Type", "Capacity", "Zone", "Provisioner", "$/h", "CPU", "Memory", "Pods", right=("$/h",)
    )
    for group in groups(found):
        for node in group.nodes:
            pods = ", ".join(f"{name} ×{number}" for name, number in by_workload(found, node.pods).items())
            _row(
                table,
                node.offering.instance_type,
                node.offering.capacity_type,
                node.offering.zone,
                node.provisioner,
                money(node.offering.price),
                *(bar(use(found, (node,), name)) for name in SHOWN),
                pods,
            )
    return table


def _existing_table(found: Simulation) -> Table:
    table = _table("On nodes there are", "Node", "Pods")
    for each in found.plan.existing:
        pods = ", ".join(f"{name} ×{number}" for name, number in by_workload(found, each.pods).items())
        _row(table, each.node, pods)
    return table


def unplaced_by_reason(found: Simulation) -> tuple[tuple[str, Mapping[str, int]], ...]:
    """Reasons with the pods that they hold back, by workload; those of most pods first."""
    keys: dict[str, list[PodKey]] = defaultdict(list)
    for left in found.plan.unplaced:
        keys[left.reason].append(left.pod)
    ordered = sorted(keys.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return tuple((reason, by_workload(found, members)) for reason, members in ordered)


def _unplaced_table(found: Simulation) -> Table:
    table = _table("Cannot be placed", "Pods", "Why")
    for reason, workloads in unplaced_by_reason(found):
        _row(table, "\n".join(f"{name} ×{number}" for name, number in workloads.items()), reason)
    return table
