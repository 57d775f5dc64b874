"""Loops outlive everything, back off, and say each trouble once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError
from controller.runtime.clock import SystemClock
from controller.runtime.executors import Flag
from controller.runtime.loops import NO_REST, STUCK_SECONDS, BackoffTimes, ItemBackoff, Loop, Rest


class HandClock(SystemClock):
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class Source:
    """Snapshots on demand."""

    def __init__(self) -> None:
        self.current = Snapshot(version=1)
        self.changed = threading.Condition()

    def snapshot(self) -> Snapshot:
        return self.current

    def publish(self) -> None:
        with self.changed:
            self.current = Snapshot(version=self.current.version + 1)
            self.changed.notify_all()

    def wait_for_change(self, version: int, stop: Flag, timeout_seconds: float) -> Snapshot:
        with self.changed:
            self.changed.wait_for(lambda: self.current.version > version or stop.is_set(), min(timeout_seconds, 5.0))
            return self.current


class Scripted:
    """Raises what it is told to, then counts."""

    name = "scripted"

    def __init__(self, *errors: Exception, wants_seconds: float = 60.0) -> None:
        self.errors = list(errors)
        self.seen: list[int] = []
        self.wants_seconds = wants_seconds
        self.passed = threading.Semaphore(0)

    def reconcile(self, snapshot: Snapshot) -> float:
        self.seen.append(snapshot.version)
        self.passed.release()
        if self.errors:
            raise self.errors.pop(0)
        return self.wants_seconds


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_change_wakes_a_loop_that_had_nothing_to_do(stop: threading.Event) -> None:
    source, work = Source(), Scripted()
    loop = Loop(work, source, SystemClock(), stop, settle_seconds=0.001)
    loop.start()
    assert work.passed.acquire(timeout=5)
    source.publish()
    assert work.passed.acquire(timeout=5)
    assert work.seen == [1, 2]
    stop.set()
    source.publish()
    assert loop.join(5)


@pytest.mark.parametrize("error", [CloudError("down"), ZeroDivisionError("a mistake of ours")])
def test_no_exception_ends_a_loop(stop: threading.Event, error: Exception) -> None:
    source, work = Source(), Scripted(error, error, wants_seconds=0.0)
    Loop(work, source, SystemClock(), stop, settle_seconds=0.001, backoff=BackoffTimes(0.001, 0.01)).start()
    for _ in range(3):
        assert work.passed.acquire(timeout=5)


def test_the_same_failure_is_said_once_and_its_end_once(stop: threading.Event) -> None:
    work = Scripted(CloudError("down"), CloudError("down"), CloudError("down otherwise"))
    loop = Loop(work, Source(), HandClock(), stop, backoff=BackoffTimes(1.0, 3.0))
    with capture_logs() as logs:
        pauses = [loop.step() for _ in range(5)]
    assert [pause.seconds for pause in pauses] == [1.0, 2.0, 3.0, 60.0, 60.0]
    assert [pause.version for pause in pauses] == [None, None, None, 1, 1], "a change does not end a back-off"
    said = [(entry["event"], entry.get("error", "")) for entry in logs]
    assert said == [
        ("Pass failed", "CloudError: down"),
        ("Pass failed", "CloudError: down otherwise"),
        ("Recovered", ""),
    ]


@pytest.mark.parametrize(("took_seconds", "settle_seconds"), [(0.0, 0.5), (0.02, 0.5), (0.1, 2.0), (30.0, 5.0)])
def test_a_loop_that_may_rest_leaves_changes_alone_in_proportion_to_what_its_pass_took(
    stop: threading.Event, took_seconds: float, settle_seconds: float
) -> None:
    clock = HandClock()

    class Busy(Scripted):
        def reconcile(self, snapshot: Snapshot) -> float:
            clock.at += took_seconds
            return super().reconcile(snapshot)

    for rest, expected in ((Rest(20.0, most_seconds=5.0), settle_seconds), (NO_REST, 0.5)):
        loop = Loop(Busy(), Source(), clock, stop, settle_seconds=0.5, rest=rest)
        assert loop.step().settle_seconds == pytest.approx(expected)


def test_only_a_mistake_of_ours_is_logged_with_its_trace(stop: threading.Event) -> None:
    loop = Loop(Scripted(CloudError("down"), KeyError("x")), Source(), HandClock(), stop)
    with capture_logs() as logs:
        loop.step()
        loop.step()
    assert [entry["exc_info"] for entry in logs] == [False, True]


def test_a_loop_that_was_never_started_has_ended(stop: threading.Event) -> None:
    assert Loop(Scripted(), Source(), SystemClock(), stop).join(0.0)


def test_a_loop_in_the_middle_of_a_pass_is_waited_for(stop: threading.Event) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow:
        name = "slow"

        def reconcile(self, _snapshot: Snapshot) -> float:
            entered.set()
            leave.wait(5)
            return 60.0

    loop = Loop(Slow(), Source(), SystemClock(), stop)
    loop.start()
    assert entered.wait(5)
    stop.set()
    assert not loop.join(0.01)
    leave.set()
    assert loop.join(5)


def test_items_back_off_one_by_one() -> None:
    clock = HandClock()
    items = ItemBackoff(clock, "test", BackoffTimes(1.0, 4.0))
    for expected in (1.0, 2.0, 4.0, 4.0):
        assert items.failed("a", CloudError("x"), "Failed") == expected
    assert not items.ready("a")
    assert items.ready("b")
    assert items.next_try_seconds() == 4.0
    clock.at += 4.0
    assert items.ready("a")
    items.succeeded("a")
    assert items.failed("a", CloudError("x"), "Failed") == 1.0


def test_an_item_says_the_same_failure_once() -> None:
    items = ItemBackoff(HandClock(), "test")
    with capture_logs() as logs:
        for text in ("x", "x", "y"):
            items.failed("a", CloudError(text), "Failed", node="n")
        items.failed("b", CloudError("y"), "Failed", node="m")
    assert [(entry["node"], entry["error"]) for entry in logs] == [
        ("n", "CloudError: x"),
        ("n", "CloudError: y"),
        ("m", "CloudError: y"),
    ]


def test_an_attempt_backs_off_on_the_errors_it_names_and_raises_the_others() -> None:
    items = ItemBackoff(HandClock(), "test")

    def fail(error: Exception) -> None:
        raise error

    with capture_logs() as logs:
        assert not items.attempt("a", lambda: fail(CloudError("x")), "Failed", CloudError, node="n")
        assert not items.ready("a")
        assert items.attempt("a", lambda: None, "Failed", CloudError, node="n")
        assert items.ready("a")
    assert [(line["event"], line.get("node")) for line in logs] == [("Failed", "n"), ("Recovered", None)]
    with pytest.raises(ValueError, match="a bug"):
        items.attempt("a", lambda: fail(ValueError("a bug")), "Failed", CloudError)


def test_a_refusal_that_is_no_error_is_not_logged() -> None:
    items = ItemBackoff(HandClock(), "test", BackoffTimes(1.0, 4.0))
    with capture_logs() as logs:
        items.postpone("a")
    assert logs == []
    assert not items.ready("a")


def test_items_that_are_gone_are_forgotten() -> None:
    items = ItemBackoff(HandClock(), "test")
    items.failed("a", CloudError("x"), "Failed")
    items.keep({"b"})
    assert items.ready("a")
    assert items.next_try_seconds() == 60.0


def test_ten_thousand_failures_do_not_overflow_the_delay() -> None:
    assert BackoffTimes(0.5, 30.0).delay_seconds(10_000) == 30.0


def test_a_loop_that_hangs_or_has_no_thread_is_stuck_and_one_that_moves_is_not() -> None:
    """Health is about threads that run: not about those that were never started, nor about a process that stops."""
    clock, stop, hang = HandClock(), threading.Event(), threading.Event()

    class Hanging:
        name = "hanging"

        def __init__(self) -> None:
            self.inside = threading.Event()

        def reconcile(self, snapshot: Snapshot) -> float:
            self.inside.set()
            hang.wait(10)
            return 60.0

    reconciler, source = Hanging(), Source()
    loop = Loop(reconciler, source, clock, stop)
    clock.at += 10_000
    assert loop.stuck() == "", "not started: it stands by"
    loop.start()
    assert reconciler.inside.wait(5)
    assert loop.stuck() == "", "its time begins with its start"
    clock.at += STUCK_SECONDS + 1
    assert "its last pass ended 601 s ago" in loop.stuck()
    stop.set()
    assert loop.stuck() == "", "it ends"
    hang.set()
    source.publish()
    assert loop.join(5)
    stop.clear()
    assert loop.stuck() == "its thread is gone"
