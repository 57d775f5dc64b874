"""The batch window: pods that appear together are scheduled together.

The rule is that of Karpenter v0.27 (`batchIdleDuration`, `batchMaxDuration`): the first trigger opens the window,
each further one restarts the idle timer, and the window closes when either timer ends. Here it is a value: times come
in as arguments, so the same triggers give the same window.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """`retrigger_seconds`: a pod that still waits counts as a new trigger after this long."""

    idle_seconds: float = 1.0
    max_seconds: float = 10.0
    retrigger_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """The state between two looks. `seen` are the triggers that are known already, with the time each last counted."""

    opened_at: float | None = None
    last_trigger_at: float = 0.0
    seen: tuple[tuple[str, float], ...] = ()

    def observe(self, now: float, waiting: Collection[str], times: BatchTimes) -> BatchWindow:
        """The window after a look at `now` (seconds, any monotonic origin) that found these triggers waiting.

        A trigger is a name of something that wants scheduling (a pod's uid, say). It counts when it is new, and again
        when it still waits after `retrigger_seconds`; what no longer waits is forgotten. A window of which nothing
        waits any more closes without a batch.
        """
        if not waiting:
            return BatchWindow()
        known = dict(self.seen)
        fresh = {name for name in waiting if name not in known or now - known[name] >= times.retrigger_seconds}
        seen = tuple(sorted((name, now if name in fresh else known[name]) for name in waiting))
        if not fresh:
            return replace(self, seen=seen)
        return BatchWindow(self.opened_at if self.opened_at is not None else now, now, seen)

    def closes_at(self, times: BatchTimes) -> float | None:
        """When the window closes if nothing further comes; None while no window is open."""
        if self.opened_at is None:
            return None
        return min(self.opened_at + times.max_seconds, self.last_trigger_at + times.idle_seconds)

    def closed(self) -> BatchWindow:
        """The state after the batch was taken; triggers stay known and do not open the next window at once."""
        return replace(self, opened_at=None)

    def forget(self, names: Collection[str]) -> BatchWindow:
        """These triggers count as new at the next look: their launch failed, and another may do."""
        return replace(self, seen=tuple(entry for entry in self.seen if entry[0] not in names)) if names else self

    def wait_seconds(self, now: float, times: BatchTimes) -> float:
        """How long until the window closes, or until a trigger that is known may count again; 0 or less means now."""
        closes = self.closes_at(times)
        if closes is not None:
            return closes - now
        if not self.seen:
            return times.retrigger_seconds
        return min(at for _, at in self.seen) + times.retrigger_seconds - now
