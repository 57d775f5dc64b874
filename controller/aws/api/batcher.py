"""Merge calls of many threads at about the same time: Describe, Terminate and CreateFleet calls.

EC2 throttles by calls, not by ids. The first caller of a batch leads it: it waits until no further call joins for a
moment, makes the call, and hands out the results; no thread of its own is needed. Windows and sizes are Karpenter
v0.27's, but for 200 items: the number of values that an EC2 filter takes.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from controller.errors import CloudError
from controller.runtime.clock import Clock
from controller.runtime.metrics import BATCH_SIZE, BATCH_TIME, SILENT, Recorder

I = TypeVar("I", bound=Hashable)  # noqa: E741 - item
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Window:
    """A batch closes when no call came for `idle_seconds`, at the latest after `max_seconds` or with `max_items`."""

    idle_seconds: float = 0.1
    max_seconds: float = 1.0
    max_items: int = 200


@dataclass(slots=True, eq=False)
class _Batch(Generic[I, R]):
    items: list[I] = field(default_factory=list)
    full: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    results: Mapping[I, R | CloudError] = field(default_factory=dict)
    error: BaseException | None = None


class Batcher(Generic[I, R]):
    """Calls `run` with the items of one batch, each once; it answers by item, with a CloudError where one failed."""

    def __init__(
        self,
        clock: Clock,
        window: Window,
        run: Callable[[list[I]], Mapping[I, R | CloudError]],
        name: str = "",
        recorder: Recorder = SILENT,
        admit: Callable[[], None] | None = None,
    ) -> None:
        """`name`: what the batches are measured under. `admit` waits until a call may be made; its batch stays open."""
        self._name = name
        self._recorder = recorder
        self._clock = clock
        self._window = window
        self._run = run
        self._admit = admit
        self._lock = threading.Lock()
        self._open: _Batch[I, R] | None = None

    def call(self, item: I) -> R:
        """The result of `item`. Raises what `run` raised, or the CloudError it gave for the item."""
        with self._lock:
            batch, leads = self._open, False
            if batch is None:
                batch, leads = _Batch(), True
                self._open = batch
            if item not in batch.items:
                batch.items.append(item)
            if len(batch.items) >= self._window.max_items:
                self._open = None
                batch.full.set()
        if leads:
            self._lead(batch)
        else:
            batch.done.wait()
        if batch.error is not None:
            raise copy.copy(batch.error)  # threads must not share a traceback
        result = batch.results[item]
        if isinstance(result, CloudError):
            raise copy.copy(result)
        return result

    def _lead(self, batch: _Batch[I, R]) -> None:
        began = self._clock.monotonic()
        try:
            self._gather(batch)
            self._recorder.observe(BATCH_TIME, self._clock.monotonic() - began, self._name)
            self._recorder.observe(BATCH_SIZE, len(batch.items), self._name)
            results = self._run(batch.items)
            missing = [item for item in batch.items if item not in results]
            if missing:
                raise CloudError(f"No result for {', '.join(map(str, missing))}; it is tried again")
            batch.results = results
        except BaseException as error:
            batch.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._close(batch)
            batch.done.set()

    def _gather(self, batch: _Batch[I, R]) -> None:
        deadline = self._clock.monotonic() + self._window.max_seconds
        count = 0
        while count < len(batch.items) and (left := deadline - self._clock.monotonic()) > 0:
            count = len(batch.items)
            if self._clock.wait(batch.full, min(self._window.idle_seconds, left)):
                break
        if self._admit is not None:
            self._admit()
        self._close(batch)

    def _close(self, batch: _Batch[I, R]) -> None:
        with self._lock:
            if self._open is batch:
                self._open = None
