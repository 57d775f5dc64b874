"""Charts of a comparison: each figure before and after, to one scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from controller.cli.cluster import costs_report
from controller.cli.cluster.page_parts import Pair, pairs
from controller.cli.cluster.simulation import Simulation
from controller.cli.cluster.simulation_report import groups, use
from controller.cli.cluster.workload_costs import planned_costs
from controller.cli.formatting import month, percent

SHOWN = ("cpu", "memory")
MOST = 10
"""Types and namespaces in a chart; the others are one pair."""

Figures = Callable[[Simulation], Mapping[str, float]]


def charts(after: Simulation, before: Simulation) -> Iterator[str]:
    yield '<div class="key"><span><i class="o"></i>before</span><span><i class="n"></i>after</span></div>'
    yield '<div class="charts">'
    for title, figures, words in (
        ("$/month of the new nodes", _prices, month),
        ("New nodes", _nodes, "{:,.0f}".format),
        ("In use", _use, percent),
        ("$/month by type", _by_type, month),
        ("$/month by namespace", _by_namespace, month),
    ):
        yield from pairs(title, members(figures(before), figures(after), words))
    yield "</div>"


def members(before: Mapping[str, float], after: Mapping[str, float], words: Callable[[float], str]) -> list[Pair]:
    """Return each name's pair in the order of the first mapping that has it; beyond MOST the smallest are added up."""
    names = list(dict.fromkeys([*before, *after]))
    named = [Pair(name, before.get(name, 0.0), after.get(name, 0.0), words) for name in names]
    if len(named) <= MOST:
        return named
    largest = sorted(named, key=lambda pair: -max(pair.before, pair.after))
    kept, others = largest[: MOST - 1], largest[MOST - 1 :]
    rest = Pair(f"{len(others)} others", sum(pair.before for pair in others), sum(pair.after for pair in others), words)
    return [*kept, rest]


def _prices(simulation: Simulation) -> dict[str, float]:
    return {
        "price": simulation.price_per_hour,
        "in all": simulation.plan.cost_per_hour,
        "lower bound": simulation.bound.cost_per_hour,
    }


def _nodes(simulation: Simulation) -> dict[str, float]:
    kinds = Counter(node.offering.capacity_type for node in simulation.plan.new_nodes)
    return {"all": float(len(simulation.plan.new_nodes)), **{kind: float(kinds[kind]) for kind in sorted(kinds)}}


def _use(simulation: Simulation) -> dict[str, float]:
    return {name: use(simulation, simulation.plan.new_nodes, name) for name in SHOWN}


def _by_type(simulation: Simulation) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for group in groups(simulation):
        sums[f"{group.instance_type} {group.capacity_type}"] += group.price_per_hour  # type: ignore[assignment]
    return dict(sums)


def _by_namespace(simulation: Simulation) -> dict[str, float]:
    costs = planned_costs(simulation)
    named = {name: cost.price_per_hour for name, cost in costs_report.rows(costs)}
    return {**named, "(idle)": costs.idle_per_hour, "(DaemonSets)": costs.daemons_per_hour}
