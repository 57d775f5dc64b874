"""Retry requests: exponential back-off with jitter, or after the delay that the server asks for."""

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
    """Delays of `initial_seconds`, doubled up to `max_seconds`, with jitter; `attempts` includes the first one."""

    initial_seconds: float = 0.2
    max_seconds: float = 5.0
    attempts: int = 5
    uniform: Callable[[float, float], float] = random.uniform
    """The source of the jitter: a random number between two."""

    def wait_seconds(self, attempt: int) -> float:
        """A random delay between half of the bound and the bound after the `attempt`th consecutive failure (from 1)."""
        bound = min(self.max_seconds, self.initial_seconds * 2.0 ** min(attempt - 1, 30))
        return self.uniform(bound / 2, bound)


def repeatable(error: KubeError, idempotent: bool) -> bool:
    """Whether the same request may be sent again.

    A request that was not sent may, whatever its verb, as may one refused with 429. After a cut connection or a 5xx it
    is unknown whether the request was executed: then only idempotent ones are retried.
    """
    if isinstance(error, NotSentError | TooManyRequestsError):
        return True
    return idempotent and isinstance(error, UnavailableError)


def call(
    fn: Callable[[], T], backoff: Backoff, clock: Clock, stop: threading.Event, retry_if: Callable[[KubeError], bool]
) -> T:
    """Call `fn` until it succeeds, `retry_if` rejects its error, no attempts are left, or `stop` is set.

    Raises the last error. A Retry-After longer than the back-off's delay replaces it.
    """

    def wait_seconds(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked_seconds = error.retry_after_seconds if isinstance(error, TooManyRequestsError) else 0.0
        return max(asked_seconds, backoff.wait_seconds(state.attempt_number))

    def pause(seconds: float) -> None:
        clock.wait(stop, seconds)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, KubeError) and retry_if(error)),
        wait=wait_seconds,
        stop=tenacity.stop_any(tenacity.stop_when_event_set(stop), tenacity.stop_after_attempt(backoff.attempts)),
        sleep=pause,
        reraise=True,
    )
    return retrying(fn)
