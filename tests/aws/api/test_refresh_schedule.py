"""Data of AWS is read when it is due, and a failing read keeps no other from being read."""

from __future__ import annotations

import structlog
from structlog.testing import LogCapture

from controller.aws.api.refresh_schedule import RefreshSchedule
from controller.errors import CloudError
from tests.manual_clock import ManualClock


class Reads:
    """Two reads, of which one fails while `down`."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.down = False
        self.clock = ManualClock()
        self.logs = LogCapture()
        logger = structlog.wrap_logger(None, processors=[self.logs])
        reads = {"often": (self.often, 10.0), "seldom": (self.seldom, 100.0)}
        self.schedule = RefreshSchedule(self.clock, logger, reads)

    def often(self) -> int:
        self.done.append("often")
        if self.down:
            raise CloudError("no answer")
        return 1

    def seldom(self) -> int:
        self.done.append("seldom")
        return 1

    def run(self, after_seconds: float) -> list[str]:
        self.done.clear()
        self.clock.advance(after_seconds)
        self.schedule.run_due()
        return self.done

    def logged(self) -> list[tuple[str, str]]:
        return [(entry["event"], entry["what"]) for entry in self.logs.entries]


def test_each_read_has_its_own_interval() -> None:
    reads = Reads()
    assert reads.run(0.0) == ["often", "seldom"]
    assert reads.run(5.0) == []
    assert reads.run(5.0) == ["often"]
    assert reads.run(90.0) == ["often", "seldom"]
    assert reads.logged() == []


def test_a_failing_read_is_tried_at_each_call_stops_no_other_and_is_logged_at_its_start_and_end() -> None:
    reads = Reads()
    reads.down = True
    assert reads.run(0.0) == ["often", "seldom"]
    assert reads.run(1.0) == ["often"]
    reads.down = False
    assert reads.run(1.0) == ["often"]
    assert reads.run(1.0) == []
    assert reads.logged() == [
        ("Reading from AWS fails; the earlier content is used", "often"),
        ("Reading from AWS works again", "often"),
    ]
