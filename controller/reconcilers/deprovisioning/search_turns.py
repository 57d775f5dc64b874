"""Decide when consolidation may search: after provisioning, and within a share of one core.

A removal decided while pods wait for their plan, or nodes for their pods, is outdated once they have arrived, and each
simulation would plan for the pending pods as well. Removals for safety (expiration, drift, repair) do not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.core.deprovisioning.records import recorded_commands
from controller.core.state.snapshot import Snapshot

SHARE_OF_TIME: Final = 0.1
"""The share of one core that searches may take on average."""
MOST_CREDIT_SECONDS: Final = 5.0
"""Search time that is saved up while nothing is searched."""
ON_THEIR_WAY_SECONDS: Final = 300.0
"""Searches do not wait for a node that is not initialized this long after its creation."""


def nodes_on_their_way(snapshot: Snapshot, now: float) -> bool:
    """Return whether a node of a Provisioner still starts, apart from replacements of commands on record."""
    starting = [
        node.name
        for node in snapshot.nodes.values()
        if node.provisioner_name
        and not node.initialized
        and node.takes_pods
        and now - node.node.created < ON_THEIR_WAY_SECONDS
    ]
    if not starting:
        return False
    commands = recorded_commands(snapshot)
    replacements = {node.name for command in commands for node in command.replacements.values()}
    return not replacements.issuperset(starting)


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
    at: float = 0.0
    """When `credit` was computed, monotonic seconds."""

    def after(self, now: float, spent: float = 0.0) -> SearchBudget:
        """Return the budget at `now`, when a search that took `spent` seconds has ended."""
        grown = min(MOST_CREDIT_SECONDS, self.credit + SHARE_OF_TIME * max(0.0, now - self.at))
        return SearchBudget(grown - spent, now)

    def wait_seconds(self, now: float) -> float:
        """Return the seconds until the next search may begin."""
        return max(0.0, -self.after(now).credit / SHARE_OF_TIME)
