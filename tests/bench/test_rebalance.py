"""Rebalances of the clusters that `bench rebalance` makes up, against the exact model of the least moves."""

from __future__ import annotations

from typing import Any

import pytest

from bench.consolidation import instance_types
from bench.rebalance_runs.rebalance import SHAPES, method_input, rebalanced
from tests.core.deprovisioning.rebalance.test_rebalance_plan import check


@pytest.mark.parametrize(("what", "make"), SHAPES)
def test_fragmented_clusters_come_near_the_bound_by_about_as_few_moves_as_are_needed(what: str, make: Any) -> None:
    types = instance_types()
    snapshot = make(12, types, 1)
    one = rebalanced(snapshot, types)
    check(one.plan, method_input(snapshot, types))
    assert one.over_bound <= 1.05, what
    assert 1 <= one.over_least <= 1.2
