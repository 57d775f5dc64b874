"""Near the container's memory limit garbage is collected, and what that does not help is said once."""

from __future__ import annotations

import gc
import threading

from structlog.testing import capture_logs

from controller.runtime.memory import MemoryLimit, resident_bytes, watch_memory
from tests.manual_clock import ManualClock


class Process:
    """Memory in use, and how much of it is garbage."""

    def __init__(self, used: int = 0, garbage: int = 0) -> None:
        self.used, self.garbage, self.collected = used, garbage, 0

    def resident(self) -> int:
        return self.used

    def collect(self) -> None:
        self.collected += 1
        self.used, self.garbage = self.used - self.garbage, 0


def test_garbage_is_collected_near_the_limit_and_not_before() -> None:
    process = Process(used=89, garbage=30)
    limit = MemoryLimit(100, process.resident, process.collect)
    with capture_logs() as logs:
        limit.look()
        assert process.collected == 0
        process.used = 90
        limit.look()
    assert (process.collected, process.used) == (1, 60)
    assert logs == [], "it helped: nobody need know"


def test_what_collecting_does_not_help_is_said_once_with_a_remedy_and_its_end_too() -> None:
    process = Process(used=95)
    limit = MemoryLimit(100, process.resident, process.collect)
    with capture_logs() as logs:
        for used in (95, 97, 85, 95, 79, 79):
            process.used = used
            limit.look()
    assert [(entry["event"], entry["used_bytes"]) for entry in logs] == [
        ("Memory is near its limit; raise resources.limits.memory of the controller", 95),
        ("Memory is well below its limit again", 79),
    ]


def test_a_process_with_a_limit_looks_and_one_without_does_not() -> None:
    """A limit of one byte is passed by any process: its thread collects at once."""
    stop, looked = threading.Event(), threading.Event()

    def on_collect(phase: str, _info: object) -> None:
        if phase == "start" and threading.current_thread().name == "memory":
            looked.set()
            stop.set()

    gc.callbacks.append(on_collect)
    try:
        before = threading.active_count()
        watch_memory(-1, ManualClock(), stop)
        assert threading.active_count() == before
        with capture_logs():
            watch_memory(1, ManualClock(), stop)
            assert looked.wait(10)
    finally:
        stop.set()
        gc.callbacks.remove(on_collect)
    assert resident_bytes() > 10 * 2**20
