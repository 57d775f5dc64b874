"""The clusters that searches for savings are measured on: no node of any is left unjudged."""

from __future__ import annotations

import pytest

from bench.consolidation import SHAPES, instance_types, search


@pytest.mark.parametrize(("what", "make"), SHAPES)
def test_every_node_is_judged_in_a_whole_search(what: str, make: object) -> None:
    assert callable(make)
    types = instance_types()
    snapshot = make(24, types)
    whole = search(snapshot, types)
    assert whole.judged == len(snapshot.nodes) >= 20, what
    assert (whole.saved == 0) == ("nothing" in what or "disks" in what)
