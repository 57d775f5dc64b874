"""Work side by side: on threads in the process, in the order of the calls where one thread does everything."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from controller.runtime.executors import INLINE, Executors, ThreadExecutors


def fail(_item: int) -> int:
    raise ValueError("no")


@pytest.mark.parametrize("executors", [ThreadExecutors(), INLINE], ids=["threads", "inline"])
def test_results_come_in_the_items_order_and_errors_with_their_job(executors: Executors) -> None:
    executor = executors.executor("test", 4)
    assert list(executor.map(lambda item: item * 2, [3, 1, 2])) == [6, 2, 4]
    jobs = [executor.submit(fail, 1), executor.submit(max, 1, 2)]
    executor.wait(jobs, 5.0)
    assert [job.done() for job in jobs] == [True, True]
    assert isinstance(jobs[0].exception(), ValueError)
    assert jobs[1].result() == 2
    executors.close()


def test_jobs_on_threads_run_side_by_side_and_inline_in_the_caller() -> None:
    meet = threading.Barrier(2, timeout=5)
    with ThreadExecutors() as executors:
        assert sorted(executors.executor("pair", 2).map(lambda _: meet.wait(), range(2))) == [0, 1]
    assert INLINE.executor("any", 2).submit(threading.get_ident).result() == threading.get_ident()


def test_closing_cancels_queued_jobs_and_lets_running_ones_end() -> None:
    running, end = threading.Event(), threading.Event()

    def work() -> str:
        running.set()
        assert end.wait(5)
        return "done"

    executors = ThreadExecutors()
    executor = executors.executor("one", 1)
    first, second = executor.submit(work), executor.submit(work)
    assert running.wait(5)
    executors.close()
    end.set()
    assert first.result(5) == "done"
    with pytest.raises(CancelledError):
        second.result(5)
