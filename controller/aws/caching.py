"""A small cache with a time to live on the controller's clock; one loader at a time for each key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import TTLCache

from controller.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_ENTRIES = 1000


class Cache(Generic[K, V]):
    """Values by key, each for `seconds`. A loader that raises leaves nothing behind. Safe for many threads."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._values: TTLCache[K, tuple[V]] = TTLCache(MAX_ENTRIES, seconds, timer=clock.monotonic)
        self._lock = threading.Lock()
        self._loading: dict[K, threading.Lock] = {}

    def get(self, key: K, load: Callable[[], V]) -> V:
        """The value of `key`, loaded when it is not held. Threads that ask for the same key wait for one load."""
        with self._lock:
            held = self._values.get(key)
            if held is not None:
                return held[0]
            gate = self._loading.setdefault(key, threading.Lock())
        with gate:
            with self._lock:
                held = self._values.get(key)
            if held is not None:
                return held[0]
            value = load()
            with self._lock:
                self._values[key] = (value,)
                self._loading.pop(key, None)
            return value

    def drop(self, key: K) -> None:
        """Load `key` anew at the next question."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Load everything anew."""
        with self._lock:
            self._values.clear()
