"""What a scale-in is told as: evictions to a price that both ways reach, and those if nodes were divisible."""

from __future__ import annotations

import pytest

from bench.scale_in_runs.scale_in import Cycle, Way


def test_evictions_are_counted_to_the_price_that_both_ways_reach() -> None:
    cycle = Cycle(((10, 6), (10, 2)), 20, Way(10.0, ((0, 8.0), (5, 6.0)), 3), Way(10.0, ((1, 6.0), (4, 5.0)), 2))
    assert cycle.deleted == 8
    assert [way.evictions_to(cycle.common_price) for way in (cycle.without, cycle.with_costs)] == [5, 1]


def test_of_divisible_nodes_a_deployment_needs_evictions_for_what_it_does_not_delete_there() -> None:
    """Two fifths of the fleet go: four pods of each Deployment. One deletes six, the other two."""
    way = Way(10.0, ((5, 6.0),), 3)
    assert Cycle(((10, 6), (10, 2)), 20, way, way).divisible == pytest.approx(2.0)
