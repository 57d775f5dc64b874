"""Plan rebalances of fragmented clusters, and hold their moves against the least: by `bench rebalance`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from bench.consolidation import NOW, grown, halved, instance_types
from bench.rebalance_runs.least_moves import LeastMoves, least_moves
from controller.core.api.frozen import FrozenMap
from controller.core.cloud import InstanceType
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput
from controller.core.deprovisioning.rebalance.planner import plan_rebalance
from controller.core.deprovisioning.rebalance.rebalance_plan import RebalancePlan
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.provisioning.offerings.option_table import TableCache
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.state.snapshot import Snapshot

HEAD = """# Rebalance

`python -m bench rebalance` makes this page: fragmented clusters of `bench/consolidation.py`, planned as by `nodeless
rebalance --plan`. *Over the bound*: cost of the fleet after all steps over what no fleet for the same pods undercuts.
*Least*: pods that have to move for any fleet that costs no more than the plan's, whatever else it does, by an integer
program of its own (`bench/rebalance_runs/least_moves.py`); for large clusters by its linear relaxation, which is lower.
A step removes as many nodes as disruption budgets (10 % by default) and PodDisruptionBudgets let go at once. CPU
seconds are those of one core.

"""
ALLOWED = 3
"""Pods that may be disrupted at once of each workload with a PodDisruptionBudget."""
MANY = 60
"""Of more nodes the least number of moves is that of the linear relaxation."""
Shape = Callable[[int, tuple[InstanceType, ...], int], Snapshot]


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """One cluster, its plan, and the least number of moves for what the plan's fleet costs."""

    nodes: int
    pods: int
    plan: RebalancePlan
    least: LeastMoves
    seconds: float

    @property
    def over_bound(self) -> float:
        """Cost after all steps over the bound."""
        return self.plan.cost_after / self.plan.bound

    @property
    def over_least(self) -> float:
        """Moves over the least; 1 where none are needed."""
        return self.plan.moves / self.least.moves if self.least.moves else 1.0


def grown_together(count: int, types: tuple[InstanceType, ...], seed: int = 1) -> Snapshot:
    """Nodes of any type that filled up by chance; every fourth workload has a PodDisruptionBudget that lets some go."""
    whole = grown(count, types, seed)
    budgets = {key: replace(budget, disruptions_allowed=ALLOWED) for key, budget in whole.budgets.items()}
    return replace(whole, budgets=FrozenMap(budgets))


SHAPES: tuple[tuple[str, Shape], ...] = (
    ("half of its pods gone", halved),
    ("grown by itself, four Provisioners, PodDisruptionBudgets", grown_together),
)


def method_input(snapshot: Snapshot, types: tuple[InstanceType, ...]) -> MethodInput:
    """What a rebalance of the cluster is planned from."""
    catalog = dict.fromkeys(snapshot.provisioners, types)
    simulator = Simulator(snapshot, catalog, snapshot_index=SnapshotIndex(snapshot, TableCache()))
    everyone = candidates(snapshot, catalog, NOW, beside=simulator.options.beside)
    return MethodInput(simulator, Gate(snapshot, NOW), everyone, NOW)


def rebalanced(snapshot: Snapshot, types: tuple[InstanceType, ...]) -> Rebalanced:
    """Plan the cluster's rebalance."""
    given = method_input(snapshot, types)
    began = time.process_time()
    plan = plan_rebalance(given)
    seconds = time.process_time() - began
    nodes, beside = len(snapshot.nodes), given.simulator.options.beside
    least = least_moves(given.candidates, types, beside.node, plan.cost_after, whole=nodes <= MANY)
    return Rebalanced(nodes, len(snapshot.pods), plan, least, seconds)


def large(count: int, shapes: Iterable[tuple[str, Shape]] = SHAPES) -> str:
    """A row for each shape of so many nodes."""
    types, rows = instance_types(), []
    for what, make in shapes:
        one = rebalanced(make(count, types, 1), types)
        plan = one.plan
        cells = (
            *(what, f"{one.nodes:,}", f"{one.pods:,}", f"{plan.cost_before:.2f}", f"{plan.cost_after:.2f}"),
            *(f"{one.over_bound:.3f}", f"{len(plan.steps)}", f"{plan.moves:,}", f"{one.over_least:.2f}"),
            f"{one.seconds:.0f}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return (
        f"## About {count:,} nodes\n\n"
        "| cluster | nodes | pods | $ an hour before | after | over the bound | steps | pods moved | over the least | "
        "CPU s |\n|---|---|---|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def small(count: int, seeds: Sequence[int], shapes: Iterable[tuple[str, Shape]] = SHAPES) -> str:
    """A row for each shape: means over clusters of so many nodes, one for each seed."""
    types, rows = instance_types(), []
    for what, make in shapes:
        ones = [rebalanced(make(count, types, seed), types) for seed in seeds]
        ratios = [one.over_least for one in ones]
        cells = (
            *(what, f"{len(ones)}", f"{fmean(one.over_bound for one in ones):.3f}"),
            *(f"{sum(one.plan.moves for one in ones)}", f"{sum(one.least.moves for one in ones)}"),
            *(f"{fmean(ratios):.2f}", f"{max(ratios):.2f}", f"{sum(one.least.proven for one in ones)}"),
            f"{fmean(one.seconds for one in ones):.1f}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return (
        f"## About {count} nodes, against the exact model\n\n"
        "| cluster | clusters | over the bound, mean | pods moved | least | over the least, mean | worst | least "
        "proven exactly | CPU s, mean |\n|---|---|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )
