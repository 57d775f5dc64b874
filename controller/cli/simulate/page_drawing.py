"""Draw which pods share which node.

A card is a node, or several equal ones, and wider the more it costs. Each resource is a bar with one piece per workload
in the workload's fill; the workloads that ask for least share one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice

from controller.cli.cluster.page_parts import MOST_FILLS, Piece, bar, fill
from controller.cli.cluster.simulation import Simulation
from controller.cli.cluster.simulation_report import groups, zones_of
from controller.cli.cluster.workload_costs import workload_of
from controller.cli.formatting import count, money, percent, tally
from controller.core.api.pod import PodKey
from controller.core.api.quantity import bare_words, in_words
from controller.core.provisioning import PlannedNode

ALWAYS = ("cpu", "memory")
DRAWN_CARDS = 400
"""Cards drawn at most; the table above has all nodes."""
MIN_WIDTH, MAX_WIDTH = 190, 420
OTHERS = "others"
GREY = "background:#8a93a3"


@dataclass(frozen=True, slots=True)
class Workloads:
    """Workload of each pod, and how each workload is drawn."""

    owners: Mapping[PodKey, str]
    fills: Mapping[str, str]
    """CSS of those that ask for most; the others are drawn as OTHERS."""


def drawing(simulation: Simulation, title: str, like: Simulation | None = None) -> Iterator[str]:
    """Yield the key and the cards of a plan; nothing without new nodes. `like`: with the fills of this one."""
    if not simulation.plan.new_nodes:
        return
    owners = {pod.key: workload_of(pod) for pod in simulation.problem.pending}
    workloads = Workloads(owners, _fills(like or simulation))
    placed = Counter(workloads.owners[key] for node in simulation.plan.new_nodes for key in node.pods)
    yield f'<h2>{escape(title)}</h2><div class="key">'
    for name in filter(placed.get, workloads.fills):
        yield f'<span><i style="{workloads.fills[name]}"></i>{escape(name)} ×{placed[name]:,}</span>'
    others = {name: number for name, number in placed.items() if name not in workloads.fills}
    if others:
        pods = count(sum(others.values()), "pod")
        yield f'<span><i style="{GREY}"></i>{count(len(others), "other workload")}, {pods}</span>'
    yield '<span class="soft"><i class="d"></i>DaemonSets; empty: free</span></div><div class="nodes">'
    alike: dict[object, list[PlannedNode]] = defaultdict(list)
    for group in groups(simulation):
        for node in group.nodes:
            alike[_likeness(node, workloads.owners)].append(node)
    dearest = max(node.offering.price for node in simulation.plan.new_nodes)
    for nodes in islice(alike.values(), DRAWN_CARDS):
        yield from _card(simulation, nodes, workloads, nodes[0].offering.price / dearest if dearest else 1.0)
    yield "</div>"
    left = sum(map(len, islice(alike.values(), DRAWN_CARDS, None)))
    if left:
        yield f"<p><small>{count(left, 'more node')} of the cheaper types, not drawn</small></p>"


def _fills(simulation: Simulation) -> Mapping[str, str]:
    """Return CSS by workload, of those that ask for most: by the mean of their shares of all CPU and all memory."""
    asked: Counter[tuple[str, str]] = Counter()
    for node in simulation.plan.new_nodes:
        for key in node.pods:
            pod = simulation.pods[key]
            for name in ALWAYS:
                asked[workload_of(pod), name] += pod.spec.requests.get(name, 0)
    whole = {name: sum(amount for (_, of), amount in asked.items() if of == name) or 1 for name in ALWAYS}
    weights: dict[str, float] = defaultdict(float)
    for (owner, name), amount in asked.items():
        weights[owner] += amount / whole[name]
    ordered = sorted(weights, key=lambda owner: (-weights[owner], owner))
    drawn = ordered if len(ordered) <= MOST_FILLS else ordered[: MOST_FILLS - 1]
    return {name: fill(number) for number, name in enumerate(drawn)}


def _likeness(node: PlannedNode, owners: Mapping[PodKey, str]) -> object:
    """Return a key equal for nodes that differ in zone alone."""
    offering, pods = node.offering, Counter(owners[key] for key in node.pods)
    bought = (offering.instance_type, offering.capacity_type, offering.price, node.provisioner)
    return bought, frozenset(pods.items()), frozenset(node.requests.items())


def _card(simulation: Simulation, nodes: Sequence[PlannedNode], workloads: Workloads, weight: float) -> Iterator[str]:
    """Yield the card of equal nodes; its workloads' names are there without a pointer too."""
    node, number = nodes[0], len(nodes)
    offering, times = node.offering, f" ×{number}" if number > 1 else ""
    width = round(MIN_WIDTH + (MAX_WIDTH - MIN_WIDTH) * weight)
    yield f'<div class="node" style="width:{width}px"><header><span>{escape(offering.instance_type + times)}</span>'
    yield f"<span>{money(offering.price)}/h{' each' if number > 1 else ''}</span></header>"
    pods_each = f"{count(len(node.pods), 'pod')}{' each' if number > 1 else ''}"
    place = f"{offering.capacity_type}, {zones_of(nodes)}, {node.provisioner}, {pods_each}"
    yield f'<p class="soft">{escape(place)}</p>'
    pods, allocatable = simulation.pods, simulation.allocatable(node)
    shares: dict[str, Counter[str]] = defaultdict(Counter)
    for key in node.pods:
        for name, amount in pods[key].spec.requests.items():
            shares[name][workloads.owners[key]] += amount
    for name in (*ALWAYS, *sorted(set(shares) - {*ALWAYS, "pods"})):
        if allocatable.get(name):
            yield _bar(name, shares[name], node.requests.get(name, 0), allocatable[name], workloads.fills)
    runs = Counter(workloads.owners[key] for key in node.pods)
    yield f"<details><summary>{count(len(runs), 'workload')}</summary>{escape(tally(runs))}</details>"
    yield "</div>"


def _bar(name: str, shares: Mapping[str, int], total: int, room: int, fills: Mapping[str, str]) -> str:
    """Return a resource: workloads in the order of the key, the others together, DaemonSets."""
    pieces = [
        Piece(shares[who] / room, f"{who}: {in_words(name, shares[who])}", background=fills[who])
        for who in fills
        if shares.get(who)
    ]
    others = {who: amount for who, amount in shares.items() if amount and who not in fills}
    if others:
        amount = sum(others.values())
        pieces.append(Piece(amount / room, f"{', '.join(sorted(others))}: {in_words(name, amount)}", background=GREY))
    daemons = max(0, total - sum(shares.values()))
    if daemons:
        pieces.append(Piece(daemons / room, f"DaemonSets: {in_words(name, daemons)}", "d"))
    label = escape(name.rpartition("/")[2])
    title = escape(f"{bare_words(name, total)} of {in_words(name, room)}")
    return (
        f'<div class="row" title="{title}"><span>{label}</span>{bar(pieces)}<span>{percent(total / room)}</span></div>'
    )
