"""Compare the price of our nodes with that of a fresh pack of their pods, and with its lower bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.core.api.frozen import EMPTY
from controller.core.cloud import Catalog
from controller.core.decisions.fleet_cost import fleet, owned
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem, SolveOptions
from controller.core.provisioning.problem import build, leaving_pods
from controller.core.provisioning.solver.solver import solve
from controller.core.state.snapshot import StateNode


@dataclass(frozen=True, slots=True)
class Comparison:
    """$ an hour: of our nodes that stay, of a fresh pack of their pods, and the lower bound of any pack.

    `kept` are nodes with pods that a fresh pack has no place for (a limit, a volume, a type no longer on offer): they
    are in all three at their price.
    """

    fleet_price: float
    fresh_pack_price: float
    bound_price: float
    kept: tuple[str, ...] = ()


def compare(
    index: SnapshotIndex, catalog: Catalog, options: SolveOptions, skipped: Mapping[str, str] = EMPTY
) -> Comparison:
    """Plan the pods of all our nodes from scratch; nodes that are not ours take what fits on them, as usual."""
    snapshot = index.snapshot
    prices = fleet(snapshot, catalog).prices
    staying = {node.name: node for node in owned(snapshot) if not node.leaving and node.name in prices}
    problem, plan = _pack(index, catalog, staying, options, skipped)
    kept: set[str] = set()
    if plan.unplaced:
        nowhere = {each.pod for each in plan.unplaced}
        kept = {name for name, node in staying.items() if any(pod.key in nowhere for pod in node.pods)}
        moving = {name: node for name, node in staying.items() if name not in kept}
        problem, plan = _pack(index, catalog, moving, options, skipped)
    least = bound(problem, options.of_prices_alone(), frozenset(each.pod for each in plan.unplaced), index)
    fixed = sum(prices[name] for name in kept)
    return Comparison(
        fleet_price=sum(prices[name] for name in staying),
        fresh_pack_price=fixed + plan.price_per_hour,
        bound_price=fixed + least.cost_per_hour,
        kept=tuple(sorted(kept)),
    )


def _pack(
    index: SnapshotIndex,
    catalog: Catalog,
    nodes: Mapping[str, StateNode],
    options: SolveOptions,
    skipped: Mapping[str, str],
) -> tuple[SchedulingProblem, SchedulingPlan]:
    pods = [pod for node in nodes.values() for pod in leaving_pods(node)]
    problem = build(index.snapshot, catalog, pods=pods, without_nodes=frozenset(nodes), skipped=skipped)
    return problem, solve(problem, options, index)
