"""Run work concurrently: executors, their jobs, and flags.

Reconcilers are handed these and create no threads. In the process an executor is a thread pool (`ThreadExecutors`); in
a single-threaded simulation a job runs to its end when it is submitted (`INLINE`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from concurrent import futures
from typing import Final, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Lock = threading.Lock
"""Guards state that the jobs of an executor share."""


class Flag(Protocol):
    """A condition that becomes true once and stays so. Thread-safe."""

    def is_set(self) -> bool:
        """Return whether the condition is true."""

    def set(self) -> None:
        """Make it true."""


class Job(Protocol[T_co]):
    """Work that was submitted."""

    def done(self) -> bool:
        """Return whether it has ended, by a result or by an exception."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the result. Raises the work's own exception, and TimeoutError after `timeout` seconds."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end; the exception that the work raised, if it did."""


class Executor(Protocol):
    """Runs work concurrently, up to its number of workers."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Job[T]:
        """Begin `work(*args, **kwargs)`, or queue it until a worker is free."""

    def map(self, work: Callable[[S], T], items: Iterable[S], /) -> Iterable[T]:
        """Begin `work` on each of `items` at once; the results, in the items' order, as they are asked for."""

    def wait(self, jobs: Collection[Job[T]], timeout_seconds: float) -> None:
        """Wait until all of these jobs have ended, or the time is up."""


class Executors(Protocol):
    """Makes executors."""

    def executor(self, name: str, workers: int) -> Executor:
        """Return an executor of up to `workers` concurrent jobs. `name` prefixes the names of its threads."""

    def close(self) -> None:
        """Cancel queued jobs. Running ones continue, and are not waited for."""


class _ThreadExecutor(futures.ThreadPoolExecutor):
    def map(self, work: Callable[[S], T], items: Iterable[S], /) -> Iterable[T]:  # type: ignore[override]
        return super().map(work, items)

    def wait(self, jobs: Collection[Job[T]], timeout_seconds: float) -> None:
        futures.wait([job for job in jobs if isinstance(job, futures.Future)], timeout_seconds)


class ThreadExecutors:
    """Thread pools, shut down together."""

    def __init__(self) -> None:
        self._pools: list[_ThreadExecutor] = []

    def executor(self, name: str, workers: int) -> Executor:
        self._pools.append(_ThreadExecutor(workers, thread_name_prefix=name))
        return self._pools[-1]

    def __enter__(self) -> ThreadExecutors:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)


class _Inline:
    """Executors and Executor in one: runs each job when it is submitted."""

    def executor(self, name: str, workers: int) -> Executor:  # noqa: ARG002 - nothing runs concurrently here
        return self

    def close(self) -> None:
        """No job is ever queued."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Job[T]:
        job: futures.Future[T] = futures.Future()
        try:
            job.set_result(work(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised again from the job's result
            job.set_exception(error)
        return job

    def map(self, work: Callable[[S], T], items: Iterable[S], /) -> Iterable[T]:
        return [work(item) for item in items]

    def wait(self, jobs: Collection[Job[T]], timeout_seconds: float) -> None:
        """Every job has ended already."""


INLINE: Final = _Inline()
"""Executors for one thread: jobs run in the order of their submission."""
