"""The tables of what spot nodes are expected to cost, and of what correlated losses take.

Figures of a plan, over the bound on prices: its listed price, the price expected from the offerings that its requests
name, and the same if every node named at least a given number of offerings within the price tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from bench.field import SHAPES, posed, shipped
from bench.problems import arrange, decode, load
from bench.problems import posed as posed_file
from bench.spot.losses import LEAST_REPLICAS, LOSSES, SHARE, losses
from bench.spot.possible import Possible
from controller.core.api import labels
from controller.core.provisioning import SchedulingPlan, SchedulingProblem, SolveOptions, solve
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.solver.pool_sharing import MOST_PREMIUM

COUNTS = (1, 2, 3, 5)
HEAD = ("problem", "pods", "nodes", "named", "price ÷ bound", "expected ÷ bound", *(f"at least {n}" for n in COUNTS))
LOSS_HEAD = (
    "shape",
    "spot nodes",
    "named",
    "workloads",
    "without spreading",
    "over half lost",
    "proven",
    "for more money",
)
LEFT_HEAD = ("shape", "workload", "replicas", "lost with a", "alone costs at least")


def expected_of(plan: SchedulingPlan, least: int) -> float:
    """$/hour if each spot node named so many offerings at least."""
    nodes = (
        replace(n, first_choice=(), flexibility=replace(n.flexibility, spot_offerings=least)) for n in plan.new_nodes
    )
    return sum(node.expected_price for node in nodes)


def named_of(plan: SchedulingPlan) -> float:
    """Offerings that a spot node names first, on the mean; 0 without spot nodes."""
    spot = [len(node.named) for node in plan.new_nodes if node.offering.capacity_type == labels.SPOT]
    return fmean(spot) if spot else 0.0


def price_line(name: str, problem: SchedulingProblem) -> tuple[str, tuple[float, ...]]:
    """A problem's line of the table, and its ratios in the order of HEAD."""
    options = SolveOptions()
    plan, least = solve(problem, options), bound(problem, options.of_prices_alone()).cost_per_hour
    paid = (plan.price_per_hour, plan.expected_price_per_hour, *(expected_of(plan, n) for n in COUNTS))
    ratios = tuple(price / least for price in paid)
    counted = (len(problem.pending), len(plan.new_nodes))
    cells = (name, *map(str, counted), f"{named_of(plan):.1f}", *(f"{ratio:.3f}" for ratio in ratios))
    return row(cells), ratios


def loss_lines(shape: str, problem: SchedulingProblem) -> tuple[str, list[str]]:
    """A shape's line of the table of losses, and a line for each workload that still loses over half."""
    options = SolveOptions()
    spread, free = solve(problem, options), solve(problem, replace(options, spot_pool_share=1.0))
    with_rule, without = losses(spread), losses(free)
    more = spread.expected_price_per_hour / free.expected_price_per_hour - 1
    spot = sum(node.offering.capacity_type == labels.SPOT for node in spread.new_nodes)
    paid, possible = free.expected_price_per_hour, Possible(problem)
    never = possible.lost((1.0 + MOST_PREMIUM) * paid) if with_rule.failed else 0
    counted = (with_rule.workloads, len(without.failed), len(with_rule.failed), never)
    left = []
    for name, added in possible.added(sorted(with_rule.failed)).items():
        cost, kinds = (
            "no price" if added is None else f"{added / paid:+.1%}",
            " or ".join(sorted(with_rule.failed[name])),
        )
        left.append(row((shape, name.removeprefix("uid-"), str(len(possible.pods[name])), kinds, cost)))
    return row((shape, str(spot), f"{named_of(spread):.1f}", *map(str, counted), f"{more:+.1%}")), left


def row(cells: Iterable[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def tables(files: Sequence[Path]) -> Iterable[str]:
    """Both tables, line by line."""
    yield from (row(HEAD), "|---" + "|---:" * (len(HEAD) - 1) + "|")
    every = []
    for file in files:
        line, ratios = price_line(file.name.removesuffix(".json.gz"), posed_file(*arrange(decode(load(file)))))
        every.append(ratios)
        yield line
    if every:
        yield row(("mean", "", "", "", *(f"{fmean(column):.3f}" for column in zip(*every, strict=True))))
    yield from ("", row(LOSS_HEAD), "|---" + "|---:" * (len(LOSS_HEAD) - 1) + "|")
    left = []
    for shape in SHAPES:
        line, more = loss_lines(shape, posed(shape, shipped()))
        left += more
        yield line
    if left:
        yield from ("", row(LEFT_HEAD), "|---" * 2 + "|---:" + "|---" + "|---:|", *left)


def report(lines: Iterable[str]) -> str:
    """The document."""
    return f"""# Expected price and correlated losses

Made by `python -m bench expected FILES`. *Price*: each node at its cheapest offering. *Expected*: any of the offerings
that its launch names first, each as likely, which is dearer than what `price-capacity-optimized` promises: the cheapest
of the deepest pools. *Named*: how many these are, on the mean. *At least n*: with `aws.spotOfferings` n. All over the
bound on prices.

The shapes of [field-shapes.md](field-shapes.md), {LOSSES:,} losses each: EC2 reclaims a type in a zone, a family, or a
zone. Workloads have {LEAST_REPLICAS} replicas or more; *over half lost* counts those that some loss took over half
of, with `aws.spotPoolShare` {SHARE:g}, *without spreading* with 1. *Proven*: so many lose over half in every plan for
at most {MOST_PREMIUM:.0%} more (`bench/spot/possible.py`: an integer program over divisible pods and nodes). *For more
money* is what spreading adds to the expected price. The last table has the workloads that are left: the losses that
take over half of them, and what it adds to the price at least to keep that one alone.

{chr(10).join(lines)}
"""
