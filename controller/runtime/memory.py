"""The process's memory: how often Python collects garbage, and what happens near the container's limit."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from controller.runtime.clock import Clock
from controller.runtime.workers import periodic

YOUNG_OBJECTS: Final = 100_000
"""New objects before the collector looks at the young generation. With Python's own 700 it would look about a hundred
times during a plan, although nearly all that a plan makes lives until the plan is carried out."""
LIMIT_SHARE: Final = 0.9
"""Of the limit, above which garbage is collected: the share that Karpenter v0.27 gives to Go's soft memory limit."""
CALM_SHARE: Final = 0.8
"""Of the limit, below which the warning is taken back."""
LOOK_SECONDS: Final = 10.0
_STATM: Final = Path("/proc/self/statm")

_log = structlog.get_logger("memory")


def collect_seldom() -> None:
    """Let the cyclic collector run seldom, so that it does not walk over tens of thousands of pods again and again.

    Reference counts still free nearly everything at once; reference cycles wait for the next collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


class MemoryLimit:
    """Not thread-safe: one worker looks."""

    def __init__(
        self, limit_bytes: int, resident_bytes: Callable[[], int], collect: Callable[[], object] = gc.collect
    ) -> None:
        """`resident_bytes` returns the process's memory now; `collect` frees what it can."""
        self._limit = limit_bytes
        self._resident = resident_bytes
        self._collect = collect
        self._warned = False

    def look(self) -> float:
        """Collect near the limit, warn once if that does not help; seconds until the next look."""
        used = self._resident()
        if used >= LIMIT_SHARE * self._limit:
            self._collect()
            used = self._resident()
        if used >= LIMIT_SHARE * self._limit and not self._warned:
            self._warned = True
            _log.warning(
                "Memory is near its limit; raise resources.limits.memory of the controller",
                used_bytes=used,
                limit_bytes=self._limit,
            )
        elif used < CALM_SHARE * self._limit and self._warned:
            self._warned = False
            _log.info("Memory is well below its limit again", used_bytes=used, limit_bytes=self._limit)
        return LOOK_SECONDS


def resident_bytes() -> int:
    """The process's resident memory. Raises OSError where the kernel does not tell."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch_memory(limit_bytes: int, clock: Clock, stop: threading.Event) -> None:
    """Look at the memory periodically until `stop` is set; not without a limit, and not without Linux's /proc."""
    if limit_bytes > 0 and _STATM.exists():
        periodic("memory", MemoryLimit(limit_bytes, resident_bytes).look, clock, stop).start()
