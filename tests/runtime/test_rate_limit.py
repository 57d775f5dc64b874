"""Token buckets, by a clock that is turned by hand."""

from __future__ import annotations

import pytest

from controller.runtime.rate_limit import TokenBucket
from tests.manual_clock import ManualClock


def test_the_burst_is_free_and_then_the_rate_holds() -> None:
    clock = ManualClock()
    bucket = TokenBucket(per_second=2.0, burst=3, clock=clock)
    assert [bucket.try_take() for _ in range(5)] == [True, True, True, False, False]
    clock.advance(1.0)
    assert [bucket.try_take() for _ in range(3)] == [True, True, False]


def test_reservations_queue_up() -> None:
    bucket = TokenBucket(per_second=2.0, burst=1, clock=ManualClock())
    assert [bucket.reserve() for _ in range(4)] == [0.0, 0.5, 1.0, 1.5]


def test_a_long_pause_saves_no_more_than_the_burst() -> None:
    clock = ManualClock()
    bucket = TokenBucket(per_second=100.0, burst=2, clock=clock)
    clock.advance(3600.0)
    assert [bucket.try_take() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_a_limit_that_lets_nothing_through_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="rate limit"):
        TokenBucket(rate, burst, ManualClock())
