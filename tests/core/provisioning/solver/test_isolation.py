"""A pod on which the solver raises is left out with a reason; the others are placed."""

from __future__ import annotations

import pytest

from controller.core.provisioning import solve
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem
from controller.core.provisioning.solver.isolation import solve_around
from tests import factories as make
from tests.core.provisioning.plans import judged


def failing_on(*names: str) -> object:
    def fragile(problem: SchedulingProblem) -> SchedulingPlan:
        for pod in problem.pending:
            if pod.name in names:
                raise ZeroDivisionError(pod.name)
        return solve(problem)

    return fragile


def test_without_an_error_the_plan_is_the_solvers_own() -> None:
    problem = make.problem(pending=make.pending_pods(3))
    assert solve_around(problem, solve) == (solve(problem), None)


def test_bad_pods_are_left_pending_with_the_reason_and_the_rest_is_placed() -> None:
    pods = [make.pending_pod(name=f"p{number:02}") for number in range(40)]
    problem = make.problem(pending=pods)
    plan, error = solve_around(problem, failing_on("p07", "p31"))  # type: ignore[arg-type]
    assert isinstance(error, ZeroDivisionError)
    assert {unplaced.pod[1] for unplaced in plan.unplaced} == {"p07", "p31"}
    assert all("ZeroDivisionError" in unplaced.reason for unplaced in plan.unplaced)
    judged(plan, problem)


def test_an_error_that_no_pod_is_to_blame_for_is_raised() -> None:
    def broken(_problem: SchedulingProblem) -> SchedulingPlan:
        raise KeyError("catalog")

    with pytest.raises(KeyError):
        solve_around(make.problem(pending=make.pending_pods(100)), broken)
