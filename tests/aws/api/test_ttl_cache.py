"""The cache of answers from AWS: one load at a time for each key, whether it succeeds or fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from controller.aws.api.ttl_cache import Cache
from controller.errors import CloudError, CloudThrottledError
from tests.manual_clock import ManualClock

THREADS = 20
WAIT_SECONDS = 20.0


class Loader:
    """Counts loads; each waits for `go`, then answers or fails."""

    def __init__(self, fails: BaseException | None = None) -> None:
        self.fails, self.count, self.go = fails, 0, threading.Event()
        self.begun = threading.Event()

    def __call__(self) -> str:
        self.count += 1
        self.begun.set()
        assert self.go.wait(WAIT_SECONDS)
        if self.fails is not None:
            raise self.fails
        return f"value {self.count}"


def together(cache: Cache[str, str], loader: Loader, until: Callable[[], bool]) -> list[Future[str]]:
    """What many threads get that ask while the first load is under way."""
    with ThreadPoolExecutor(THREADS) as pool:
        asked = [pool.submit(cache.get, "key", loader)]
        assert loader.begun.wait(WAIT_SECONDS)
        asked += [pool.submit(cache.get, "key", loader) for _ in range(THREADS - 1)]
        waited = threading.Event()
        for _ in range(2000):
            if until():
                break
            waited.wait(0.01)
        loader.go.set()
    return asked


def waiting(cache: Cache[str, str]) -> Callable[[], bool]:
    """Whether all threads but the loading one wait for its load."""

    def all_wait() -> bool:
        flight = cache._loading["key"]
        return len(flight._condition._waiters) >= THREADS - 1  # type: ignore[attr-defined]

    return all_wait


@pytest.mark.parametrize("error", [CloudError("denied"), CloudThrottledError("slow down"), ZeroDivisionError()])
def test_a_failing_load_is_shared_by_all_who_wait_for_it(error: Exception) -> None:
    cache: Cache[str, str] = Cache(ManualClock(), 60.0)
    loader = Loader(error)
    asked = together(cache, loader, waiting(cache))
    assert {type(each.exception()) for each in asked} == {type(error)}
    assert loader.count == 1
    loader.fails = None
    assert cache.get("key", loader) == "value 2", "who asks afterwards loads again"


def test_a_load_that_succeeds_is_shared_and_kept() -> None:
    cache: Cache[str, str] = Cache(ManualClock(), 60.0)
    loader = Loader()
    asked = together(cache, loader, waiting(cache))
    assert {each.result() for each in asked} == {"value 1"}
    assert cache.get("key", loader) == "value 1"


def test_an_earlier_value_stands_in_while_aws_does_not_answer() -> None:
    clock = ManualClock()
    cache: Cache[str, str] = Cache(clock, 60.0)
    loader = Loader()
    loader.go.set()
    assert cache.get("key", loader) == "value 1"
    clock.advance(61)
    loader.fails = CloudThrottledError("slow down", "RequestLimitExceeded")
    assert cache.get("key", loader) == "value 1"
    clock.advance(61)
    loader.fails = CloudError("no", "AccessDenied")
    with pytest.raises(CloudError, match="no"):
        cache.get("key", loader)


def test_a_dropped_key_is_loaded_again() -> None:
    cache: Cache[str, str] = Cache(ManualClock(), 60.0)
    loader = Loader()
    loader.go.set()
    cache.get("key", loader)
    cache.drop("key")
    assert cache.get("key", loader) == "value 2"
