"""Programs that HiGHS does not solve raise, and do not go on for ever; programs that are solved again are solved."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

from controller.core.provisioning.optimize import linear_program
from controller.core.provisioning.optimize.linear_program import (
    INFINITY,
    LinearProgram,
    LinearSolution,
    UnsolvedProgramError,
)


def covering() -> LinearProgram:
    """Cover ten rows by twenty columns, each of which is in every second row."""
    program = LinearProgram()
    columns = program.columns(np.linspace(1.0, 2.0, 20))
    rows = program.rows(np.linspace(5.0, 9.0, 10), np.full(10, INFINITY))
    program.matrix(rows, columns, (np.add.outer(np.arange(20), np.arange(10)) % 2).astype(np.float64))
    return program


def test_the_simplex_method_ends_after_so_many_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert covering().solve(presolve=False).objective > 0
    monkeypatch.setattr(linear_program, "MOST_ITERATIONS", 1)
    with pytest.raises(UnsolvedProgramError, match="Iteration limit"):
        covering().solve(presolve=False)


def test_a_program_without_an_optimum_raises() -> None:
    unbounded = LinearProgram()
    columns = unbounded.columns(np.array([-1.0]))
    unbounded.entries(unbounded.rows(np.array([0.0]), np.array([INFINITY])), columns, 1.0)
    with pytest.raises(UnsolvedProgramError):
        unbounded.solve()


@pytest.mark.parametrize("seed", range(30))
def test_a_program_that_is_solved_again_has_the_optimum_of_a_new_one(seed: int) -> None:
    """Whether it got more columns, other bounds of its rows, or other ceilings of its columns."""
    chance = np.random.default_rng(seed)
    costs, matrix = chance.uniform(1.0, 2.0, 12), chance.integers(0, 3, (12, 5)).astype(np.float64)
    matrix[:5] += np.eye(5)  # so that there is an optimum
    counts, ceilings = chance.integers(1, 9, 5).astype(np.float64), np.full(12, INFINITY)
    again = LinearProgram()
    rows = again.rows(counts, np.full(5, INFINITY))
    columns = again.columns(costs[:6])
    again.matrix(rows, columns, matrix[:6])

    def check(number: int) -> None:
        new = LinearProgram()
        new.matrix(
            new.rows(counts, np.full(5, INFINITY)), new.columns(costs[:number], ceilings[:number]), matrix[:number]
        )
        expected, found = new.solve(presolve=False), again.solve_again()
        assert found.objective == pytest.approx(expected.objective)
        assert costs[:number] @ found.values == pytest.approx(expected.objective)
        assert (found.values @ matrix[:number] >= counts - 1e-6).all()
        assert (found.values <= ceilings[:number] + 1e-6).all()

    check(6)
    again.matrix(rows, again.columns(costs[6:]), matrix[6:])
    check(12)
    counts = chance.integers(1, 9, 5).astype(np.float64)
    again.change_bounds(rows, counts, np.full(5, INFINITY))
    check(12)
    ceilings[chance.integers(5, 12, 3)] = 0.0
    again.change_ceilings(np.arange(12), ceilings)
    check(12)


def test_a_program_that_its_last_basis_misleads_is_solved_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    program, failures = covering(), [UnsolvedProgramError("misled")]
    run = LinearProgram._run

    def misled(self: LinearProgram, solver: highspy.Highs) -> LinearSolution:
        if failures:
            raise failures.pop()
        return run(self, solver)

    monkeypatch.setattr(LinearProgram, "_run", misled)
    assert program.solve_again().objective == pytest.approx(covering().solve().objective)
