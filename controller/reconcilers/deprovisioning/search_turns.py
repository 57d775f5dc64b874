"""Decide when consolidation may search: after provisioning, and within a share of one core.

A removal decided while pods wait for their plan, or nodes for their pods, is outdated once they have arrived, and each
simulation would plan for the pending pods as well. Removals for safety (expiration, drift, repair) do not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from controller.core.deprovisioning.records import recorded_commands
from controller.core.state.snapshot import Snapshot

SHARE_OF_TIME: Final = 0.1
"""The share of one core that searches may take on average."""
MOST_CREDIT_SECONDS: Final = 5.0
"""Search time that is saved up while nothing is searched."""
ON_THEIR_WAY_SECONDS: Final = 300.0
"""Searches do not wait for a node that is not initialized this long after its creation."""
TOLD_AFTER_SECONDS: Final = 60.0
"""A wait of this length is logged: most are shorter, and of no interest."""
MOST_NAMED: Final = 3
"""Nodes that a log line names."""


def nodes_on_their_way(snapshot: Snapshot, now: float) -> tuple[str, ...]:
    """Return the nodes of Provisioners that still start, but none if all are replacements of commands on record."""
    starting = [
        node.name
        for node in snapshot.nodes.values()
        if node.provisioner_name
        and not node.initialized
        and node.takes_pods
        and now - node.node.created < ON_THEIR_WAY_SECONDS
    ]
    if not starting:
        return ()
    commands = recorded_commands(snapshot)
    replacements = {node.name for command in commands for node in command.replacements.values()}
    return () if replacements.issuperset(starting) else tuple(sorted(starting))


def provisioning_waited_for(unplanned: bool, launches: int, starting: Sequence[str]) -> str:
    """Return what searches wait for, as a text; empty for nothing.

    unplanned: pods wait for their plan. launches: those that have not ended. starting: names of nodes on their way.
    """
    parts = ["the plan of pending pods"] if unplanned else []
    if launches:
        parts.append(f"{launches} launches")
    if starting:
        more = f" and {len(starting) - MOST_NAMED} more" if len(starting) > MOST_NAMED else ""
        parts.append(f"nodes that are not initialized: {', '.join(starting[:MOST_NAMED])}{more}")
    return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Hold:
    """Whether something is waited for, and since when; times in monotonic seconds."""

    most_seconds: float
    """The longest wait: in a cluster that always has pods to plan for, searches still get their turn."""
    since: float | None = None

    def observe(self, busy: bool, now: float) -> Hold:
        """Return the hold after an observation. busy: there is something to wait for."""
        if busy == (self.since is not None):
            return self
        return Hold(self.most_seconds, now if busy else None)

    def holds(self, now: float) -> bool:
        """Return whether to wait still."""
        return self.since is not None and now - self.since < self.most_seconds


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """Search time that may be spent, in seconds; it grows by SHARE_OF_TIME for each second that passes."""

    credit: float = MOST_CREDIT_SECONDS
    """Processor time, not the clock's: on a busy machine a search lasts longer than it computes."""
    at: float = 0.0
    """When `credit` was computed, monotonic seconds."""

    def after(self, now: float, spent: float = 0.0) -> SearchBudget:
        """Return the budget at `now`, when a search has ended that took `spent` seconds of processor time."""
        grown = min(MOST_CREDIT_SECONDS, self.credit + SHARE_OF_TIME * max(0.0, now - self.at))
        return SearchBudget(grown - spent, now)

    def wait_seconds(self, now: float) -> float:
        """Return the seconds until the next search may begin."""
        return max(0.0, -self.after(now).credit / SHARE_OF_TIME)


class SearchTurns:
    """Keeps the hold and the budget of one loop, and logs the waits that last."""

    def __init__(self, logger: str, most_seconds: float, now: float) -> None:
        """`most_seconds`: the longest wait for provisioning in a row. `now`, here and below: monotonic seconds."""
        self._hold, self._budget = Hold(most_seconds), SearchBudget(at=now)
        self._log = structlog.get_logger(logger)
        self._since: float | None = None
        """Since when searches wait, for whatever reason."""
        self._told = False

    def observe(self, waits_for: str, now: float) -> None:
        """Observe what is waited for in provisioning; empty: nothing."""
        self._hold = self._hold.observe(bool(waits_for), now)
        self._tell(waits_for if self.held(now) else self._debt(now), now)

    def held(self, now: float) -> bool:
        """Return whether searches wait for provisioning."""
        return self._hold.holds(now)

    def gives_way(self, now: float) -> bool:
        """Return whether a search that has begun ends when pods wait for their plan: not if it has waited long."""
        return self._hold.since is None or self._hold.holds(now)

    def wait_seconds(self, now: float) -> float:
        """Return the seconds until the budget allows the next search."""
        return self._budget.wait_seconds(now)

    def spend(self, seconds: float, now: float) -> None:
        """Take the processor time of a search that has ended from the budget."""
        self._budget = self._budget.after(now, seconds)

    def _debt(self, now: float) -> str:
        wait = self.wait_seconds(now)
        return f"searches have used up their {SHARE_OF_TIME:.0%} of a core for {wait:.0f} s more" if wait else ""

    def _tell(self, because: str, now: float) -> None:
        if because and self._since is None:
            self._since = now
        waited = now - self._since if self._since is not None else 0.0
        if because and not self._told and waited >= TOLD_AFTER_SECONDS:
            self._told = True
            self._log.info("Consolidation waits", waits_for=because, for_seconds=round(waited))
        if not because:
            if self._told:
                self._log.info("Consolidation searches again", after_seconds=round(waited))
            self._since, self._told = None, False
