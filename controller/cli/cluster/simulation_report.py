"""A simulation as a document for programs and as tables for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from controller.cli.cluster import costs_report, service_report
from controller.cli.cluster.simulation import Simulation
from controller.cli.cluster.workload_costs import planned_costs, workload_of
from controller.cli.formatting import HOURS_A_MONTH, bar, count, money, month, percent, tally, titled_table
from controller.core.api.pod import PodKey
from controller.core.api.quantity import format_quantity
from controller.core.cloud import PricedOffering
from controller.core.provisioning import PlannedNode, SchedulingPlan
from controller.core.provisioning.bound.gap import Gap, GapPart
from controller.core.zones.services import ServiceZones

SHOWN = ("cpu", "memory")
"""Resources that tables show."""
FULL_WIDTH = 115
"""Columns of a terminal on which the table of new nodes has all of its own."""


def document(simulation: Simulation) -> dict[str, Any]:
    return {
        "name": simulation.name,
        "summary": summary(simulation),
        **({} if simulation.gap is None else {"gap": _gap(simulation.gap)}),
        "nodes": [_node(simulation, node) for node in simulation.plan.new_nodes],
        "existing": [
            {"node": each.node, "pods": ["/".join(key) for key in each.pods], "reason": each.reason}
            for each in simulation.plan.existing
        ],
        "unplaced": [{"pod": "/".join(left.pod), "reason": left.reason} for left in simulation.plan.unplaced],
        "costs": costs_report.document(planned_costs(simulation)),
        "services": [service_report.document(each) for each in service_report.planned_services(simulation)],
        "notes": list(simulation.notes),
    }


def _gap(gap: Gap) -> dict[str, Any]:
    def part(each: GapPart) -> dict[str, Any]:
        return {"cause": each.cause, "pricePerHour": round(each.price_per_hour, 6), "text": each.text}

    return {
        "pricePerHour": round(gap.price_per_hour, 6),
        "costPerHour": round(gap.cost_per_hour, 6),
        "expectedPricePerHour": round(gap.expected_per_hour, 6),
        "lowerBoundPerHour": round(gap.bound_per_hour, 6),
        "parts": [part(each) for each in gap.parts],
        "flexibility": part(gap.flexibility),
    }


def _runner_up(offering: PricedOffering) -> dict[str, Any]:
    return {
        "instanceType": offering.instance_type,
        "zone": offering.zone,
        "capacityType": offering.capacity_type,
        "pricePerHour": offering.price,
        "costPerHour": round(offering.cost, 6),
    }


def summary(simulation: Simulation) -> dict[str, Any]:
    """Return its figures as JSON values. Prices in $."""
    pods = len(simulation.problem.pending)
    kinds = Counter(node.offering.capacity_type for node in simulation.plan.new_nodes)
    proof = simulation.plan.proof
    return {
        "pods": pods,
        "unplaced": len(simulation.plan.unplaced),
        "placedOnNodesThereAre": sum(len(each.pods) for each in simulation.plan.existing),
        "newNodes": len(simulation.plan.new_nodes),
        "newNodesByCapacityType": dict(sorted(kinds.items())),
        "pricePerHour": round(simulation.price_per_hour, 6),
        "pricePerMonth": round(simulation.price_per_hour * HOURS_A_MONTH, 2),
        "expectedPricePerHour": round(simulation.plan.expected_price_per_hour, 6),
        "costPerHour": round(simulation.plan.cost_per_hour, 6),
        "lowerBoundPerHour": round(simulation.bound.cost_per_hour, 6),
        "costOverLowerBound": None if simulation.over_bound is None else round(simulation.over_bound, 4),
        "optimal": None if proof is None else proof.optimal,
        "gapToOptimum": None if proof is None else round(proof.gap, 4),
        "nodesThereArePricePerHour": None if simulation.existing_price is None else round(simulation.existing_price, 6),
    }


def _node(simulation: Simulation, node: PlannedNode) -> dict[str, Any]:
    allocatable = simulation.allocatable(node)
    return {
        "provisioner": node.provisioner,
        "instanceType": node.offering.instance_type,
        "zone": node.offering.zone,
        "capacityType": node.offering.capacity_type,
        "pricePerHour": node.offering.price,
        "pricePerMonth": round(node.offering.price * HOURS_A_MONTH, 2),
        "costPerHour": round(node.offering.cost, 6),
        "surplusPerHour": round(node.offering.surplus, 6),
        "pods": ["/".join(key) for key in node.pods],
        "requests": {name: format_quantity(name, amount) for name, amount in sorted(node.requests.items())},
        "allocatable": {name: format_quantity(name, amount) for name, amount in sorted(allocatable.items())},
        "expectedPricePerHour": round(node.expected_price, 6),
        "runnerUp": None if node.runner_up is None else _runner_up(node.runner_up),
        "alternatives": len(node.alternatives),
        "reason": node.reason,
    }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Planned nodes of one Provisioner, type and capacity type."""

    provisioner: str
    instance_type: str
    capacity_type: str
    nodes: tuple[PlannedNode, ...]

    @property
    def price_per_hour(self) -> float:
        """$/hour of all nodes."""
        return sum(node.offering.price for node in self.nodes)


def zones_of(nodes: Iterable[PlannedNode], *, letters: bool = False) -> str:
    """Return the nodes by zone: `us-east-1a ×2, us-east-1b ×1`, or the only zone. letters: `a ×2, b ×1`."""
    counts = Counter(_letter(node.offering.zone) if letters else node.offering.zone for node in nodes)
    return tally(counts) if len(counts) > 1 else next(iter(counts), "")


def groups(simulation: Simulation) -> tuple[NodeGroup, ...]:
    """Return the new nodes in groups, most expensive group first."""
    members: dict[tuple[str, str, str], list[PlannedNode]] = defaultdict(list)
    for node in simulation.plan.new_nodes:
        members[(node.provisioner, node.offering.instance_type, node.offering.capacity_type)].append(node)
    made = [NodeGroup(*key, tuple(nodes)) for key, nodes in members.items()]
    return tuple(sorted(made, key=lambda g: (-g.price_per_hour, g.provisioner, g.instance_type, g.capacity_type)))


def use(simulation: Simulation, nodes: Iterable[PlannedNode], resource: str) -> float:
    """Return the requests (daemons included) / allocatable of these nodes; 0 without allocatable."""
    nodes = tuple(nodes)
    have = sum(simulation.allocatable(node).get(resource, 0) for node in nodes)
    return sum(node.requests.get(resource, 0) for node in nodes) / have if have else 0.0


def by_workload(simulation: Simulation, keys: Iterable[PodKey]) -> Mapping[str, int]:
    pods = simulation.pods
    return Counter(workload_of(pods[key]) if key in pods else "/".join(key) for key in keys)


def show(simulation: Simulation, console: Console, *, wide: bool = False) -> None:
    for number, block in enumerate(_blocks(simulation, wide=wide, narrow=console.width < FULL_WIDTH)):
        console.print(*([Text()] if number else []), block, sep="\n")


def _blocks(simulation: Simulation, *, wide: bool, narrow: bool) -> Iterable[RenderableType]:
    """Yield what stands apart by an empty line."""
    if simulation.plan.new_nodes:
        yield _nodes_table(simulation, narrow=narrow) if not wide else _wide_table(simulation, narrow=narrow)
    if simulation.plan.existing:
        yield _existing_table(simulation)
    if simulation.plan.unplaced:
        yield _unplaced_table(simulation)
    if judged := service_report.planned_services(simulation):
        yield Group(*_services(judged))
    if simulation.plan.new_nodes:
        yield costs_report.costs_table(planned_costs(simulation), "Cost of the new nodes", workloads=wide)
    notes = (Text(f"Note: {each}", style="dim") for each in simulation.notes)
    yield Group(Text.from_markup(_closing(simulation)), *notes)


def _services(judged: Iterable[ServiceZones]) -> Iterable[RenderableType]:
    """Yield a line for each Service that asks for traffic inside zones."""
    yield Text("Services, with this plan", style="bold")
    for each in judged:
        yield Text(f"{'/'.join(each.service.key)} {each.verdict}", style="" if each.kept else "yellow")
        yield from (Text(f"  → {remedy}", style="italic") for remedy in each.remedies)


def _distance(simulation: Simulation) -> str:
    """Return how far the plan is from the cheapest one: as proven of a small batch, else by the lower bound."""
    proof = simulation.plan.proof
    if proof is not None:
        why = ": no plan for these pods costs less" if proof.optimal else ""
        return f"This plan is {proof}{why}"
    gap = f", {percent(simulation.over_bound - 1.0, 1)} above it" if simulation.over_bound else ""
    return f"Lower bound (no plan can cost less in all): {money(simulation.bound.cost_per_hour)}/h{gap}"


def _closing(simulation: Simulation) -> str:
    placed = len(simulation.problem.pending) - len(simulation.plan.unplaced)
    lines = [f"[bold]{count(placed, 'pod')}[/] placed, {count(len(simulation.plan.new_nodes), 'new node')}"]
    price = simulation.price_per_hour
    if simulation.plan.new_nodes:
        lines[0] += f": [bold green]{money(price)}/h, {month(price)}/month[/]"
        lines.append(_in_all(simulation.plan))
        lines.append(_distance(simulation))
        expected = simulation.plan.expected_price_per_hour
        if expected > price * 1.0005:
            lines.append(f"Expected: {money(expected)}/h, as EC2 may prefer an offering with more capacity")
        lines += _balanced(simulation.plan)
    parts = simulation.gap.parts if simulation.gap is not None else ()
    lines += [f"  {part.cause}: {money(part.price_per_hour)}/h: {part.text}" for part in parts]
    if simulation.plan.unplaced:
        lines.append(f"[bold red]{count(len(simulation.plan.unplaced), 'pod')} cannot be placed[/]")
    if simulation.problem.nodes:
        price_now = simulation.existing_price
        cost = f", {money(price_now)}/h" if price_now is not None else ", some of unknown price"
        lines.append(f"{count(len(simulation.problem.nodes), 'existing node')}{cost}")
    return "\n".join(lines)


def _balanced(plan: SchedulingPlan) -> Iterable[str]:
    """Yield how many nodes zone balance moves to another zone, and what that costs."""
    extras = [node.zone_extra for node in plan.new_nodes if node.zone_extra is not None]
    if extras:
        cost = f"{money(sum(extras))}/h more" if sum(extras) > 0 else "no more"
        yield f"Zone balance: {count(len(extras), 'node')} in another zone than the cheapest plan's, for {cost}"


def _in_all(plan: SchedulingPlan) -> str:
    """Return what the new nodes cost in all, and what of it is not their price."""
    beside = sum(node.offering.beside for node in plan.new_nodes)
    surplus = sum(node.offering.surplus for node in plan.new_nodes)
    text = f"In all: {money(plan.cost_per_hour)}/h, with {money(beside)}/h for volumes, addresses and agents"
    return f"{text} and {money(surplus)}/h for CPU beyond the baseline of burstable types" if surplus > 0 else text


def _row(table: Table, *cells: str | Text) -> None:
    """Add cells as plain text: brackets in names are not rich markup."""
    table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))


def _shares(simulation: Simulation, nodes: Iterable[PlannedNode], *, narrow: bool) -> Iterable[Text]:
    """Use of SHOWN, drawn as bars where there is room."""
    nodes = tuple(nodes)
    for name in SHOWN:
        share = use(simulation, nodes, name)
        yield Text(percent(share)) if narrow else bar(share)


def _nodes_table(simulation: Simulation, *, narrow: bool) -> Table:
    """Draw a row for each group; `narrow`: zones without their region, shares as numbers, no $/month."""
    right = ("Nodes", "$/h", "$/month", "Pods", *(("CPU", "Memory") if narrow else ()))
    months = () if narrow else ("$/month",)
    listed = groups(simulation)
    short = all(len(group.provisioner) <= len("Provisioner") for group in listed)
    table = titled_table(
        "New nodes", "Nodes", "Type", "Capacity", "Provisioner", "Zones", "Pods", "CPU", "Memory", "$/h", *months,
        right=right, whole=("Type", "Capacity", *(("Provisioner",) if short else ())),
    )  # fmt: skip
    for group in listed:
        _row(
            table,
            str(len(group.nodes)),
            group.instance_type,
            group.capacity_type,
            group.provisioner,
            zones_of(group.nodes, letters=narrow),
            str(sum(len(node.pods) for node in group.nodes)),
            *_shares(simulation, group.nodes, narrow=narrow),
            money(group.price_per_hour),
            *(month(group.price_per_hour) for _ in months),
        )
    return table


def _letter(zone: str) -> str:
    return zone.rpartition("-")[2].lstrip("0123456789") or zone


def _wide_table(simulation: Simulation, *, narrow: bool) -> Table:
    right = ("$/h", *(("CPU", "Memory") if narrow else ()))
    table = titled_table(
        "New nodes", "Type", "Capacity", "Zone", "Provisioner", "$/h", "CPU", "Memory", "Pods",
        right=right, whole=("Type", "Capacity"),
    )  # fmt: skip
    for group in groups(simulation):
        for node in group.nodes:
            _row(
                table,
                node.offering.instance_type,
                node.offering.capacity_type,
                _letter(node.offering.zone) if narrow else node.offering.zone,
                node.provisioner,
                money(node.offering.price),
                *_shares(simulation, (node,), narrow=narrow),
                tally(by_workload(simulation, node.pods)),
            )
    return table


def _existing_table(simulation: Simulation) -> Table:
    table = titled_table("On existing nodes", "Node", "Pods")
    for each in simulation.plan.existing:
        _row(table, each.node, tally(by_workload(simulation, each.pods)))
    return table


def unplaced_by_reason(simulation: Simulation) -> tuple[tuple[str, Mapping[str, int]], ...]:
    """Return (reason, pods by workload) of unplaced pods; the reason with most pods first."""
    keys: dict[str, list[PodKey]] = defaultdict(list)
    for left in simulation.plan.unplaced:
        keys[left.reason].append(left.pod)
    ordered = sorted(keys.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return tuple((reason, by_workload(simulation, members)) for reason, members in ordered)


def _unplaced_table(simulation: Simulation) -> Table:
    table = titled_table("Cannot be placed", "Pods", "Why")
    for reason, workloads in unplaced_by_reason(simulation):
        _row(table, tally(workloads, "\n"), reason)
    return table
