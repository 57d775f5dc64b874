"""The container's memory: near its limit garbage is collected at once, and people are told before the kernel ends it.

The cyclic collector runs seldom here (see `runtime.garbage_collector`). The limit does what Go's soft memory limit does
for Karpenter v0.27, which sets it to the same share.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from controller.runtime.clock import Clock

SHARE: Final = 0.9
"""Of the limit, from which on something is done (the peer's)."""
CALM_SHARE: Final = 0.8
"""Below which what was said is taken back."""
LOOK_SECONDS: Final = 10.0
_STATM: Final = Path("/proc/self/statm")

_log = structlog.get_logger("memory")


class MemoryLimit:
    """Looked at by one thread."""

    def __init__(
        self, limit_bytes: int, resident_bytes: Callable[[], int], collect: Callable[[], object] = gc.collect
    ) -> None:
        """`resident_bytes` says what the process has now; `collect` gives back what it can."""
        self._limit = limit_bytes
        self._resident = resident_bytes
        self._collect = collect
        self._said = False

    def look(self) -> None:
        """Near the limit: collect, and if that does not help, say so once; say too when it is over."""
        used = self._resident()
        if used >= SHARE * self._limit:
            self._collect()
            used = self._resident()
        if used >= SHARE * self._limit and not self._said:
            self._said = True
            _log.warning(
                "Memory is near its limit; raise resources.limits.memory of the controller",
                used_bytes=used,
                limit_bytes=self._limit,
            )
        elif used < CALM_SHARE * self._limit and self._said:
            self._said = False
            _log.info("Memory is well below its limit again", used_bytes=used, limit_bytes=self._limit)


def resident_bytes() -> int:
    """What of this process is in memory now. Raises OSError where the kernel does not tell."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch(limit_bytes: int, clock: Clock, stop: threading.Event) -> None:
    """Look now and then until `stop` is set; not where there is no limit, or no Linux."""
    if limit_bytes <= 0 or not _STATM.exists():
        return
    limit = MemoryLimit(limit_bytes, resident_bytes)

    def run() -> None:
        while not clock.wait(stop, LOOK_SECONDS):
            limit.look()

    threading.Thread(target=run, name="memory", daemon=True).start()
