"""Split the gap between a plan's cost and the lower bound by cause.

Kinds of rules are removed one after the other (pod affinity, then spread and anti-affinity, then limits), with a new
plan and a new bound each time. A rule's part is what the gap shrinks by; the rest is integrality, since pods and nodes
are not divisible. The parts add up to the gap exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from controller.core.api.pod import Pod, PodSpec
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem, SolveOptions
from controller.core.provisioning.solver.solver import solve

AFFINITY = "affinity"
SPREAD = "spread"
LIMITS = "limits"
INTEGRALITY = "integrality"
FLEXIBILITY = "flexibility"


@dataclass(frozen=True, slots=True)
class GapPart:
    """What one cause adds, in $/hour; slightly negative if the search happened to do better with the rule."""

    cause: str
    price_per_hour: float
    text: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A plan's price, its cost and the bound of costs, in $/hour."""

    price_per_hour: float
    cost_per_hour: float
    """All that plans minimise: the price, what nodes cost beside it, surplus CPU."""
    expected_per_hour: float
    """What the plan is expected to cost, given EC2's choice among offerings."""
    bound_per_hour: float
    parts: tuple[GapPart, ...]
    """They add up to `cost_per_hour - bound_per_hour`."""
    flexibility: GapPart
    """Expected cost less price."""

    @property
    def ratio(self) -> float:
        """Cost over bound; 1 if the bound is 0."""
        return self.cost_per_hour / self.bound_per_hour if self.bound_per_hour > 0 else 1.0


def explain_gap(
    problem: SchedulingProblem, plan: SchedulingPlan, options: SolveOptions, snapshot_index: SnapshotIndex | None = None
) -> Gap:
    """Split the gap of `plan`. Takes a solve and a bound for each kind of rule that the problem has."""
    left_out = frozenset(unplaced.pod for unplaced in plan.unplaced)
    index = snapshot_index if snapshot_index is not None else SnapshotIndex(problem.snapshot)
    price, least = plan.price_per_hour, bound(problem, options, left_out, index).cost_per_hour
    gap, parts = plan.cost_per_hour - least, list[GapPart]()
    problem = replace(problem, pending=tuple(pod for pod in problem.pending if pod.key not in left_out))
    for cause, text, without in _RULES:
        relaxed = without(problem)
        if relaxed is problem:
            continue
        again = solve(relaxed, options, index)
        left = again.cost_per_hour - bound(relaxed, options, snapshot_index=index).cost_per_hour
        parts.append(GapPart(cause, gap - left, text))
        problem, gap = relaxed, left
    parts.append(GapPart(INTEGRALITY, gap, "pods and nodes come whole: what is left free on the nodes that are paid"))
    expected = plan.expected_price_per_hour
    return Gap(
        price,
        plan.cost_per_hour,
        expected,
        least,
        tuple(parts),
        GapPart(FLEXIBILITY, expected - price, "EC2 may choose a more expensive offering that has more spare capacity"),
    )


def _without_affinity(problem: SchedulingProblem) -> SchedulingProblem:
    return _changed(problem, lambda spec: replace(spec, required_pod_affinity=(), preferred_pod_affinity=()))


def _without_spread(problem: SchedulingProblem) -> SchedulingProblem:
    return _changed(
        problem,
        lambda spec: replace(spec, topology_spread=(), required_pod_anti_affinity=(), preferred_pod_anti_affinity=()),
    )


def _without_limits(problem: SchedulingProblem) -> SchedulingProblem:
    if not any(one.limits for one in problem.provisioners):
        return problem
    return replace(problem, provisioners=tuple(replace(one, limits=None) for one in problem.provisioners))


def _changed(problem: SchedulingProblem, change: Callable[[PodSpec], PodSpec]) -> SchedulingProblem:
    """Return the problem with each pod's spec changed; the same object if no spec changes."""
    known: dict[PodSpec, PodSpec] = {}

    def changed(pod: Pod) -> Pod:
        if pod.spec not in known:
            known[pod.spec] = change(pod.spec)
        return pod if known[pod.spec] == pod.spec else replace(pod, spec=known[pod.spec])

    pending = tuple(changed(pod) for pod in problem.pending)
    if all(new is old for new, old in zip(pending, problem.pending, strict=True)):
        return problem
    return replace(problem, pending=pending)


_RULES: tuple[tuple[str, str, Callable[[SchedulingProblem], SchedulingProblem]], ...] = (
    (AFFINITY, "pods that must share a node are placed as one", _without_affinity),
    (SPREAD, "pods kept apart over hosts and zones, beyond what the bound counts", _without_spread),
    (LIMITS, "limits of Provisioners keep pods off the nodes that would be cheapest", _without_limits),
)
