"""Rebalances of the clusters that `bench rebalance` makes up, against the exact model of the least moves."""

from __future__ import annotations

from typing import Any

import pytest

from bench.consolidation import halved, instance_types
from bench.rebalance_runs.rebalance import SHAPES, grown_together, method_input, rebalanced
from tests.core.deprovisioning.rebalance.test_rebalance_plan import check


@pytest.mark.parametrize(("what", "make"), SHAPES)
def test_fragmented_clusters_come_near_the_bound_by_about_as_few_moves_as_are_needed(what: str, make: Any) -> None:
    types = instance_types()
    snapshot = make(12, types, 1)
    one = rebalanced(snapshot, types)
    check(one.plan, method_input(snapshot, types))
    assert one.over_bound <= 1.05, what
    assert 1 <= one.over_least <= 1.2


def test_a_cheaper_fleet_is_asked_for_where_whole_nodes_cost_more_than_the_program_expects() -> None:
    """The first set, rounded to whole nodes, leaves a fleet at 1.12 of the bound, of which all pods have room."""
    types = instance_types()
    assert rebalanced(halved(12, types, 3), types).over_bound <= 1.05


def test_amounts_as_large_as_memory_in_bytes_do_not_make_the_program_unsolvable() -> None:
    types = instance_types()
    assert rebalanced(grown_together(4, types, 11), types).plan.steps
