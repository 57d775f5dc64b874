"""A recurring failure is one log line at its onset and one at its recovery."""

from __future__ import annotations

from structlog.testing import capture_logs

from controller.errors import CloudError
from controller.runtime.failure_log import FORGET_SECONDS, FailureLog, Words
from tests.manual_clock import ManualClock

ERROR = CloudError("RequestLimitExceeded")
WORDS = Words("Launch failed", "Launches work again")


def logged(logs: list[object]) -> list[tuple[str, str]]:
    return [(e["log_level"], e["event"]) for e in logs if isinstance(e, dict) and e["log_level"] != "debug"]


def test_of_many_failures_the_first_is_logged_and_the_recovery_counts_them() -> None:
    clock = ManualClock()
    with capture_logs() as logs:
        failures = FailureLog(clock, "test")
        for _ in range(5):
            failures.failed("default", "throttled", WORDS, ERROR)
            clock.advance(2)
        failures.recovered("other")
        failures.recovered("default", provisioner="default")
        failures.recovered("default")
    assert logged([*logs]) == [("error", "Launch failed"), ("info", "Launches work again")]
    assert (logs[-1]["failures"], logs[-1]["after_seconds"], logs[-1]["provisioner"]) == (5, 10, "default")


def test_another_sort_of_failure_is_logged_too_and_both_recover_in_one_line() -> None:
    with capture_logs() as logs:
        failures = FailureLog(ManualClock(), "test")
        for sort in ("throttled", "unauthorized", "throttled"):
            failures.failed("default", sort, WORDS, ERROR)
        failures.recovered("default")
    assert [level for level, _ in logged([*logs])] == ["error", "error", "info"]


def test_a_failure_that_was_not_met_for_long_is_logged_again() -> None:
    clock = ManualClock()
    with capture_logs() as logs:
        failures = FailureLog(clock, "test")
        failures.failed("default", "throttled", WORDS, ERROR)
        clock.advance(2 * FORGET_SECONDS)
        failures.failed("default", "throttled", WORDS, ERROR)
    assert len(logged([*logs])) == 2
