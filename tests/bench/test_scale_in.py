"""What a scale-in is told as: evictions to a price that both ways reach, and the fewest that lead there."""

from __future__ import annotations

from bench.scale_in_runs.scale_in import KINDS, Cycle, Way, live


def test_evictions_are_counted_to_the_price_that_both_ways_reach() -> None:
    without, with_costs = Way(10.0, ((0, 8.0), (5, 6.0)), 3), Way(10.0, ((1, 6.0), (4, 5.0)), 2)
    cycle = Cycle((6, 2), 20, without, with_costs, (4, 1))
    assert cycle.deleted == 8
    assert [way.evictions_to(cycle.common_price) for way in (cycle.without, cycle.with_costs)] == [5, 1]


def test_no_way_needs_fewer_evictions_than_the_exact_program_that_knows_the_price() -> None:
    cycle = next(live(1, next(iter(KINDS.values()))))
    for way, least in zip((cycle.without, cycle.with_costs), cycle.least, strict=True):
        assert way.price <= cycle.common_price
        assert 0 <= least <= way.evictions_to(cycle.common_price)
    assert cycle.least[0] > 0
