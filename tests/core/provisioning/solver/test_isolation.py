"""Where the solver raises, pods get the first plan; a pod on which that raises, too, is left out with a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.core.audit.plan_audit import audit
from controller.core.price_rules import parse_price_rules
from controller.core.provisioning import solve
from controller.core.provisioning.optimize.linear_program import UnsolvedProgramError
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem
from controller.core.provisioning.solver.isolation import solve_around
from tests import factories as make
from tests.core.provisioning.plans import FIRST, judged


def first_plan(problem: SchedulingProblem) -> SchedulingPlan:
    return solve(problem, FIRST)


def failing_on(*names: str) -> Callable[[SchedulingProblem], SchedulingPlan]:
    """A solver that raises on these pods; on every problem, if none is named."""

    def fragile(problem: SchedulingProblem) -> SchedulingPlan:
        for pod in problem.pending:
            if pod.name in names or not names:
                raise ZeroDivisionError(pod.name)
        return solve(problem)

    return fragile


def test_a_price_that_no_linear_program_can_be_solved_with_leaves_no_pod_pending() -> None:
    """It is a valid setting, and no pod is to blame: without any half of them, the program may be solved."""
    (rule,) = parse_price_rules('[{"instanceTypes": ["m5.metal"], "pricePerHour": 1e20}]')
    metal = make.instance_type(name="m5.metal", cpu=96, memory="384Gi", price=rule.price(4.6))
    catalog = (make.instance_type(cpu=2), make.instance_type(name="m5.xlarge", cpu=4, price=0.2), metal)
    sizes = {"700m": 30, "1100m": 40, "48": 1}
    pods = [pod for cpu, count in sizes.items() for pod in make.pending_pods(count, requests={"cpu": cpu})]
    problem = make.problem(pending=pods, catalog=catalog)
    with pytest.raises(UnsolvedProgramError):
        solve(problem)
    plan, error = solve_around(problem, solve, first_plan)
    assert isinstance(error, UnsolvedProgramError)
    assert not plan.unplaced
    assert not audit(plan, problem)


def test_without_an_error_the_plan_is_the_solvers_own() -> None:
    problem = make.problem(pending=make.pending_pods(3))
    assert solve_around(problem, solve, failing_on()) == (solve(problem), None)


def test_bad_pods_are_left_pending_with_the_reason_and_the_rest_is_placed() -> None:
    pods = [make.pending_pod(name=f"p{number:02}") for number in range(40)]
    problem = make.problem(pending=pods)
    plan, error = solve_around(problem, failing_on("p07", "p31"), failing_on("p07", "p31"))
    assert isinstance(error, ZeroDivisionError)
    assert {unplaced.pod[1] for unplaced in plan.unplaced} == {"p07", "p31"}
    assert all("ZeroDivisionError" in unplaced.reason for unplaced in plan.unplaced)
    judged(plan, problem)


def test_an_error_that_no_pod_is_to_blame_for_is_raised() -> None:
    def broken(_problem: SchedulingProblem) -> SchedulingPlan:
        raise KeyError("catalog")

    with pytest.raises(KeyError):
        solve_around(make.problem(pending=make.pending_pods(100)), broken, broken)
