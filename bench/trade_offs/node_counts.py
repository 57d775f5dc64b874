"""Price against nodes: problems solved with growing costs of a node, as a table (Markdown) and a picture (SVG)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench.problems import arrange, decode, load, posed
from bench.report import KarpenterFigures
from controller.core.provisioning import SolveOptions, solve

BEFORE = 0.002
"""$ an hour that a node counted before ADR 24: prices are told as ratios to the plan's price at that."""
COSTS = (BEFORE, SolveOptions().node_cost_per_hour, 0.1, 0.4)
MOST_NODES, MOST_PRICE = 1.5, 1.02
"""The goal: of Karpenter 1.14's nodes, and of the price before."""
WIDTH, HEIGHT, MARGIN = 760, 420, 60
MET, MISSED = "#1b6ca8", "#c8553d"
HEAD = """# Fewer nodes: price against nodes

Made by `python -m bench nodes FOLDER --karpenter FILE`. Each problem is solved with growing costs of a node beside
its price (`nodeCostPerHour`). A cell: price ÷ that of the plan at $0.002, as before
[ADR 24](../adr/0024-fewer-nodes.md), nodes, and in brackets nodes ÷ Karpenter 1.14's. Karpenter leaves out the pods in
brackets, and its price is told by the same measure. Goal: at most 1.5 × Karpenter's nodes at a price of at most 1.02.

![price against nodes](fewer-nodes.svg)

"""


@dataclass(frozen=True, slots=True)
class Point:
    """A plan at one cost of a node ($/hour): its price ($/hour) and its nodes."""

    cost: float
    price: float
    nodes: int


@dataclass(frozen=True, slots=True)
class Frontier:
    """A problem's points, by growing cost, and what Karpenter 1.14 made of it."""

    name: str
    points: tuple[Point, ...]
    karpenter: KarpenterFigures

    def ratios(self, point: Point) -> tuple[float, float]:
        """Nodes over Karpenter 1.14's, and price over the first point's."""
        return point.nodes / max(1, self.karpenter.nodes), point.price / self.points[0].price

    def meets(self, point: Point) -> bool:
        """Whether a point is within the goal."""
        nodes, price = self.ratios(point)
        return nodes <= MOST_NODES and price <= MOST_PRICE

    @property
    def default(self) -> Point:
        """The plan at the default."""
        return next(point for point in self.points if point.cost == SolveOptions().node_cost_per_hour)

    @property
    def fewest(self) -> Point:
        """The fewest nodes within the goal's price."""
        return min((p for p in self.points if self.ratios(p)[1] <= MOST_PRICE), key=lambda p: (p.nodes, p.price))

    def verdict(self) -> str:
        """Whether the goal is met, or where it is missed."""
        if self.meets(self.default):
            return "met"
        nodes, _ = self.ratios(self.default)
        if self.meets(self.fewest):
            return f"met at ${self.fewest.cost:g}"
        reached = next((self.ratios(p)[1] for p in self.points if self.ratios(p)[0] <= MOST_NODES), None)
        missed = "price" if nodes <= MOST_NODES else "nodes"
        return f"{missed}: so few nodes cost {reached:.3f}" if reached else f"{missed}: so few at no cost tried"


def measure(path: Path, karpenter: KarpenterFigures, costs: Sequence[float] = COSTS) -> Frontier:
    """Solve a problem once for each cost."""
    problem = posed(*arrange(decode(load(path))))
    plans = [(cost, solve(problem, SolveOptions(node_cost_per_hour=cost))) for cost in costs]
    points = tuple(Point(cost, plan.price_per_hour, len(plan.new_nodes)) for cost, plan in plans)
    return Frontier(path.name.removesuffix(".json.gz"), points, karpenter)


def report(frontiers: Sequence[Frontier]) -> str:
    """The table, and how many problems meet the goal."""
    costs = [point.cost for point in frontiers[0].points]
    head = ("problem", "Karpenter's nodes", "its price", *(f"${cost:g}" for cost in costs), "goal")
    rows = [_line(head), "|---" + "|---:" * (len(costs) + 2) + "|---|", *(_line(_cells(each)) for each in frontiers)]
    met = [each for each in frontiers if each.meets(each.default)]
    prices = [each.ratios(each.default)[1] for each in frontiers]
    nodes = [each.default.nodes / max(1, each.points[0].nodes) for each in frontiers]
    nearly = [each for each in frontiers if each not in met and each.meets(each.fewest)]
    return (
        "\n".join(
            [
                *rows,
                "",
                f"- The goal is met at the default by {len(met)} of {len(frontiers)} problems, and by {len(nearly)} "
                "more at another cost of a node.",
                f"- At the default ÷ before, on the mean: price {fmean(prices):.3f}, nodes {fmean(nodes):.3f}.",
            ]
        )
        + "\n"
    )


def picture(frontiers: Sequence[Frontier]) -> str:
    """A line for each problem: nodes ÷ Karpenter's to the right, price ÷ before upwards; the goal is the shaded box."""
    most_nodes, low, high = 4.0, 0.95, 1.15

    def place(ratios: tuple[float, float]) -> str:
        nodes, price = min(ratios[0], most_nodes), min(max(ratios[1], low), high)
        x = MARGIN + (WIDTH - 2 * MARGIN) * nodes / most_nodes
        return f"{x:.1f},{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (price - low) / (high - low):.1f}"

    left, top = place((0.0, MOST_PRICE)).split(",")
    right, bottom = place((MOST_NODES, low)).split(",")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{left},{top} H{right} V{bottom} H{left} Z" fill="#e6efe6"/>',
        f'<path d="M{MARGIN},{MARGIN} V{HEIGHT - MARGIN} H{WIDTH - MARGIN}" fill="none" stroke="black"/>',
        f'<text x="{MARGIN}" y="{MARGIN - 10}">price ÷ price at ${BEFORE:g} a node, {low:g} to {high:g}; shaded: the '
        "goal; blue: met at the default; point: the default</text>",
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - MARGIN + 30}" text-anchor="end">nodes ÷ Karpenter 1.14\'s, up to '
        f"{most_nodes:g}</text>",
    ]
    for each in frontiers:
        colour = MET if each.meets(each.default) else MISSED
        line = " ".join(place(each.ratios(point)) for point in each.points)
        x, y = place(each.ratios(each.default)).split(",")
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-opacity="0.5"/>')
        parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"><title>{each.name}</title></circle>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _cells(each: Frontier) -> tuple[str, ...]:
    theirs = each.karpenter
    left_out = f" ({theirs.left_out:,})" if theirs.left_out else ""
    points = [(point.nodes, *each.ratios(point)) for point in each.points]
    return (
        each.name,
        f"{theirs.nodes:,}{left_out}",
        f"{theirs.price / each.points[0].price:.2f}",
        *(f"{price:.3f}, {nodes:,} ({ratio:.2f})" for nodes, ratio, price in points),
        each.verdict(),
    )


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
