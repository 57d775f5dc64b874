"""Offerings out of capacity: masked at once, longer each time, and back the moment that the mask ends."""

from __future__ import annotations

import pytest

from controller.aws.catalog.unavailable_offerings import UnavailableOfferings
from tests.manual_clock import ManualClock

POOL = ("spot", "m5.large", "a")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def masks(clock: ManualClock) -> UnavailableOfferings:
    return UnavailableOfferings(clock)


def test_a_mask_holds_three_minutes_and_changes_the_version_when_it_comes_and_when_it_goes(
    masks: UnavailableOfferings, clock: ManualClock
) -> None:
    before, none = masks.active()
    assert not none
    masks.mark(*POOL, "InsufficientInstanceCapacity")
    during, active = masks.active()
    assert (active, during) == (frozenset({POOL}), before + 1)
    clock.advance(179)
    assert masks.active() == (during, active)
    clock.advance(2)
    assert masks.active() == (during + 1, frozenset())


def test_failures_in_a_row_double_the_time_up_to_48_minutes(masks: UnavailableOfferings, clock: ManualClock) -> None:
    lengths = []
    for _ in range(7):
        lengths.append(masks.mark(*POOL, "x"))
        clock.advance(lengths[-1] + 1)
    assert lengths == [180, 360, 720, 1440, 2880, 2880, 2880]


def test_many_launches_that_fail_together_are_one_failure(masks: UnavailableOfferings) -> None:
    assert [masks.mark(*POOL, "x") for _ in range(20)] == [180.0] * 20


def test_an_hour_without_failure_or_a_success_starts_over(masks: UnavailableOfferings, clock: ManualClock) -> None:
    masks.mark(*POOL, "x")
    clock.advance(181)
    assert masks.mark(*POOL, "x") == 360
    clock.advance(360 + 3601)
    assert masks.mark(*POOL, "x") == 180
    clock.advance(181)
    masks.clear(*POOL)
    assert masks.mark(*POOL, "x") == 180


def test_a_launch_that_succeeds_beside_failures_does_not_lift_their_mask(masks: UnavailableOfferings) -> None:
    masks.mark(*POOL, "x")
    masks.clear(*POOL)
    assert masks.active()[1] == {POOL}


def test_the_reason_is_kept_for_messages(masks: UnavailableOfferings) -> None:
    masks.mark(*POOL, "MaxSpotInstanceCountExceeded")
    assert masks.reason(POOL) == "MaxSpotInstanceCountExceeded"
    assert masks.reason(("spot", "c5.large", "a")) == ""
