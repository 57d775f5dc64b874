"""Isolate pods on which the solver raises, so that they never block the others (invariant 6).

The solver should not raise. If it does, a binary search finds the pods to blame; they stay pending with the error as
their reason, and the rest is solved without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from controller.core.api.pod import Pod
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem, UnplacedPod

MOST_TRIES = 64
"""Solves that the search may use: enough for several bad pods among tens of thousands."""

Solve = Callable[[SchedulingProblem], SchedulingPlan]


def solve_around(problem: SchedulingProblem, solve: Solve) -> tuple[SchedulingPlan, Exception | None]:
    """Return the plan, and the first error if pods had to be left out.

    Raises what `solve` raised if no pod is to blame, or too many are.
    """
    try:
        return solve(problem), None
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
        return replace(rest, unplaced=tuple(sorted((*rest.unplaced, *left), key=lambda each: each.pod))), error


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
