"""When a call is worth repeating, and how long to wait: exponential back-off with jitter, or as the server says."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from controller.errors import KubeError, TooManyRequestsError, UnavailableError
from controller.kube.refusals import NotSentError
from controller.runtime.clock import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of `initial_seconds`, doubled up to `max_seconds`, with jitter; `attempts` in all (0: no limit)."""

    initial_seconds: float = 0.2
    max_seconds: float = 5.0
    attempts: int = 5
    uniform: Callable[[float, float], float] = random.uniform
    """The source of the jitter: a random number between two."""

    def wait_seconds(self, attempt: int) -> float:
        """A random wait after the `attempt`th failure in a row, counted from 1; never less than half of its bound."""
        bound = min(self.max_seconds, self.initial_seconds * 2.0 ** min(attempt - 1, 30))
        return self.uniform(bound / 2, bound)


def repeatable(error: BaseException, idempotent: bool) -> bool:
    """Whether the same request may go out again.

    A request that never left may, whatever its verb. So may one that was refused with 429 before anything was done.
    After a cut connection or a 5xx nobody knows what was done: then only idempotent ones.
    """
    if isinstance(error, NotSentError | TooManyRequestsError):
        return True
    return idempotent and isinstance(error, UnavailableError)


def call(
    fn: Callable[[], T],
    backoff: Backoff,
    clock: Clock,
    stop: threading.Event,
    retry_if: Callable[[BaseException], bool],
    before_wait: Callable[[KubeError, float], None] | None = None,
) -> T:
    """Call `fn` until it succeeds, fails with what `retry_if` denies, runs out of attempts, or `stop` is set.

    Raises the last error as it is. A Retry-After longer than the back-off's wait takes its place.
    """

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after_seconds if isinstance(error, TooManyRequestsError) else 0.0
        return max(asked, backoff.wait_seconds(state.attempt_number))

    def say(state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if before_wait is not None and isinstance(error, KubeError):
            before_wait(error, state.upcoming_sleep)

    def pause(seconds: float) -> None:
        clock.wait(stop, seconds)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(retry_if),
        wait=wait,
        stop=tenacity.stop_any(
            tenacity.stop_when_event_set(stop),
            tenacity.stop_after_attempt(backoff.attempts) if backoff.attempts else tenacity.stop_never,
        ),
        sleep=pause,
        before_sleep=say,
        reraise=True,
    )
    return retrying(fn)
