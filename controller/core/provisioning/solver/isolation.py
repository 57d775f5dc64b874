"""Plan although the solver raises (invariant 6): without its optimisation, else without the pods to blame.

The solver should not raise. If it does, the first plan, which is not optimised, places all pods at a higher price. If
that fails as well, a binary search finds the pods to blame; they stay pending with the error as their reason, and the
rest is solved without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from controller.core.api.pod import Pod
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem, UnplacedPod

MOST_TRIES = 64
"""Solves that the search may use: enough for several bad pods among tens of thousands."""

Solve = Callable[[SchedulingProblem], SchedulingPlan]


def solve_around(
    problem: SchedulingProblem, solve: Solve, first_plan: Solve
) -> tuple[SchedulingPlan, Exception | None]:
    """Return the plan, and the error of `solve` if it raised. `first_plan`: the same solver without optimisation.

    Raises what `first_plan` raised if no pod is to blame, or too many are.
    """
    try:
        return solve(problem), None
    except Exception as error:  # noqa: BLE001 - reported by the caller
        return _without_bad_pods(problem, first_plan), error


def _without_bad_pods(problem: SchedulingProblem, solve: Solve) -> SchedulingPlan:
    """Return the plan of all pods on which the solver does not raise; the others are left out."""
    try:
        return solve(problem)
    except Exception as error:
        bad, spent = _bisected(problem, solve)
        if not bad or spent >= MOST_TRIES:
            raise
        names = {pod.key for pod in bad}
        rest = solve(replace(problem, pending=tuple(pod for pod in problem.pending if pod.key not in names)))
        reason = (
            f"the scheduler failed on this pod ({type(error).__name__}: {error}); please report it with the pod's YAML"
        )
        left = tuple(UnplacedPod(pod.key, reason) for pod in bad)
        return replace(rest, unplaced=tuple(sorted((*rest.unplaced, *left), key=lambda each: each.pod)))


def _bisected(problem: SchedulingProblem, solve: Solve) -> tuple[list[Pod], int]:
    """Return the pods on which the solver raises, and the solves that it took to find them, MOST_TRIES at most."""
    bad, spent, parts = list[Pod](), 0, [tuple(problem.pending)]
    while parts and spent < MOST_TRIES:
        pods = parts.pop()
        spent += 1
        try:
            solve(replace(problem, pending=pods))
        except Exception:  # noqa: BLE001 - that it fails is the answer
            if len(pods) > 1:
                middle = len(pods) // 2
                parts += (pods[middle:], pods[:middle])
            else:
                bad += pods
    return bad, spent
