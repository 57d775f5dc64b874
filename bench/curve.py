"""Price against time: problems solved with growing budgets, as a picture (SVG) and a table (Markdown)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.runs import run
from controller.core.provisioning import SolveOptions

BUDGETS = (0.0, 0.05, 0.2, 1.0, 4.0)
"""Seconds: the first plan, then more and more refinement; 1 is the default."""
WIDTH, HEIGHT, MARGIN = 760, 420, 60
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#b8860b", "#4f5d75")


@dataclass(frozen=True, slots=True)
class Point:
    """One solve: its budget, the CPU seconds that it took, and its price over the bound."""

    budget: float
    seconds: float
    ratio: float


def measure(path: Path, budgets: Sequence[float] = BUDGETS) -> list[Point]:
    """The problem solved once per budget, in this process."""
    points = []
    for budget in budgets:
        one = run(path, SolveOptions(budget_seconds=budget))
        least = one.bound.cost_per_hour
        points.append(Point(budget, one.cpu_seconds, one.plan.cost_per_hour / least if least else 1.0))
    return points


def table(curves: dict[str, list[Point]]) -> str:
    """The points as a Markdown table, a row for each problem."""
    head = "| problem | " + " | ".join(f"budget {budget:g} s" for budget in BUDGETS) + " |"
    rows = [
        f"| {name} | " + " | ".join(f"{p.ratio:.3f} ({p.seconds:.2f} s)" for p in points) + " |"
        for name, points in curves.items()
    ]
    return "\n".join([head, "|---" * (len(BUDGETS) + 1) + "|", *rows]) + "\n"


def picture(curves: dict[str, list[Point]]) -> str:
    """The points as a line for each problem: seconds to the right, price over bound upwards."""
    longest = max(p.seconds for points in curves.values() for p in points)
    highest = max(p.ratio for points in curves.values() for p in points)

    def place(point: Point) -> str:
        x = MARGIN + (WIDTH - 2 * MARGIN) * point.seconds / longest
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (point.ratio - 1.0) / max(1e-9, highest - 1.0)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{MARGIN},{MARGIN} V{HEIGHT - MARGIN} H{WIDTH - MARGIN}" fill="none" stroke="black"/>',
        f'<text x="{MARGIN}" y="{MARGIN - 10}">price ÷ bound, up to {highest:.2f}</text>',
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - MARGIN + 30}" text-anchor="end">CPU s, up to {longest:.2f}</text>',
    ]
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(place(point) for point in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        legend = f'<text x="{WIDTH - 10}" y="{MARGIN + 16 * number}" text-anchor="end" fill="{colour}">'
        parts.append(f"{legend}{name}</text>")
    return "\n".join([*parts, "</svg>"]) + "\n"
