"""Money against moves: days lived under the settings that a user has, as a table and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.curve import COLOURS, HEIGHT, MARGIN, WIDTH
from bench.life.day import Day
from bench.life.optimum import optimum
from bench.life.report import bound_dollars, ratios
from bench.life.run import live

THRESHOLDS = (0.0, 0.15, 0.5, 1.0, 2.0)
THRESHOLD = "karpenter.sh/consolidation-threshold"


@dataclass(frozen=True, slots=True)
class Point:
    """A day under a threshold: evictions, $ and the worst $ an hour at a phase's end over the bound's, CPU seconds."""

    day: str
    threshold: float
    evictions: int
    ratio: float
    worst_end: float
    launched: int
    seconds: float


def points(days: Sequence[Day], thresholds: Sequence[float]) -> Iterator[Point]:
    """Every day under every threshold."""
    for day in days:
        optima = [optimum(day, phase) for phase in day.phases]
        for threshold in thresholds:
            lived = live(day, provisioner={THRESHOLD: f"{threshold:g}"})
            ratio, worst = lived.dollars / bound_dollars(lived, optima), max(ratios(lived, optima))
            yield Point(day.name, threshold, lived.evictions, ratio, worst, lived.launched, lived.processor_seconds)


def table(found: Sequence[Point]) -> str:
    """A row for each point."""
    head = "| day | threshold | evictions | $ ÷ bound | worst end of a phase ÷ bound | launched | CPU s |\n"
    rows = (
        f"| {p.day} | {p.threshold:g} | {p.evictions} | {p.ratio:.2f} | {p.worst_end:.2f} | {p.launched} "
        f"| {p.seconds:.0f} |\n"
        for p in found
    )
    return head + "|---" * 7 + "|\n" + "".join(rows)


def picture(found: Sequence[Point]) -> str:
    """A line for each day: evictions to the right, $ over the bound's upwards, the threshold at each point."""
    most, highest = max(1, *(p.evictions for p in found)), max(p.ratio for p in found)

    def place(point: Point) -> tuple[float, float]:
        x = MARGIN + (WIDTH - 2 * MARGIN) * point.evictions / most
        return x, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (point.ratio - 1.0) / max(1e-9, highest - 1.0)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{MARGIN},{MARGIN} V{HEIGHT - MARGIN} H{WIDTH - MARGIN}" fill="none" stroke="black"/>',
        f'<text x="{MARGIN}" y="{MARGIN - 10}">$ of the day ÷ bound, 1 to {highest:.2f}</text>',
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - MARGIN + 30}" text-anchor="end">evictions, up to {most}</text>',
    ]
    for number, day in enumerate(dict.fromkeys(p.day for p in found)):
        colour = COLOURS[number % len(COLOURS)]
        own = sorted((p for p in found if p.day == day), key=lambda p: p.evictions)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, own))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - 120}" y="{MARGIN + 16 * number}" fill="{colour}">{day}</text>')
        for point in own:
            x, y = place(point)
            parts.append(f'<text x="{x + 4:.1f}" y="{y - 4:.1f}" fill="{colour}">{point.threshold:g}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
