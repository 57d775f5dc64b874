"""Problems of small batches: the same for the same seed, and the table that compares two runs."""

from __future__ import annotations

from bench.small import Figures, measured, posed, table
from controller.core.provisioning import SolveOptions


def test_a_seed_gives_the_same_problem_every_time() -> None:
    for seed in range(1, 9):
        one, two = posed(seed), posed(seed)
        assert list(one.pending) == list(two.pending)
        assert one.nodes == two.nodes
        assert one.provisioners == two.provisioners
        assert 1 <= len(one.pending) <= 50


def test_refined_plans_are_no_dearer_than_first_plans() -> None:
    for seed in range(1, 7):
        first, refined = measured(seed, SolveOptions(budget_seconds=0.0)), measured(seed, SolveOptions())
        assert (refined.unplaced, refined.cost) <= (first.unplaced, first.cost + 1e-9)


def test_the_table_compares_plans_that_leave_equally_many_pods_out() -> None:
    figures = {1: Figures(3, 1.0, 1.1, 2, 0, 0.1), 2: Figures(9, 2.0, 2.2, 2, 1, 0.1)}
    before = {1: Figures(3, 2.0, 2.2, 2, 0, 0.2), 2: Figures(9, 9.0, 9.9, 2, 0, 0.2)}
    small, _, both = table(figures, before).splitlines()[2:]
    assert small == "| 1-3 | 1 | 0.5000 | 0.5000 | 0.5000 | 1 | 0 | +0 | 100 | 200 |"
    assert both == "| all | 2 | 0.5000 | 0.5000 | 0.5000 | 1 | 0 | +1 | 100 | 200 |"
