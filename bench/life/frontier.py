"""Money against moves: days lived under the settings that a user has, as a table and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from bench.curve import COLOURS, HEIGHT, MARGIN, WIDTH
from bench.life.day import Day, varied
from bench.life.optimum import optimum
from bench.life.report import bound_dollars, ratios
from bench.life.run import live
from controller.core.deprovisioning.worth import DEFAULT_THRESHOLD

THRESHOLD = "karpenter.sh/consolidation-threshold"
HEAD = f"""# Money against moves

`python -m bench frontier DAY --into docs/benchmarks`: the day of [life](life.md) in virtual time, under the settings
that trade money against moves, each alone changed from its default: the annotation
`karpenter.sh/consolidation-threshold` (share of the cost saved over share of the pods moved, the least that a removal
must reach; default {DEFAULT_THRESHOLD:g}) and the settings `nodeCostPerHour` (default 0.02), `podDeletionCost`,
`onDemandTaint` and `placeAsPlanned`. Means over the day and, with `--draws`, days with 0.7 to 1.3 times its replicas,
each Deployment by its own factor: single days differ from each other by chance more than the settings do.
Why the defaults are what they are: [ADR 77](../adr/0077-sets-go-in-part.md),
[79](../adr/0079-on-demand-nodes-are-left-to-pods-that-need-them.md),
[84](../adr/0084-pods-are-placed-as-planned.md).

![$ of the day over the bound, by evictions](life-frontier.svg)

"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user may choose: annotations of the Provisioner, and settings. `line`: joined by a line in the picture."""

    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    line: bool = False


CHOICES = (
    Choice("defaults", line=True),
    *(Choice(f"threshold {t:g}", {THRESHOLD: f"{t:g}"}, line=True) for t in (0.1, 0.4, 0.6, 1.0)),
    *(Choice(f"nodeCostPerHour {cost:g}", settings={"node_cost_per_hour": cost}) for cost in (0.002, 0.05)),
    Choice("podDeletionCost false", settings={"pod_deletion_cost": False}),
    Choice("onDemandTaint false", settings={"on_demand_taint": False}),
    Choice("placeAsPlanned false", settings={"place_as_planned": False}),
)


@dataclass(frozen=True, slots=True)
class Point:
    """A day under a choice, means over its lives: evictions, $ and the worst $ an hour at a phase's end over the
    bound's, the longest wait of a pod in seconds, CPU seconds."""

    day: str
    choice: Choice
    evictions: float
    ratio: float
    worst_end: float
    wait: float
    machines: float
    launched: float
    seconds: float


def points(days: Sequence[Day], choices: Sequence[Choice] = CHOICES, draws: int = 1) -> Iterator[Point]:
    """Every day under every choice: as it is, and varied until there are `draws` of it."""
    for day in days:
        drawn = [day, *(varied(day, seed) for seed in range(2, draws + 1))]
        optima = [[optimum(each, phase) for phase in each.phases] for each in drawn]
        for choice in choices:
            lives = [
                live(each, seed=seed, provisioner=choice.annotations, settings=choice.settings)
                for seed, each in enumerate(drawn, start=1)
            ]
            yield Point(
                day=day.name,
                choice=choice,
                evictions=mean(each.evictions for each in lives),
                ratio=mean(each.dollars / bound_dollars(each, own) for each, own in zip(lives, optima, strict=True)),
                worst_end=mean(max(ratios(each, own)) for each, own in zip(lives, optima, strict=True)),
                wait=mean(each.wait_max for each in lives),
                machines=mean(each.most_machines for each in lives),
                launched=mean(each.launched for each in lives),
                seconds=mean(each.processor_seconds for each in lives),
            )


def table(found: Sequence[Point]) -> str:
    """A row for each point."""
    heads = (
        "day",
        "",
        "evictions",
        "$ ÷ bound",
        "worst end of a phase ÷ bound",
        "longest wait, s",
        "most machines",
        "launched",
        "CPU s",
    )
    rows = (
        f"| {p.day} | {p.choice.name} | {p.evictions:.0f} | {p.ratio:.2f} | {p.worst_end:.2f} | {p.wait:.0f} "
        f"| {p.machines:.0f} | {p.launched:.0f} | {p.seconds:.0f} |\n"
        for p in found
    )
    return f"| {' | '.join(heads)} |\n" + "|---" * len(heads) + "|\n" + "".join(rows)


def picture(found: Sequence[Point]) -> str:
    """A colour for each day: evictions to the right, $ over the bound's upwards, each choice's number at its point."""
    most, levels = max(1, *(p.evictions for p in found)), [p.ratio for p in found]
    lowest, highest = min(levels), max(levels)

    def place(point: Point) -> tuple[float, float]:
        x = MARGIN + (WIDTH - 2 * MARGIN) * point.evictions / most
        return x, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (point.ratio - lowest) / max(1e-9, highest - lowest)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<path d="M{MARGIN},{MARGIN} V{HEIGHT - MARGIN} H{WIDTH - MARGIN}" fill="none" stroke="black"/>',
        f'<text x="{MARGIN}" y="{MARGIN - 10}">$ of the day ÷ bound, {lowest:.2f} to {highest:.2f}</text>',
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - MARGIN + 30}" text-anchor="end">evictions, up to {most:.0f}</text>',
    ]
    numbers = {name: place for place, name in enumerate(dict.fromkeys(p.choice.name for p in found), start=1)}
    legend = f'<text x="{WIDTH - MARGIN}" text-anchor="end" '
    for name, number in numbers.items():
        parts.append(f'{legend}y="{MARGIN + 30 + 16 * number}">{name}: {number}</text>')
    for number, day in enumerate(dict.fromkeys(p.day for p in found)):
        colour = COLOURS[number % len(COLOURS)]
        own = sorted((p for p in found if p.day == day), key=lambda p: p.evictions)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(p) for p in own if p.choice.line))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'{legend}y="{HEIGHT - MARGIN - 10 - 16 * number}" fill="{colour}">{day}</text>')
        for point in own:
            x, y = place(point)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            parts.append(f'<text x="{x + 5:.1f}" y="{y - 5:.1f}" fill="{colour}">{numbers[point.choice.name]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
