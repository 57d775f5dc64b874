"""Refresh what the cloud provider caches of types and prices, in the background."""

from __future__ import annotations

from controller.core.state.snapshot import Snapshot
from controller.reconcilers.context import ContextReconciler

REFRESH_SECONDS = 30.0
"""How often the provider is asked to refresh; the provider decides what is due."""


class RefreshReconciler(ContextReconciler):
    """Call the provider's `refresh`. A read that fails keeps the earlier content, and the provider logs it."""

    name = "refresh"

    def reconcile(self, _snapshot: Snapshot) -> float:
        """Read what is due."""
        self._cloud.refresh()
        return REFRESH_SECONDS
