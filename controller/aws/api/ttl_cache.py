"""A cache with a time to live on the controller's clock, and one load at a time for each key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from cachetools import TTLCache

from controller.aws.api.aws_errors import transient
from controller.errors import CloudError
from controller.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_ENTRIES = 1000
STALE_SECONDS = 3600.0
"""For how long an earlier value is used while AWS does not answer."""


class Cache(Generic[K, V]):
    """Values by key, each for `seconds`. Safe for many threads.

    A load that fails for a transient reason is answered with the earlier value, if there is one; other failures raise.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._fresh: TTLCache[K, tuple[V]] = TTLCache(MAX_ENTRIES, seconds, timer=clock.monotonic)
        self._stale: TTLCache[K, tuple[V]] = TTLCache(MAX_ENTRIES, STALE_SECONDS, timer=clock.monotonic)
        self._lock = threading.Lock()
        self._loading: dict[K, Future[tuple[V]]] = {}

    def get(self, key: K, load: Callable[[], V]) -> V:
        """The value of `key`, loaded if need be. Threads that ask for the same key wait for one load.

        They share its failure, too: AWS is not asked once more for each thread that waited.
        """
        with self._lock:
            held = self._fresh.get(key)
            if held is not None:
                return held[0]
            flight = self._loading.get(key)
            first = flight is None
            if flight is None:
                flight = self._loading[key] = Future()
        if first:
            self._fly(flight, key, load)
        return flight.result()[0]

    def _fly(self, flight: Future[tuple[V]], key: K, load: Callable[[], V]) -> None:
        """Load `key`, and give the value or the failure to all who wait."""
        try:
            value = self._loaded(key, load)
        except BaseException as error:  # noqa: BLE001 - raised again, in this thread and in those that wait
            with self._lock:
                del self._loading[key]
            flight.set_exception(error)
        else:
            with self._lock:
                self._fresh[key] = value
                del self._loading[key]
            flight.set_result(value)

    def drop(self, key: K) -> None:
        """Load `key` again at the next `get`."""
        with self._lock:
            self._fresh.pop(key, None)

    def _loaded(self, key: K, load: Callable[[], V]) -> tuple[V]:
        try:
            value = (load(),)
        except CloudError as error:
            with self._lock:
                held = self._stale.get(key)
            if held is None or not transient(error):
                raise
            return held
        with self._lock:
            self._stale[key] = value
        return value
