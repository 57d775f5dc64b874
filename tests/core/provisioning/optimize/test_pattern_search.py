"""The search over patterns keeps to its limit of work."""

from __future__ import annotations

import numpy as np

from controller.core.provisioning.optimize.patterns.pattern_search import Patterns, PatternSearch


def free_of_charge(count: int) -> Patterns:
    """Patterns of up to ten units of two item types that cost nothing."""
    units = np.array([(number % 10, number // 10 % 10) for number in range(count)], dtype=np.int64)
    return Patterns(units, np.zeros(count))


def test_pairs_of_state_and_pattern_are_limited_on_existing_nodes_with_free_room_too() -> None:
    """All pods fit there, so nothing is worth anything and no state is dropped for its cost."""
    pairs, most = 2_000, list[int]()

    class Counted(PatternSearch):
        def _steps(self, states: np.ndarray, patterns: Patterns, chosen: np.ndarray) -> object:  # type: ignore[override]
            most.append(len(states) * len(chosen))
            return super()._steps(states, patterns, chosen)

    one = Patterns(np.array([[1, 1]], dtype=np.int64), np.array([0.5]))
    search = Counted(np.zeros(2), one, [free_of_charge(100)] * 4, 1.0, pairs)
    found = search.run(np.array([[40, 40]], dtype=np.int64), np.zeros(1))
    assert max(most) <= pairs
    assert len(most) > 4
    assert found.least <= 0.5
