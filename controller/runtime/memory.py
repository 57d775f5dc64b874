"""Tune Python's garbage collector, and collect and warn near the container's memory limit."""

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
"""New objects before the collector scans the young generation. With Python's default of 700 it would do so about a
hundred times per plan, although nearly all objects of a plan live until the plan is executed."""
LIMIT_SHARE: Final = 0.9
"""Share of the limit above which garbage is collected: Karpenter v0.27's for Go's soft memory limit."""
CALM_SHARE: Final = 0.8
"""Share of the limit below which the warning is withdrawn."""
LOOK_SECONDS: Final = 10.0
_STATM: Final = Path("/proc/self/statm")

_log = structlog.get_logger("memory")


def collect_seldom() -> None:
    """Run the cyclic collector rarely, so that it does not scan tens of thousands of pods again and again.

    Reference counting still frees nearly everything at once; reference cycles wait for the next collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


class MemoryLimit:
    """Check the memory against its limit. Not thread-safe."""

    def __init__(
        self, limit_bytes: int, resident_bytes: Callable[[], int], collect: Callable[[], object] = gc.collect
    ) -> None:
        """`resident_bytes` returns the process's current memory; `collect` frees what it can."""
        self._limit = limit_bytes
        self._resident = resident_bytes
        self._collect = collect
        self._warned = False

    def look(self) -> float:
        """Collect near the limit, warn once if that does not help; return the seconds until the next check."""
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
    """Return the process's resident memory. Raises OSError without /proc."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch_memory(limit_bytes: int, clock: Clock, stop: threading.Event) -> None:
    """Check the memory periodically until `stop` is set; does nothing without a limit or without /proc."""
    if limit_bytes > 0 and _STATM.exists():
        periodic("memory", MemoryLimit(limit_bytes, resident_bytes).look, clock, stop).start()
