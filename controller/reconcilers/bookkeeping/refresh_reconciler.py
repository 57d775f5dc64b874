"""Refresh: what the cloud provider knows of types and prices is read again in the background, on its own schedule."""

from __future__ import annotations

from collections.abc import Callable

from controller.core.state.snapshot import Snapshot

REFRESH_SECONDS = 30.0
"""How often the provider is asked to read what is due; it decides what that is."""


class RefreshReconciler:
    """One loop. The provider keeps its earlier content when a read fails, and says so."""

    name = "refresh"

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh

    def reconcile(self, _snapshot: Snapshot) -> float:
        """Read what is due."""
        self._refresh()
        return REFRESH_SECONDS
