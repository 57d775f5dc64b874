"""The price of even zones as a picture (SVG): the largest share of a zone to the right, cost upwards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

Point = tuple[float, float]
"""The largest share of a zone, 0 to 1, and cost ÷ that of prices alone."""
WIDTH, HEIGHT, MARGIN, LEGEND = 860, 420, 60, 250
"""`LEGEND`: the width that the legend has, to the right."""
COLOURS = ("#1b6ca8", "#3a7d44", "#b8860b", "#c8553d", "#7b4b94", "#222222")
LEAST_SHARE, SHARE_TICK, COST_TICK = 0.3, 0.1, 0.05


@dataclass(frozen=True, slots=True)
class _Axes:
    """The plot's area, from LEAST_SHARE to 1 and from `low` to `high`."""

    low: float
    high: float

    def x(self, share: float) -> float:
        return MARGIN + (WIDTH - MARGIN - LEGEND) * (share - LEAST_SHARE) / (1.0 - LEAST_SHARE)

    def y(self, cost: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (cost - self.low) / (self.high - self.low)

    def lines(self) -> Iterator[str]:
        """Both axes with their ticks, and a line where the cost is that of prices alone."""
        left, right, bottom = self.x(LEAST_SHARE), self.x(1.0), self.y(self.low)
        yield f'<path d="M{left},{MARGIN} V{bottom:.1f} H{right:.1f}" fill="none" stroke="black"/>'
        yield f'<path d="M{left},{self.y(1.0):.1f} H{right:.1f}" stroke="#bbb"/>'
        yield f'<text x="{left - 30}" y="{MARGIN - 20}">cost ÷ that of prices alone</text>'
        yield f'<text x="{right:.1f}" y="{bottom + 42:.1f}" text-anchor="end">largest share of a zone in CPU</text>'
        for tick in _ticks(LEAST_SHARE, 1.0, SHARE_TICK):
            yield f'<text x="{self.x(tick):.1f}" y="{bottom + 20:.1f}" text-anchor="middle">{tick:.0%}</text>'
        for tick in _ticks(self.low, self.high, COST_TICK):
            yield f'<text x="{left - 8}" y="{self.y(tick) + 4:.1f}" text-anchor="end">{tick:.2f}</text>'


def picture(steps: Sequence[str], problems: Mapping[str, Sequence[Point]], days: Mapping[str, Sequence[Point]]) -> str:
    """A colour for each step, in which each problem is a pale dot, and the problems' mean and each day are full ones.

    The means are joined by a line, a day's by a dashed one. Of each there are as many points as `steps`.
    """
    lines = {"problems, mean": _mean(problems.values())} if problems else {}
    costs = [cost for points in (*problems.values(), *days.values()) for _, cost in points]
    axes = _Axes(math.floor(min(costs) / COST_TICK) * COST_TICK, math.ceil(max(costs) / COST_TICK) * COST_TICK)
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *axes.lines()]
    for name, points in problems.items():
        parts += _dots(axes, name, steps, points, 'r="3.5" fill-opacity="0.35"')
    for name, points in (lines | dict(days)).items():
        dashes = ' stroke-dasharray="5 3"' if name in days else ""
        path = " ".join(f"{axes.x(share):.1f},{axes.y(cost):.1f}" for share, cost in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="#555"{dashes}/>')
        parts += _dots(axes, name, steps, points, 'r="6" stroke="white"')
    parts += _legend(steps, lines | dict(days), days.keys())
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
    return "\n".join([f'{head}font-size="12">', *parts, "</svg>"]) + "\n"


def _dots(axes: _Axes, name: str, steps: Sequence[str], points: Sequence[Point], look: str) -> Iterator[str]:
    for step, colour, (share, cost) in zip(steps, COLOURS, points, strict=False):
        place = f'cx="{axes.x(share):.1f}" cy="{axes.y(cost):.1f}"'
        yield f'<circle {place} fill="{colour}" {look}><title>{name}, {step}: {share:.0%}, {cost:.3f}</title></circle>'


def _legend(steps: Sequence[str], lines: Mapping[str, Sequence[Point]], days: Iterable[str]) -> Iterator[str]:
    """For each line its name, and for each step its colour, share and cost."""
    x, y = WIDTH - LEGEND + 20, MARGIN
    for name, points in lines.items():
        yield f'<text x="{x}" y="{y}" font-weight="bold">{name}{" (dashed)" if name in days else ""}</text>'
        for step, colour, (share, cost) in zip(steps, COLOURS, points, strict=False):
            y += 18
            yield f'<circle cx="{x + 6}" cy="{y - 4}" r="5" fill="{colour}"/>'
            yield f'<text x="{x + 18}" y="{y}">{step}: {share:.0%}, {cost:.3f}</text>'
        y += 32


def _mean(problems: Iterable[Sequence[Point]]) -> list[Point]:
    """By step, over the problems."""
    by_step = zip(*problems, strict=True)
    return [(fmean(share for share, _ in points), fmean(cost for _, cost in points)) for points in by_step]


def _ticks(low: float, high: float, step: float) -> list[float]:
    return [low + step * index for index in range(round((high - low) / step) + 1)]
