"""The condition Active: what it says, and when it is written again."""

from __future__ import annotations

from controller.core.api.timestamps import format_time, parse_time
from controller.core.api.v1alpha5.conditions import conditions_after as after

NOW = 1_700_000_000.0


def test_a_problem_makes_it_false_with_all_its_text() -> None:
    (condition,) = after([], "spec.weight: 101 is above 100", NOW) or []
    assert (condition["status"], condition["message"]) == ("False", "spec.weight: 101 is above 100")


def test_a_condition_that_says_the_same_is_not_written_again() -> None:
    first = after([], "broken", NOW)
    assert first is not None
    assert after(first, "broken", NOW + 60) is None


def test_another_text_keeps_the_time_of_the_transition() -> None:
    first = after([], "broken", NOW)
    assert first is not None
    second = after(first, "broken otherwise", NOW + 60)
    assert second is not None
    assert second[0]["lastTransitionTime"] == format_time(NOW)


def test_recovery_moves_the_transition_and_keeps_conditions_of_others() -> None:
    present = [{"type": "Other", "status": "True"}, *(after([], "broken", NOW) or [])]
    recovered = after(present, "", NOW + 60)
    assert recovered is not None
    assert recovered[0] == {"type": "Other", "status": "True"}
    assert recovered[1]["status"] == "True"
    assert recovered[1]["lastTransitionTime"] == format_time(NOW + 60)
    assert "message" not in recovered[1]


def test_times_are_read_as_they_are_written() -> None:
    assert parse_time(format_time(NOW + 0.9)) == NOW
    assert parse_time("2023-11-14T23:13:20+01:00") == NOW
    assert parse_time("soon") is None
