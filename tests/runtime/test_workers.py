"""A worker calls its step until it is told to stop; the step says when it wants to be called again."""

from __future__ import annotations

import threading

from controller.runtime.clock import SystemClock
from controller.runtime.workers import Worker, periodic


def test_a_periodic_worker_is_called_until_it_is_told_to_stop() -> None:
    stop, calls = threading.Event(), threading.Semaphore(0)

    def step() -> float:
        calls.release()
        return 0.001

    worker = periodic("ticks", step, SystemClock(), stop)
    assert not worker.started
    assert worker.join(0.0), "what was never started has ended"
    worker.start()
    assert all(calls.acquire(timeout=5) for _ in range(3))
    assert worker.alive
    stop.set()
    assert worker.join(5.0)
    assert worker.started


def test_a_long_pause_ends_when_the_worker_is_told_to_stop() -> None:
    stop, called = threading.Event(), threading.Event()

    def step() -> float:
        called.set()
        return 3600.0

    worker: Worker = periodic("idle", step, SystemClock(), stop)
    worker.start()
    assert called.wait(5)
    stop.set()
    assert worker.join(5.0)
