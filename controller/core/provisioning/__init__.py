"""From pending pods to a plan: which nodes to launch, which pods go where, and why."""

from controller.core.provisioning.plan import (
    ExistingPlacement,
    PlannedNode,
    SchedulingPlan,
    SchedulingProblem,
    SolveOptions,
    UnplacedPod,
)
from controller.core.provisioning.solver.solver import solve

__all__ = [
    "ExistingPlacement",
    "PlannedNode",
    "SchedulingPlan",
    "SchedulingProblem",
    "SolveOptions",
    "UnplacedPod",
    "solve",
]
