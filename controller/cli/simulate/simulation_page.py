"""A simulation as one self-contained HTML page without scripts, with the packing drawn."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from controller.cli.cluster import costs_report
from controller.cli.cluster.page_parts import document, table, tiles_of
from controller.cli.cluster.simulation import Simulation
from controller.cli.cluster.simulation_report import by_workload, groups, unplaced_by_reason, zones_of
from controller.cli.cluster.workload_costs import planned_costs
from controller.cli.formatting import count, money, month, percent, tally
from controller.cli.simulate import comparison
from controller.cli.simulate.page_charts import charts
from controller.cli.simulate.page_drawing import drawing

MOST_COSTS = 31
"""Workloads in the table of costs; with more, the last row has the others."""


def page(simulation: Simulation, before: Simulation | None = None) -> str:
    """Return the page as HTML. Names are escaped, and nothing is loaded from elsewhere."""
    body = [
        *_tiles(simulation, before),
        *(_comparison(simulation, before) if before is not None else ()),
        *_missing(simulation),
        *_groups(simulation),
        *drawing(simulation, "What runs where" if before is None else "What runs where, after"),
        *(drawing(before, "What runs where, before", simulation) if before is not None else ()),
        *_costs(simulation),
        *_existing(simulation),
        *(f"<p><small>{escape(note)}</small></p>" for note in simulation.notes),
    ]
    return document("Fleet simulation", body)


def _tiles(simulation: Simulation, before: Simulation | None) -> Iterator[str]:
    placed = len(simulation.problem.pending) - len(simulation.plan.unplaced)
    tiles = [
        (f"{month(simulation.price_per_hour)}", f"a month, {money(simulation.price_per_hour)}/h", ""),
        _counted(len(simulation.plan.new_nodes), "new node"),
        _counted(placed, "pod", " placed"),
    ]
    if simulation.plan.new_nodes:
        tiles.append(
            (f"{money(simulation.plan.cost_per_hour)}/h", "in all: volumes, addresses, agents, CPU credits", "")
        )
    proof = simulation.plan.proof
    if proof is not None:
        most = (percent(proof.gap, 1), "above the optimum at most", "")
        tiles.append(("optimal", "no plan for these pods costs less", "") if proof.optimal else most)
    elif simulation.over_bound is not None:
        bound = money(simulation.bound.cost_per_hour)
        tiles.append((percent(simulation.over_bound - 1.0, 1), f"above the lower bound, {bound}/h", ""))
    if simulation.plan.unplaced:
        tiles.append(_counted(len(simulation.plan.unplaced), "pod", " cannot be placed", "bad"))
    if before is not None:
        change = simulation.price_per_hour - before.price_per_hour
        sign = "+" if change > 0 else "−" if change < 0 else "±"
        tiles.append((f"{sign}{month(abs(change))}", "a month, against the other configuration", ""))
    yield from tiles_of(tiles)


def _counted(number: int, noun: str, more: str = "", style: str = "") -> tuple[str, str, str]:
    figure, _, words = count(number, noun).partition(" ")
    return figure, words + more, style


def _comparison(simulation: Simulation, before: Simulation) -> Iterator[str]:
    yield "<h2>Compared</h2>"
    yield from charts(simulation, before)
    yield "<h2>Figures</h2>"
    rows = [*comparison.rows(simulation, before), *comparison.node_rows(simulation, before)]
    yield from table(("", "before", "after", "difference"), rows)


def _missing(simulation: Simulation) -> Iterator[str]:
    if simulation.plan.unplaced:
        yield '<h2 class="bad">Cannot be placed</h2>'
    for reason, workloads in unplaced_by_reason(simulation):
        yield f"<p><b>{escape(tally(workloads))}</b><br>{escape(reason)}</p>"


def _groups(simulation: Simulation) -> Iterator[str]:
    if not simulation.plan.new_nodes:
        return
    yield "<h2>New nodes</h2>"
    head = ("type", "capacity", "provisioner", "zones", "nodes", "pods", "$/h", "$/month")
    rows = [
        (
            each.instance_type,
            each.capacity_type,
            each.provisioner,
            zones_of(each.nodes),
            f"{len(each.nodes):,}",
            f"{sum(len(node.pods) for node in each.nodes):,}",
            money(each.price_per_hour),
            month(each.price_per_hour),
        )
        for each in groups(simulation)
    ]
    yield from table(head, rows, words=4)


def _costs(simulation: Simulation) -> Iterator[str]:
    """Yield what the new nodes cost each workload, dearest first."""
    costs = planned_costs(simulation)
    if costs.workloads:
        yield "<h2>Cost of the new nodes by workload</h2>"
        rows = costs_report.cells(costs, workloads=True, most=MOST_COSTS)
        yield from table(("workload", "pods", "$/h", "$/month", "share"), rows)


def _existing(simulation: Simulation) -> Iterator[str]:
    if simulation.plan.existing:
        yield "<h2>On existing nodes</h2>"
        rows = ((each.node, tally(by_workload(simulation, each.pods))) for each in simulation.plan.existing)
        yield from table(("node", "pods"), rows, words=2)
