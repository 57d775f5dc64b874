"""A queue of keys as in client-go: a key waits once, is worked on by one worker at a time, and is retried with
back-off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from sandbox.world.client import ApiError
from sandbox.world.clock import WorldClock

K = TypeVar("K", bound=Hashable)
FIRST_RETRY_SECONDS = 0.05
LAST_RETRY_SECONDS = 10.0

log = logging.getLogger(__name__)


class Workqueue(Generic[K]):
    """Keys to reconcile. `add` from handlers; `run` works them off with `concurrency` workers."""

    def __init__(self, name: str, clock: WorldClock) -> None:
        self._name = name
        self._clock = clock
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def add(self, key: K) -> None:
        """Work on `key` soon; again afterwards if it is being worked on."""
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, sandbox_seconds: float) -> None:
        """Work on `key` once that time has passed; the earliest of several wishes counts."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._clock.real_seconds(sandbox_seconds)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._fire, key)

    def _fire(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def run(self, work: Callable[[K], Awaitable[float | None]], concurrency: int = 4) -> None:
        """Work for ever. `work` returns the sandbox seconds after which it wants the key again, or None."""
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(self._worker(work), name=self._name)

    async def _worker(self, work: Callable[[K], Awaitable[float | None]]) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._active.add(key)
            try:
                after = await work(key)
                self._failures.pop(key, None)
                if after is not None:
                    self.add_after(key, after)
            except ApiError as error:
                # Said once: not for every retry, and not for what an outage or a race explains.
                expected = error.conflict or error.not_found or not error.status or key in self._failures
                log.log(logging.DEBUG if expected else logging.WARNING, "%s %s: %s", self._name, key, error)
                self._retry(key)
            except Exception:
                log.exception("%s %s failed; retried with back-off", self._name, key)
                self._retry(key)
            finally:
                self._active.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    def _retry(self, key: K) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, min(FIRST_RETRY_SECONDS * 2.0**failures, LAST_RETRY_SECONDS))
