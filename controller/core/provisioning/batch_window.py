"""The batch window: pods that appear together are scheduled together.

As in Karpenter v0.27 (`batchIdleDuration`, `batchMaxDuration`), the first trigger opens the window, each further one
restarts the idle timer, and the window closes when either timer ends. Karpenter lets a burst that goes on wait for all
of the longer timer; here the window also closes once a plan gains nothing from more pods. The window is a value and
takes times as arguments: equal triggers give equal windows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from controller.core.api.frozen import EMPTY, FrozenMap


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Durations of the batch window, in seconds."""

    idle_seconds: float = 1.0
    max_seconds: float = 10.0
    retrigger_seconds: float = 10.0
    """A pod that still waits after this long counts as a new trigger."""
    enough: int = 1_000
    enough_each: int = 100
    """With so many triggers in all, and so many for each workload, a window closes `idle_seconds` after it opened,
    whether more come or not: a plan gains little from further ones of the same workloads, and what it leaves free is
    room for them."""


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """The state between two observations. `seen`: when each of the known triggers last counted.

    `count`: how many triggers counted since the window opened.
    """

    opened_at: float | None = None
    last_trigger_at: float = 0.0
    seen: FrozenMap[str, float] = EMPTY
    count: int = 0

    def observe(
        self, now: float, waiting: Collection[str], times: BatchTimes, expected: Collection[str] = ()
    ) -> BatchWindow:
        """Return the window after these triggers were observed waiting at `now` (seconds of any monotonic clock).

        A trigger is the name of something to schedule, such as a pod's uid. It counts when it is new, and again when it
        still waits after `retrigger_seconds`, unless it is among the `expected`: those have a node on its way. Triggers
        that no longer wait are forgotten; if none wait, the window closes without a batch.
        """
        if not waiting:
            return BatchWindow()
        known, expected = self.seen, frozenset(expected)
        seen, fresh = dict[str, float](), 0
        for name in waiting:
            at = now if name in expected and name in known else known.get(name)
            if at is None or now - at >= times.retrigger_seconds:
                at, fresh = now, fresh + 1
            seen[name] = at
        if not fresh:
            return replace(self, seen=FrozenMap(seen))
        opened_at, count = (now, 0) if self.opened_at is None else (self.opened_at, self.count)
        return BatchWindow(opened_at, now, FrozenMap(seen), count + fresh)

    def closes_at(self, times: BatchTimes, workloads: int = 1) -> float | None:
        """Return when the window closes if no further trigger comes; None if no window is open.

        workloads: how many the triggers that counted since it opened belong to.
        """
        if self.opened_at is None:
            return None
        enough = self.count >= max(times.enough, times.enough_each * workloads)
        last = self.opened_at if enough else self.last_trigger_at
        return min(self.opened_at + times.max_seconds, last + times.idle_seconds)

    def closed(self) -> BatchWindow:
        """Return the state after the batch was taken; triggers stay known and do not reopen the window at once."""
        return replace(self, opened_at=None)

    def forget(self, names: Collection[str]) -> BatchWindow:
        """Let these triggers count as new when next observed: their launch failed, and another may succeed."""
        kept = FrozenMap({name: at for name, at in self.seen.items() if name not in names})
        return replace(self, seen=kept) if names else self

    def wait_seconds(self, now: float, times: BatchTimes) -> float:
        """Return the seconds until the window closes, or until a known trigger may count again; 0 or less means now."""
        if (closes := self.closes_at(times)) is not None:
            return closes - now
        if not self.seen:
            return times.retrigger_seconds
        return min(self.seen.values()) + times.retrigger_seconds - now
