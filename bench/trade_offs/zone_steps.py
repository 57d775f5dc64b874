"""What even zones cost: problems solved with growing demands on zone balance, as a table and a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bench.problems import arrange, decode, load, posed
from bench.trade_offs import zone_picture
from bench.trade_offs.zone_picture import Point
from controller.core.provisioning import SchedulingPlan, SchedulingProblem, SolveOptions, solve
from controller.core.zones.balance import ZoneBalance
from controller.settings import Settings

DEFAULT = Settings(cluster_name="bench").solve_options().zone_balance
STEPS = (
    ("prices alone", ZoneBalance()),
    ("default", DEFAULT),
    ("≤ 60 %, 10 % more", ZoneBalance(0.6, 0.1)),
    ("≤ 50 %, 10 % more", ZoneBalance(0.5, 0.1)),
    ("even, 10 % more", ZoneBalance(0.4, 0.1)),
    ("even at any price", ZoneBalance(0.4, 10.0)),
)
"""From no aim to even: with three zones 40 % is as even as nodes of a few sizes allow."""
HEAD = f"""# Zones: what an even spread costs

Made by `python -m bench zones FOLDER`. Each problem is solved with growing demands on
[zone balance](../adr/0075-zone-balance.md): the largest share of CPU that a zone may have, and what a node may cost
more for it; the default is {DEFAULT.max_share:.0%} and {DEFAULT.premium:.0%}. A cell: the largest share of a zone in
any Provisioner's CPU that has {DEFAULT.from_nodes} nodes or more (–: none has), and the expected cost ÷ that with
prices alone. It is below 1 where nodes that name the spot offerings of one zone leave out dearer ones of another.

In the picture a pale dot is a problem under one step; the full ones are the steps' means.

![cost against the largest share of a zone](zones.svg)

"""


@dataclass(frozen=True, slots=True)
class Step:
    """A plan: the largest share of a zone (None: no Provisioner has nodes enough), and its expected cost in $/hour."""

    share: float | None
    cost: float


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem's plans, one for each of STEPS."""

    name: str
    steps: tuple[Step, ...]


def measure(path: Path) -> Problem:
    """Solve a problem once for each step."""
    problem = posed(*arrange(decode(load(path))))
    plans = [solve(problem, SolveOptions(zone_balance=aim)) for _, aim in STEPS]
    steps = tuple(Step(_largest_share(problem, plan), _cost(plan)) for plan in plans)
    return Problem(path.name.removesuffix(".json.gz"), steps)


def _cost(plan: SchedulingPlan) -> float:
    return sum(node.expected_price + node.offering.cost - node.offering.price for node in plan.new_nodes)


def _largest_share(problem: SchedulingProblem, plan: SchedulingPlan) -> float | None:
    """Of new nodes alone: the problems' existing nodes are of no Provisioner."""
    shares = []
    for name in {node.provisioner for node in plan.new_nodes}:
        own = [node.offering for node in plan.new_nodes if node.provisioner == name]
        if len(own) >= DEFAULT.from_nodes:
            cpu = {kind.name: kind.allocatable["cpu"] for kind in problem.catalog[name]}
            load: Counter[str] = Counter()
            for offering in own:
                load[offering.zone] += cpu[offering.instance_type]
            shares.append(max(load.values()) / sum(load.values()))
    return max(shares, default=None)


def report(problems: Sequence[Problem]) -> str:
    """The table, and how often each step's share holds."""
    names = [name for name, _ in STEPS]
    rows = [f"| problem | {' | '.join(names)} |", "|---" + "|---:" * len(names) + "|"]
    rows += [f"| {each.name} | {' | '.join(_cell(each, step) for step in each.steps)} |" for each in problems]
    return "\n".join([*rows, "", *(_summary(problems, index) for index in range(len(STEPS)))]) + "\n"


def _cell(problem: Problem, step: Step) -> str:
    share = "–" if step.share is None else f"{step.share:.0%}"
    return f"{share}, {step.cost / problem.steps[0].cost:.3f}"


def _summary(problems: Sequence[Problem], index: int) -> str:
    name, aim = STEPS[index]
    counted = [each.steps[index] for each in problems if each.steps[index].share is not None]
    within = sum(step.share is not None and step.share <= DEFAULT.max_share + 1e-6 for step in counted)
    ratio = fmean(each.steps[index].cost / each.steps[0].cost for each in problems)
    own = sum(step.share is not None and step.share <= aim.max_share + 1e-6 for step in counted)
    kept = f", {own} within its own {aim.max_share:.0%}" if aim.max_share < 1 else ""
    return f"- {name}: {within} of {len(counted)} within {DEFAULT.max_share:.0%}{kept}; cost {ratio:.3f} on the mean."


def picture(problems: Sequence[Problem], days: Sequence[Problem] = ()) -> str:
    """The price of each step (`zone_picture`); without problems that have no Provisioner of nodes enough."""
    names = [name for name, _ in STEPS]
    return zone_picture.picture(names, _points(problems), _points(days))


def _points(problems: Sequence[Problem]) -> dict[str, list[Point]]:
    """By name: the largest share, and the cost ÷ that of prices alone, of each step."""
    return {
        each.name: [(step.share, step.cost / each.steps[0].cost) for step in each.steps if step.share is not None]
        for each in problems
        if all(step.share is not None for step in each.steps)
    }
