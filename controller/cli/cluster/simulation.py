"""Plan one scenario, with the lower bound and the prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller.cli.cluster.node_facts import Prices, price_of
from controller.cli.inputs.scenario import Scenario
from controller.cloud.catalogs import CATALOG_WORKERS, Catalogs
from controller.core.api.pod import Pod, PodKey, Resources
from controller.core.cloud import InstanceType, TypeSource
from controller.core.provisioning import PlannedNode, SchedulingPlan, SchedulingProblem, solve
from controller.core.provisioning.bound.gap import Gap, explain_gap
from controller.core.provisioning.bound.lower_bound import Bound, bound
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.problem import build
from controller.core.zones.services import Service
from controller.runtime.executors import ThreadExecutors


@dataclass(frozen=True, slots=True)
class Simulation:
    """A plan for a scenario. Prices in $/hour."""

    name: str
    problem: SchedulingProblem
    plan: SchedulingPlan
    bound: Bound
    """Lower bound for the pods that the plan places."""
    existing_price: float | None
    """$/hour of the existing nodes; None when the price of one is unknown."""
    pods: Mapping[PodKey, Pod]
    """Pending pods."""
    types: Mapping[tuple[str, str], InstanceType]
    """Types of planned nodes by (Provisioner, type name)."""
    gap: Gap | None = None
    notes: tuple[str, ...] = ()
    services: tuple[Service, ...] = ()

    @property
    def price_per_hour(self) -> float:
        """$/hour of the new nodes."""
        return self.plan.price_per_hour

    @property
    def over_bound(self) -> float | None:
        """Cost / lower bound; None when the bound is 0."""
        return self.plan.cost_per_hour / self.bound.cost_per_hour if self.bound.cost_per_hour > 1e-9 else None

    def allocatable(self, node: PlannedNode) -> Resources:
        return self.types[(node.provisioner, node.offering.instance_type)].allocatable


def simulate(scenario: Scenario, source: TypeSource, budget_seconds: float = 1.0, *, gap: bool = False) -> Simulation:
    """Plan for the scenario's pending pods with the types of `source`.

    `gap`: also explain the difference to the lower bound, which takes several more plans.
    """
    with ThreadExecutors() as executors:
        view = Catalogs(source, executors.executor("catalog", CATALOG_WORKERS)).view(scenario.snapshot)
    problem = build(scenario.snapshot, view.types, skipped=view.problems)
    options = replace(scenario.settings.solve_options(), budget_seconds=budget_seconds)
    index = SnapshotIndex(problem.snapshot, view.tables)
    plan = solve(problem, options, index)
    lost = frozenset(left.pod for left in plan.unplaced)
    return Simulation(
        name=scenario.name,
        problem=problem,
        plan=plan,
        bound=bound(problem, options, lost, index),
        existing_price=existing_price(problem),
        pods={pod.key: pod for pod in problem.pending},
        types=_planned_types(problem, plan),
        gap=explain_gap(problem, plan, options, index) if gap else None,
        notes=scenario.notes,
        services=scenario.services,
    )


def _planned_types(problem: SchedulingProblem, plan: SchedulingPlan) -> Mapping[tuple[str, str], InstanceType]:
    wanted = {(node.provisioner, node.offering.instance_type) for node in plan.new_nodes}
    return {(p, each.name): each for p, types in problem.catalog.items() for each in types if (p, each.name) in wanted}


def existing_price(problem: SchedulingProblem) -> float | None:
    """Return the $/hour of the existing nodes; None when the price of one is unknown."""
    prices = node_prices(problem.catalog)
    known = [price for node in problem.nodes if (price := price_of(node, prices)) is not None]
    return sum(known) if len(known) == len(problem.nodes) else None


def node_prices(catalog: Mapping[str, tuple[InstanceType, ...]]) -> Prices:
    every = (each for types in catalog.values() for each in types)
    return {(each.name, offer.zone, offer.capacity_type): offer.price for each in every for offer in each.offerings}
