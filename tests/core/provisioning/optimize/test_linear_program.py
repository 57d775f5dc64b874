"""Programs that HiGHS does not solve raise, and do not go on for ever."""

from __future__ import annotations

import numpy as np
import pytest

from controller.core.provisioning.optimize import linear_program
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram, UnsolvedProgramError


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
