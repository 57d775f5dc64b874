"""Emit one event per workload about soft preferences: dropped for cost, or hindering consolidation."""

from __future__ import annotations

import structlog
from cachetools import LRUCache

from controller.core.api.pod import Pod
from controller.core.provisioning.plan import SchedulingPlan, SchedulingProblem
from controller.core.provisioning.solver.preferences import hindering
from controller.core.state.snapshot import Snapshot
from controller.kube.events import EventRecorder, ObjectRef

REMEMBERED = 10_000
"""Workloads and preferences whose event is not repeated."""


class PreferenceEvents:
    """Publish each event once. Not thread-safe."""

    def __init__(self, events: EventRecorder, logger: str) -> None:
        self._events = events
        self._published: LRUCache[str, bool] = LRUCache(REMEMBERED)
        self._log = structlog.get_logger(logger)

    def hindering(self, problem: SchedulingProblem) -> None:
        """Warn of preferred anti-affinity, which can keep nodes from consolidation."""
        for pod in hindering(problem.pending, problem.provisioners):
            if self._first(pod, "PreferredAntiAffinity"):
                message = "Preferred pod anti-affinity can prevent consolidation of the node that it is placed on"
                self._log.warning(message, pod=pod.full_name)
                self._events.publish(ObjectRef.of(pod), "Warning", "PreferredAntiAffinity", message)

    def too_dear(self, snapshot: Snapshot, plan: SchedulingPlan, premium: float | None) -> None:
        """Report preferences dropped for their price; `premium`: what they may cost (preferencePremium)."""
        for dear in plan.too_dear:
            for key in dear.pods:
                pod = snapshot.pods.get(key)
                if pod is not None and self._first(pod, dear.preference):
                    message = dear.said(premium)
                    self._events.publish(ObjectRef.of(pod), "Normal", "PreferenceTooDear", message)

    def _first(self, pod: Pod, what: str) -> bool:
        key = f"{pod.owners[0].uid if pod.owners else pod.uid} {what}"
        known = key in self._published
        self._published[key] = True
        return not known
