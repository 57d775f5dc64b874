"""Linear and integer programs, solved by HiGHS. No other module uses highspy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import NDArray

from controller.core.provisioning.resource_space import Floats, Ints

INFINITY: float = highspy.kHighsInf
WHOLE = 1e-6
"""What a number may lack of a whole one, as a program is solved in floating point."""
MANY = 15_000
"""With more columns than this, an interior point method with a crossover is faster than the simplex method."""
MOST_ITERATIONS = 200_000
"""Of the simplex method, which takes about as many as a program has rows. One that cycles ends, always at the same
iteration."""
INTEGER_GAP = 1e-8
"""A branch and bound ends when its best solution is this close to its bound."""
MOST_CUTS = 20
"""Cutting planes that a branch and bound keeps beside those in use: with more, each round of cuts takes longer."""
DUAL, PRIMAL = 1, 4
"""HiGHS's numbers of the dual and the primal simplex method."""
NONE_BELOW = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kObjectiveBound)
"""What HiGHS says if no solution's objective is below the cutoff."""
HEURISTICS = ("rins", "rens", "feasibility_jump", "root_reduced_cost", "zi_round", "shifting")
COSTLY = (
    "mip_allow_restart",
    "mip_detect_symmetry",
    *(f"mip_heuristic_run_{name}" for name in HEURISTICS),
)
"""Parts of HiGHS's branch and bound that take longer than they save in programs as small as these."""


class UnsolvedProgramError(ArithmeticError):
    """HiGHS returned no optimum: the program has none, or its coefficients differ too much in magnitude."""


@dataclass(frozen=True, slots=True)
class LinearSolution:
    """An optimum: its objective, a value per column, and a dual per row (objective per unit of the row's bound)."""

    objective: float
    values: Floats
    duals: Floats


@dataclass(frozen=True, slots=True)
class IntegerSolution:
    """The incumbent of a branch and bound: its objective, and a value per column (None: no incumbent).

    bound: no solution's objective is lower.
    """

    objective: float
    values: Floats | None
    bound: float


class LinearProgram:
    """Minimise costs @ x subject to lower <= A x <= upper and 0 <= x <= ceiling; built block by block.

    `columns` and `rows` return the numbers by which `entries` addresses what they added. `solve_again` keeps the
    solver, and takes less time from the second time on.
    """

    def __init__(self) -> None:
        self._solver: highspy.Highs | None = None
        """Of `solve_again`: has the basis of the last time."""
        self._sent_columns = self._sent_entries = 0
        """How many columns, and blocks of entries, this solver has."""
        self._costs: list[Floats] = []
        self._ceilings: list[Floats] = []
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []
        self.column_count = 0
        self.row_count = 0

    def columns(self, costs: Floats, ceilings: Floats | float = INFINITY) -> Ints:
        """Add a column per cost; return their numbers."""
        first = self.column_count
        self._costs.append(costs)
        self._ceilings.append(np.broadcast_to(np.asarray(ceilings, dtype=np.float64), costs.shape))
        self.column_count += len(costs)
        return np.arange(first, self.column_count)

    def rows(self, lower: Floats, upper: Floats) -> Ints:
        """Add a row per pair of bounds; return their numbers."""
        first = self.row_count
        self._lower.append(lower)
        self._upper.append(upper)
        self.row_count += len(lower)
        return np.arange(first, self.row_count)

    def entries(self, rows: Ints, columns: Ints, values: Floats | float) -> None:
        """Set coefficients, one for each pair of row and column; no pair twice."""
        spread = np.broadcast_to(np.asarray(values, dtype=np.float64), rows.shape)
        self._entries.append((rows, columns, spread))

    def matrix(self, rows: Ints, columns: Ints, values: Floats) -> None:
        """Set the coefficients other than 0 of a matrix. Axes of `values`: column × row."""
        column, row = np.nonzero(values)
        self.entries(rows[row], columns[column], values[column, row])

    def keep_within(self, placed: Ints, place: Ints, item: Ints, requests: Floats, capacity: Floats) -> None:
        """Let what is placed ask for no more than each place holds, of each resource.

        placed: columns, of units of the item types `item` in `place` (all three of one length). requests: D x R.
        capacity: places x R.
        """
        for resource in range(requests.shape[1]):
            room = self.rows(np.full(len(capacity), -INFINITY), capacity[:, resource])
            some = np.flatnonzero(requests[item, resource])
            self.entries(room[place[some]], placed[some], requests[item[some], resource])

    def solve_integers(
        self, nodes: int, divisible: Ints | None = None, cutoff: float = INFINITY, *, quick: bool = False
    ) -> IntegerSolution:
        """Solve with whole numbers, by a branch and bound of at most `nodes` nodes. divisible: columns without.

        cutoff: solutions whose objective is as much or more are not looked for, and bounds are no higher. quick: with
        less work on each node, neither cuts nor linear programs that only tell which column to branch on.
        """
        solver = _new_solver()
        solver.setOptionValue("mip_max_nodes", nodes)
        for costly in COSTLY:
            solver.setOptionValue(costly, False)
        solver.setOptionValue("mip_heuristic_effort", 0.0)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_abs_gap", INTEGER_GAP)
        solver.setOptionValue("mip_pool_soft_limit", MOST_CUTS)
        solver.setOptionValue("objective_bound", cutoff)
        if quick:
            solver.setOptionValue("mip_pscost_minreliable", 0)
            solver.setOptionValue("mip_allow_cut_separation_at_nodes", False)
        whole = np.ones(self.column_count, dtype=np.int32)
        if divisible is not None:
            whole[divisible] = 0
        self._pass_to(solver, whole)
        solver.run()
        info = solver.getInfo()
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        values = np.array(solver.getSolution().col_value, dtype=np.float64) if feasible else None
        none = solver.getModelStatus() in NONE_BELOW
        bound = cutoff if none else min(cutoff, float(info.mip_dual_bound))
        return IntegerSolution(float(info.objective_function_value), values, bound)

    def solve(self, *, presolve: bool = True) -> LinearSolution:
        """Solve to optimality. Raises UnsolvedProgramError if HiGHS returns no optimum.

        presolve: make the program smaller first, which takes longer than it saves with a few hundred columns.
        """
        solver = _new_solver()
        if not presolve:
            solver.setOptionValue("presolve", "off")
        if self.column_count > MANY:
            solver.setOptionValue("solver", "ipm")
        self._pass_to(solver, np.zeros(self.column_count, dtype=np.int32))
        return self._run(solver)

    def solve_again(self) -> LinearSolution:
        """Solve to optimality from the basis of the last time, without presolve.

        Since then columns may have been added, with entries in rows that were there, and bounds changed. Raises
        UnsolvedProgramError if HiGHS returns no optimum.
        """
        more = self.column_count - self._sent_columns
        if self._solver is None:
            self._solver = _new_solver()
            self._solver.setOptionValue("presolve", "off")
            self._pass_to(self._solver, np.zeros(self.column_count, dtype=np.int32))
        else:
            # After more columns the basis is primal feasible, after other bounds of rows dual feasible.
            self._solver.setOptionValue("simplex_strategy", PRIMAL if more else DUAL)
            if more:
                self._add_columns(self._solver)
        self._sent_columns, self._sent_entries = self.column_count, len(self._entries)
        try:
            return self._run(self._solver)
        except UnsolvedProgramError:
            self._solver.clearSolver()  # the last basis may be what misled it
            return self._run(self._solver)

    def change_bounds(self, rows: Ints, lower: Floats, upper: Floats) -> None:
        """Change bounds of rows; the program was solved by `solve_again`."""
        assert self._solver is not None
        self._solver.changeRowsBounds(  # type: ignore[attr-defined]  # not in its stubs
            len(rows), rows.astype(np.int32), lower, upper
        )

    def change_ceilings(self, columns: Ints, ceilings: Floats) -> None:
        """Change ceilings of columns; the program was solved by `solve_again`."""
        assert self._solver is not None
        self._solver.changeColsBounds(len(columns), columns.astype(np.int32), np.zeros(len(columns)), ceilings)

    def _run(self, solver: highspy.Highs) -> LinearSolution:
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise UnsolvedProgramError(
                f"HiGHS says {solver.modelStatusToString(status)} of a program of {self.row_count} rows and "
                f"{self.column_count} columns"
            )
        solution = solver.getSolution()
        return LinearSolution(
            objective=float(solver.getObjectiveValue()),
            values=np.array(solution.col_value, dtype=np.float64),
            duals=np.array(solution.row_dual, dtype=np.float64),
        )

    def _compressed(
        self, first: int, entries: Sequence[tuple[Ints, Ints, Floats]]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
        """Sort entries, which are triplets (row, column, value), into compressed columns from the column `first` on."""
        rows, columns, values = map(np.concatenate, zip(*entries, strict=True))
        order = np.argsort(columns * self.row_count + rows)
        starts = np.zeros(self.column_count - first + 1, dtype=np.int32)
        np.cumsum(np.bincount(columns - first, minlength=self.column_count - first), out=starts[1:])
        return starts, rows[order].astype(np.int32), values[order]

    def _add_columns(self, solver: highspy.Highs) -> None:
        first, count = self._sent_columns, self.column_count - self._sent_columns
        starts, rows, values = self._compressed(first, self._entries[self._sent_entries :])
        costs, ceilings = np.concatenate(self._costs)[first:], np.concatenate(self._ceilings)[first:]
        solver.addCols(count, costs, np.zeros(count), ceilings, len(values), starts[:-1], rows, values)

    def _pass_to(self, solver: highspy.Highs, whole: NDArray[np.int32]) -> None:
        """Hand the model over as arrays, which takes a third of the time of a HighsLp. whole: 1 per integer column."""
        starts, rows, values = self._compressed(0, self._entries)
        solver.passModel(
            self.column_count,
            self.row_count,
            len(values),
            int(highspy.MatrixFormat.kColwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            np.concatenate(self._costs),
            np.zeros(self.column_count),
            np.concatenate(self._ceilings),
            np.concatenate(self._lower),
            np.concatenate(self._upper),
            starts,
            rows,
            values,
            whole,
        )


def _new_solver() -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("simplex_iteration_limit", MOST_ITERATIONS)
    return solver
