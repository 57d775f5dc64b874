"""When a build is given up."""

from __future__ import annotations

from controller.core.provisioning.optimize.build import PROJECT_FROM, Pace
from controller.core.provisioning.optimize.work_budget import WorkBudget


def test_work_on_existing_nodes_says_nothing_about_how_long_opening_new_ones_takes() -> None:
    """The first of a hundred nodes takes longest: its prices are computed. Projected from it alone, any build would be
    given up that filled existing nodes before."""
    work = WorkBudget(10.0)
    pace = Pace(work, most=1.0)
    work.done = 0.5
    pace.start_opening(100.0)
    work.done += PROJECT_FROM / 2
    assert pace.goes_on(99.0)
    work.done += PROJECT_FROM
    assert not pace.goes_on(99.0)
