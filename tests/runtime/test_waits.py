"""What a leader waits for before it acts is a log line at its onset and its end, a metric, and a line for /readyz."""

from __future__ import annotations

from structlog.testing import capture_logs

from controller.runtime.waits import Waits
from controller.telemetry.registry import Metrics
from tests.manual_clock import ManualClock
from tests.telemetry.test_registry import values


def test_a_wait_is_logged_once_and_shown_until_its_end() -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    waits = Waits(clock, metrics)

    def shown() -> set[tuple[str, ...]]:
        return {
            wait for wait, value in values(metrics.page({}).body, "nodeless_leader_waiting", "wait").items() if value
        }

    with capture_logs() as logs:
        waits.note("adoption", "")
        waits.note("adoption", "i-1 and i-2")
        waits.note("adoption", "i-2")
        waits.note("cluster", "its proof")
        assert waits.text() == "adoption: i-2; cluster: its proof"
        assert shown() == {("adoption",), ("cluster",)}
        clock.advance(7.0)
        waits.note("adoption", "")
        assert (waits.text(), shown()) == ("cluster: its proof", {("cluster",)})
        waits.note("cluster", "")
        assert (waits.text(), shown()) == ("", set())
    said = [(line["event"], line["wait"], line.get("after_seconds")) for line in logs]
    assert said == [
        ("The leader waits before it acts", "adoption", None),
        ("The leader waits before it acts", "cluster", None),
        ("The leader no longer waits", "adoption", 7.0),
        ("The leader no longer waits", "cluster", 7.0),
    ]
