"""One pod that the solver cannot digest never holds up the others (invariant 6).

The solver is written not to raise. Should it do so all the same, the pods that make it raise are found by halving, left
pending with the reason, and the rest is solved without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from controller.core.api.pod import Pod
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem, UnplacedPod

MOST_TRIES = 64
"""Solves that the search may spend: enough for several bad pods among tens of thousands."""

Solve = Callable[[SchedulingProblem], SchedulingPlan]


def solve_around(problem: SchedulingProblem, solve: Solve) -> tuple[SchedulingPlan, Exception | None]:
    """The plan, and the first error if some pods had to be left out of it.

    Raises what `solve` raised when no pod is to blame, or too many are.
    """
    try:
        return solve(problem), None
    except Exception as error:
        search = _Search(problem, solve)
        bad = search.bad(tuple(problem.pending))
        if not bad or search.spent >= MOST_TRIES:
            raise
        names = {pod.key for pod in bad}
        rest = solve(replace(problem, pending=tuple(pod for pod in problem.pending if pod.key not in names)))
        reason = (
            f"the scheduler failed on this pod ({type(error).__name__}: {error}); please report it with the pod's YAML"
        )
        left = tuple(UnplacedPod(pod.key, reason) for pod in bad)
        return replace(rest, unplaced=tuple(sorted((*rest.unplaced, *left), key=lambda each: each.pod))), error


@dataclass(slots=True)
class _Search:
    problem: SchedulingProblem
    solve: Solve
    spent: int = field(default=0)

    def bad(self, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
        """Those of these pods on which the solver fails."""
        if not pods or self.spent >= MOST_TRIES or self._solves(pods):
            return ()
        if len(pods) == 1:
            return pods
        middle = len(pods) // 2
        return (*self.bad(pods[:middle]), *self.bad(pods[middle:]))

    def _solves(self, pods: tuple[Pod, ...]) -> bool:
        self.spent += 1
        try:
            self.solve(replace(self.problem, pending=pods))
        except Exception:  # noqa: BLE001 - that it fails is the answer
            return False
        return True
