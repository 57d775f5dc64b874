"""RebalancePlan and its steps: frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.api.pod import PodKey
from controller.core.deprovisioning.candidates import Candidate
from controller.core.provisioning.plan import PlannedNode


@dataclass(frozen=True, slots=True)
class PodMove:
    """`source` and `target` are names of nodes; a node to be launched is called `new-1`, `new-2` and so on."""

    pod: PodKey
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A node to launch, and its name within the plan."""

    name: str
    planned: PlannedNode


@dataclass(frozen=True, slots=True)
class Step:
    """Nodes that are removed together, after the launches. All pods of the removed nodes then have a place.

    `reason`: as disruption budgets name it. `waits_for`: PodDisruptionBudgets (namespace/name) that let fewer pods go
    at once than the step moves: the drain evicts the others as soon as their successors are ready.
    """

    removes: tuple[Candidate, ...]
    launches: tuple[Launch, ...]
    moves: tuple[PodMove, ...]
    reason: str
    waits_for: tuple[str, ...] = ()

    @property
    def saved(self) -> float:
        """$ an hour of cost; negative where it launches for the steps after it, too."""
        return sum(each.cost for each in self.removes) - sum(each.planned.offering.cost for each in self.launches)


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """The steps to a cheaper fleet. Costs are totals in $ an hour, of the nodes of Provisioners.

    `bound`: no fleet for the same pods costs less, if those of `stays` stay. `stays`: names of nodes that no step may
    remove, with the reason. `surplus`: what the moves add beyond baselines of burstable nodes that stay.
    """

    cost_before: float
    bound: float
    steps: tuple[Step, ...] = ()
    surplus: float = 0.0
    stays: tuple[tuple[str, str], ...] = ()

    @property
    def cost_after(self) -> float:
        """The cost when all steps are done."""
        return self.cost_before - self.saved

    @property
    def saved(self) -> float:
        """The saving of all steps."""
        return sum(step.saved for step in self.steps) - self.surplus

    @property
    def moves(self) -> int:
        """Pods that move, each once."""
        return sum(len(step.moves) for step in self.steps)

    def costs(self) -> tuple[float, ...]:
        """Return the cost after each step; surplus CPU counts from the first on."""
        costs, cost = [], self.cost_before + self.surplus
        for step in self.steps:
            cost -= step.saved
            costs.append(cost)
        return tuple(costs)
