"""A simulation as one self-contained HTML page without scripts, with the packing drawn.

A card is a node, or several equal ones, and wider the more it costs. Each resource is a bar with one piece per workload
in the workload's colour.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice

from controller.cli.cluster.simulation import Simulation
from controller.cli.cluster.simulation_report import by_workload, groups, unplaced_by_reason, zones_of
from controller.cli.cluster.workload_costs import workload_of
from controller.cli.formatting import count, money, month, percent, tally
from controller.cli.simulate import comparison
from controller.core.api.pod import PodKey
from controller.core.api.quantity import format_quantity
from controller.core.provisioning import PlannedNode

GOLDEN_ANGLE = 137.508
"""Degrees between successive hues, so that neighbours differ."""
ALWAYS = ("cpu", "memory")
DRAWN_CARDS = 400
"""Cards drawn at most; the table above has all nodes."""
MIN_WIDTH, MAX_WIDTH = 190, 420

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1d2430; --soft: #667085; --line: #d9dee7; --bg: #f6f7f9; --card: #fff; --free: #eceff4; --bad: #b42318;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ef; --soft: #98a2b3; --line: #3a4150; --bg: #14171d; --card: #1d222b; --free: #2b313c; --bad: #f97066;
  }
}
* { box-sizing: border-box }
body { margin: 0; padding: 24px; font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--bg) }
h1 { font-size: 20px; margin: 0 0 16px }
h2 { font-size: 15px; margin: 28px 0 10px }
small, .soft { color: var(--soft) }
.bad, .bad b { color: var(--bad) }
.tiles, .nodes { display: flex; flex-wrap: wrap; gap: 10px }
.tile, .node, table { background: var(--card); border: 1px solid var(--line); border-radius: 8px }
.tile { padding: 10px 16px }
.tile b { display: block; font-size: 20px }
table { border-collapse: collapse; display: block; width: fit-content; max-width: 100%; overflow-x: auto }
th, td { padding: 5px 12px; text-align: right; border-bottom: 1px solid var(--line) }
.w { text-align: left }
.node { padding: 8px 10px }
.node header { display: flex; justify-content: space-between; gap: 8px; font-weight: 600 }
.node p { margin: 0 0 6px; font-size: 12px }
.row { display: grid; grid-template-columns: 58px 1fr 38px; gap: 6px; align-items: center; font-size: 11px }
.row { margin-top: 3px }
.bar { display: flex; height: 14px; background: var(--free); border-radius: 3px; overflow: hidden }
.bar i { display: block; height: 100%; border-right: 1px solid var(--card) }
.bar i.d { background: repeating-linear-gradient(45deg, #98a2b3 0 3px, transparent 3px 6px) }
.key { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; margin-bottom: 12px }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px }
"""


def page(simulation: Simulation, before: Simulation | None = None) -> str:
    """The page as HTML. Names are escaped, and nothing is loaded from elsewhere."""
    body = [
        "<h1>Fleet simulation</h1>",
        *_tiles(simulation, before),
        *(_comparison(simulation, before) if before is not None else ()),
        *_missing(simulation),
        *_groups(simulation),
        *_drawing(simulation),
        *_existing(simulation),
        *(f"<p><small>{escape(note)}</small></p>" for note in simulation.notes),
    ]
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width"><title>Fleet simulation</title>',
            f"<style>{STYLE}</style></head><body>",
            *body,
            "</body></html>",
            "",
        ]
    )


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
    yield '<div class="tiles">'
    for figure, text, style in tiles:
        yield f'<div class="tile {style}"><b>{escape(figure)}</b><small>{escape(text)}</small></div>'
    yield "</div>"


def _counted(number: int, noun: str, more: str = "", style: str = "") -> tuple[str, str, str]:
    figure, _, words = count(number, noun).partition(" ")
    return figure, words + more, style


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], words: int = 1) -> Iterator[str]:
    """A table whose first `words` columns are text, the others numbers."""
    yield f"<table><tr>{_cells('th', head, words)}</tr>"
    for row in rows:
        yield f"<tr>{_cells('td', row, words)}</tr>"
    yield "</table>"


def _cells(tag: str, cells: Iterable[str], words: int) -> str:
    marked = ((cell, ' class="w"' if index < words else "") for index, cell in enumerate(cells))
    return "".join(f"<{tag}{mark}>{escape(cell)}</{tag}>" for cell, mark in marked)


def _comparison(simulation: Simulation, before: Simulation) -> Iterator[str]:
    yield "<h2>Compared</h2>"
    rows = [*comparison.rows(simulation, before), *comparison.node_rows(simulation, before)]
    yield from _table(("", "before", "after", "difference"), rows)


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
            each.zones,
            f"{len(each.nodes):,}",
            f"{sum(len(node.pods) for node in each.nodes):,}",
            money(each.price_per_hour),
            month(each.price_per_hour),
        )
        for each in groups(simulation)
    ]
    yield from _table(head, rows, words=4)


def _drawing(simulation: Simulation) -> Iterator[str]:
    if not simulation.plan.new_nodes:
        return
    owners = {pod.key: workload_of(pod) for pod in simulation.problem.pending}
    placed = Counter(owners[key] for node in simulation.plan.new_nodes for key in node.pods)
    colours = {name: _colour(number) for number, name in enumerate(sorted(placed))}
    yield '<h2>What runs where</h2><div class="key">'
    for name, number in sorted(placed.items()):
        yield f'<span><i style="background:{colours[name]}"></i>{escape(name)} ×{number}</span>'
    yield '<span class="soft">hatched: DaemonSets; empty: free</span></div><div class="nodes">'
    alike: dict[object, list[PlannedNode]] = defaultdict(list)
    for group in groups(simulation):
        for node in group.nodes:
            alike[_likeness(node, owners)].append(node)
    dearest = max(node.offering.price for node in simulation.plan.new_nodes)
    for nodes in islice(alike.values(), DRAWN_CARDS):
        yield from _card(simulation, nodes, owners, colours, nodes[0].offering.price / dearest if dearest else 1.0)
    yield "</div>"
    left = sum(map(len, islice(alike.values(), DRAWN_CARDS, None)))
    if left:
        yield f"<p><small>{count(left, 'more node')} of the cheaper types, not drawn</small></p>"


def _likeness(node: PlannedNode, owners: Mapping[PodKey, str]) -> object:
    """A key equal for nodes that differ in zone alone."""
    offering, pods = node.offering, Counter(owners[key] for key in node.pods)
    bought = (offering.instance_type, offering.capacity_type, offering.price, node.provisioner)
    return bought, frozenset(pods.items()), frozenset(node.requests.items())


def _colour(number: int) -> str:
    return f"hsl({number * GOLDEN_ANGLE % 360:.0f} 58% {(52, 44, 60)[number % 3]}%)"


def _card(
    simulation: Simulation,
    nodes: Sequence[PlannedNode],
    owners: Mapping[PodKey, str],
    colours: Mapping[str, str],
    weight: float,
) -> Iterator[str]:
    """The card of equal nodes."""
    node, number = nodes[0], len(nodes)
    offering, times = node.offering, f" ×{number}" if number > 1 else ""
    width = round(MIN_WIDTH + (MAX_WIDTH - MIN_WIDTH) * weight)
    yield f'<div class="node" style="width:{width}px"><header><span>{escape(offering.instance_type + times)}</span>'
    yield f"<span>{money(offering.price)}/h{' each' if number > 1 else ''}</span></header>"
    pods_each = f"{count(len(node.pods), 'pod')}{' each' if number > 1 else ''}"
    place = f"{offering.capacity_type}, {zones_of(nodes)}, {node.provisioner}, {pods_each}"
    yield f'<p class="soft">{escape(place)}</p>'
    pods, allocatable = simulation.pods, simulation.allocatable(node)
    shares: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key in node.pods:
        for name, amount in pods[key].spec.requests.items():
            shares[name][owners[key]] += amount
    for name in (*ALWAYS, *sorted(set(shares) - {*ALWAYS, "pods"})):
        if allocatable.get(name):
            yield _bar(name, shares[name], node.requests.get(name, 0), allocatable[name], colours)
    yield "</div>"


def _bar(name: str, shares: Mapping[str, int], total: int, room: int, colours: Mapping[str, str]) -> str:
    daemons = max(0, total - sum(shares.values()))
    pieces = [(who, amount, f'style="background:{colours[who]};') for who, amount in sorted(shares.items()) if amount]
    if daemons:
        pieces.append(("DaemonSets", daemons, 'class="d" style="'))
    drawn = "".join(
        f'<i {style}width:{100 * amount / room:.2f}%" title="{escape(f"{who}: {format_quantity(name, amount)}")}"></i>'
        for who, amount, style in pieces
    )
    label = escape(name.rpartition("/")[2])
    title = escape(f"{name}: {format_quantity(name, total)} of {format_quantity(name, room)}")
    return (
        f'<div class="row" title="{title}"><span>{label}</span><div class="bar">{drawn}</div>'
        f"<span>{percent(total / room)}</span></div>"
    )


def _existing(simulation: Simulation) -> Iterator[str]:
    if simulation.plan.existing:
        yield "<h2>On existing nodes</h2>"
        rows = ((each.node, tally(by_workload(simulation, each.pods))) for each in simulation.plan.existing)
        yield from _table(("node", "pods"), rows, words=2)
