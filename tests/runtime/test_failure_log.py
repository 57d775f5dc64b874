"""Troubles: one line when one begins and one when it ends, however many meet it."""

from __future__ import annotations

from structlog.testing import capture_logs

from controller.errors import CloudError
from controller.runtime.failure_log import FORGET_SECONDS, FailureLog
from tests.manual_clock import ManualClock

ERROR = CloudError("RequestLimitExceeded")


def aloud(logs: list[object]) -> list[tuple[str, str]]:
    return [(e["log_level"], e["event"]) for e in logs if isinstance(e, dict) and e["log_level"] != "debug"]


def test_of_many_meetings_the_first_is_said_and_the_end_tells_how_many_there_were() -> None:
    clock = ManualClock()
    with capture_logs() as logs:
        troubles = FailureLog(clock, "test")
        for _ in range(5):
            troubles.met("default", "throttled", "Launch failed", ERROR)
            clock.advance(2)
        troubles.over("other", "Launches work again")
        troubles.over("default", "Launches work again", provisioner="default")
        troubles.over("default", "Launches work again")
    assert aloud([*logs]) == [("error", "Launch failed"), ("info", "Launches work again")]
    assert (logs[-1]["failures"], logs[-1]["after_seconds"], logs[-1]["provisioner"]) == (5, 10, "default")


def test_another_sort_of_trouble_is_said_too_and_both_end_in_one_line() -> None:
    with capture_logs() as logs:
        troubles = FailureLog(ManualClock(), "test")
        for sort in ("throttled", "unauthorized", "throttled"):
            troubles.met("default", sort, "Launch failed", ERROR)
        troubles.over("default", "Launches work again")
    assert [level for level, _ in aloud([*logs])] == ["error", "error", "info"]


def test_what_nobody_met_for_long_is_news_when_it_is_met_again() -> None:
    clock = ManualClock()
    with capture_logs() as logs:
        troubles = FailureLog(clock, "test")
        troubles.met("default", "throttled", "Launch failed", ERROR)
        clock.advance(FORGET_SECONDS + 1)
        troubles.met("default", "throttled", "Launch failed", ERROR)
    assert len(aloud([*logs])) == 2
