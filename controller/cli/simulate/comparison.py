"""Compare two simulations: as tables, JSON values, or Markdown for a pull request's comment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.cli.cluster import costs_report, simulation_report
from controller.cli.cluster.simulation import Simulation
from controller.cli.cluster.simulation_report import SHOWN, groups, unplaced_by_reason, use
from controller.cli.cluster.workload_costs import Cost, planned_costs
from controller.cli.formatting import count, money, month, percent, tally, titled_table

MARKER = "<!-- nodeless simulate -->"
"""First line of every comment, by which a later run finds and replaces it."""

Row = tuple[str, str, str, str]
"""(figure, before, after, difference)."""


def document(after: Simulation, before: Simulation) -> dict[str, Any]:
    """Return both simulations in full, and the differences of their figures."""
    one, two = simulation_report.summary(before), simulation_report.summary(after)
    changed = {
        key: round(two[key] - one[key], 6)
        for key in two
        if isinstance(two[key], (int, float)) and isinstance(one[key], (int, float))
    }
    return {
        "difference": changed,
        "before": simulation_report.document(before),
        "after": simulation_report.document(after),
    }


def rows(after: Simulation, before: Simulation) -> tuple[Row, ...]:
    """Return price, nodes, unplaced pods and use, before and after."""
    table = [
        _priced("Price per hour", before.price_per_hour, after.price_per_hour, money),
        _priced("Price per month", before.price_per_hour, after.price_per_hour, month),
        _priced("In all per hour", before.plan.cost_per_hour, after.plan.cost_per_hour, money),
        _priced("Lower bound per hour", before.bound.cost_per_hour, after.bound.cost_per_hour, money),
        _counted("New nodes", len(before.plan.new_nodes), len(after.plan.new_nodes)),
        _counted("Pods that cannot be placed", len(before.plan.unplaced), len(after.plan.unplaced)),
    ]
    for name in SHOWN:
        one, two = (use(each, each.plan.new_nodes, name) for each in (before, after))
        table.append((f"{name.upper() if name == 'cpu' else name.capitalize()} in use", percent(one), percent(two), ""))
    kinds = [Counter(node.offering.capacity_type for node in each.plan.new_nodes) for each in (before, after)]
    both = sorted(kinds[0] | kinds[1])
    return (*table, *(_counted(f"{kind} nodes", kinds[0][kind], kinds[1][kind]) for kind in both))


def _priced(name: str, before: float, after: float, form: Any) -> Row:
    change = after - before
    if abs(change) < 1e-9:
        return (name, form(before), form(after), "same")
    sign = "+" if change > 0 else "−"
    share = f" ({'+' if change > 0 else '−'}{percent(abs(change) / before, 1)})" if before > 0 else ""
    return (name, form(before), form(after), f"{sign}{form(abs(change))}{share}")


def _counted(name: str, before: int, after: int) -> Row:
    change = after - before
    return (name, f"{before:,}", f"{after:,}", "same" if not change else f"{'+' if change > 0 else '−'}{abs(change):,}")


def node_rows(after: Simulation, before: Simulation) -> tuple[Row, ...]:
    """Return the number of nodes by type, capacity type and Provisioner, where it differs."""
    one, two = (
        {(g.instance_type, g.capacity_type, g.provisioner): len(g.nodes) for g in groups(each)}
        for each in (before, after)
    )
    keys = sorted(key for key in {*one, *two} if one.get(key, 0) != two.get(key, 0))
    return tuple(_counted(" ".join(key), one.get(key, 0), two.get(key, 0)) for key in keys)


def cost_rows(after: Simulation, before: Simulation) -> tuple[Row, ...]:
    """Return the $/month of the new nodes by namespace, where it differs; largest difference first."""
    two, one = (dict(costs_report.rows(planned_costs(each))) for each in (after, before))
    pairs = {
        name: tuple(costs.get(name, Cost()).price_per_hour for costs in (one, two)) for name in sorted({*one, *two})
    }
    changed = sorted(pairs.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
    return tuple(row for name, (old, new) in changed if (row := _priced(name, old, new, month))[3] != "same")


def _changes(after: Simulation, before: Simulation) -> Iterable[tuple[str, str, str, tuple[Row, ...]]]:
    """Yield (title of the table, summary of the folded one, its first column, rows) where something differs."""
    for title, words, head, changed in (
        ("Nodes", "Nodes that change", "nodes", node_rows(after, before)),
        ("Namespaces, $/month", "Namespaces whose cost changes, $/month", "namespace", cost_rows(after, before)),
    ):
        if changed:
            yield title, words, head, changed


def show(after: Simulation, before: Simulation, console: Console) -> None:
    console.print(_table("Figures", rows(after, before)))
    for title, _, _, changed in _changes(after, before):
        console.print()
        console.print(_table(title, changed))
    for label, each in (("before", before), ("after", after)):
        for reason, workloads in unplaced_by_reason(each):
            console.print(Text(f"\nCannot be placed {label}: {tally(workloads)}", style="bold red"))
            console.print(Text(f"  {reason}"))
    console.print()
    for note in dict.fromkeys((*after.notes, *before.notes)):
        console.print(Text(f"Note: {note}", style="dim"))


def _table(title: str, members: Iterable[Row]) -> Table:
    numbers = ("Before", "After", "Difference")
    table = titled_table(title, "", *numbers, right=numbers)
    for name, one, two, change in members:
        cheaper = change.startswith("−")
        style = "" if change in ("same", "") else "green" if cheaper else "red"
        table.add_row(Text(name), one, two, Text(change, style=style))
    return table


def markdown(after: Simulation, before: Simulation | None) -> str:
    """Return a pull request's comment: headline, tables, details folded."""
    if before is None:
        return "\n".join([MARKER, _headline_alone(after), "", *_nodes_markdown(after), *_closing(after, None)])
    lines = [
        MARKER,
        _headline(after, before),
        "",
        *_markdown_table(("", "before", "after", "difference"), rows(after, before)),
    ]
    for _, words, head, changed in _changes(after, before):
        folded = _markdown_table((head, "before", "after", "difference"), changed)
        lines += ["", f"<details><summary>{words}</summary>", "", *folded, "", "</details>"]
    return "\n".join([*lines, *_closing(after, before)])


def _headline_alone(simulation: Simulation) -> str:
    new = count(len(simulation.plan.new_nodes), "new node")
    price = f"{money(simulation.price_per_hour)}/h, {month(simulation.price_per_hour)}/month"
    return f"### Fleet simulation: {new}, {price}{_missing(simulation)}"


def _headline(after: Simulation, before: Simulation) -> str:
    change = after.price_per_hour - before.price_per_hour
    if abs(change) < 1e-9:
        verdict = "the price stays the same"
    else:
        share = f" ({percent(abs(change) / before.price_per_hour, 1)})" if before.price_per_hour > 0 else ""
        sum_a_month = f"{month(abs(change))} a month"
        verdict = f"costs {sum_a_month} more{share}" if change > 0 else f"saves {sum_a_month}{share}"
    return f"### Fleet simulation: {verdict}{_missing(after)}"


def _missing(simulation: Simulation) -> str:
    lost = len(simulation.plan.unplaced)
    return f"; **{count(lost, 'pod')} cannot be placed**" if lost else ""


def _nodes_markdown(simulation: Simulation) -> Iterable[str]:
    table = [
        (
            str(len(each.nodes)),
            f"{each.instance_type} {each.capacity_type}",
            each.provisioner,
            str(sum(len(node.pods) for node in each.nodes)),
            *(percent(use(simulation, each.nodes, name)) for name in SHOWN),
            month(each.price_per_hour),
        )
        for each in groups(simulation)
    ]
    return _markdown_table(("nodes", "type", "provisioner", "pods", "cpu", "memory", "$/month"), table)


def _closing(after: Simulation, before: Simulation | None) -> Iterable[str]:
    for each in (after, before):
        for reason, workloads in unplaced_by_reason(each) if each is not None else ():
            label = f" {each.name}" if each is not None and before is not None else ""
            yield f"\n**Cannot be placed{label}:** {_cell(tally(workloads))}: {_cell(reason)}"
    yield ""
    for note in dict.fromkeys((*after.notes, *(before.notes if before else ()))):
        yield f"<sub>{_cell(note)}</sub>"


def _markdown_table(head: tuple[str, ...], members: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    return lines + [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in members]


def _cell(text: str) -> str:
    """Escape a cell: names come from whoever opened the pull request."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
