"""Log plans: the pods of each, and to which node each pod goes or why it stays pending.

A pod's name leads to a node's name, and that to the instance (`Launched instance`), through `Registered node` and
`Initialized node` to `Pods run`. A pod that several plans contain is named again only when its outcome changes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog
from cachetools import LRUCache

from controller.core.api.pod import Pod, PodKey
from controller.core.provisioning.plan import SchedulingPlan, UnplacedPod
from controller.runtime.executors import Lock
from controller.telemetry.structured_logging import pod_names

MOST_REMEMBERED = 50_000
_NUMBER: Final = re.compile(r"\d+")


def by_reason(pods: Iterable[UnplacedPod]) -> Mapping[str, list[PodKey]]:
    """Return the pods that a plan leaves pending, by reason."""
    pods_by_reason: dict[str, list[PodKey]] = defaultdict(list)
    for each in pods:
        pods_by_reason[each.reason].append(each.pod)
    return pods_by_reason


class PlanLog:
    """The log of one loop. Only the loop's thread calls `computed`; launches in other threads may call the rest."""

    def __init__(self, name: str) -> None:
        self._log = structlog.get_logger(name)
        self._counts: tuple[int, ...] = ()
        self._lock = Lock()
        self._logged: LRUCache[PodKey, str] = LRUCache(MOST_REMEMBERED)
        """The last outcome logged for a pod: its node, or why it stays pending."""

    def computed(self, pods: Sequence[Pod], plan: SchedulingPlan, now: float, ahead: int = 0) -> None:
        """Log the plan, at level info if it differs from the last one in its counts. `now` in Unix seconds.

        `ahead`: how many of the pods kube-scheduler had not tried yet.
        """
        counts = (len(pods), len(plan.new_nodes), len(plan.existing), len(plan.unplaced))
        changed = bool(plan.new_nodes) or counts != self._counts
        self._counts = counts
        oldest = min((pod.created for pod in pods), default=now)
        (self._log.info if changed else self._log.debug)(
            "Computed plan",
            pods=pod_names([pod.key for pod in pods]),
            pod_count=len(pods),
            planned_ahead=ahead,
            oldest_waits_seconds=round(max(0.0, now - oldest), 1),
            new_nodes=len(plan.new_nodes),
            existing_nodes=len(plan.existing),
            unplaced=len(plan.unplaced),
            price_per_hour=round(plan.price_per_hour, 4),
            proof=str(plan.proof or "none"),
        )

    def on_its_way(self, node: str, pods: Sequence[PodKey]) -> None:
        """Log that a node was launched for the pods."""
        self._changed(pods, node)
        self._log.info("Pods have a node on its way", node=node, pods=pod_names(pods), pod_count=len(pods))

    def have_room(self, node: str, pods: Iterable[PodKey]) -> None:
        """Log which pods fit on an existing node, unless that was logged last."""
        if changed := self._changed(pods, node):
            self._log.info("Pods have room on a node", node=node, pods=pod_names(changed), pod_count=len(changed))

    def taken_back(self, pods: Sequence[PodKey]) -> None:
        """Log planned pods that get no node: they stopped waiting while the plan was computed."""
        self._log.info("Launch taken back", pods=pod_names(pods), pod_count=len(pods))

    def stay_pending(self, pods: Iterable[PodKey], because: str) -> None:
        """Log why pods get no node now. Reasons that differ in numbers alone count as the same."""
        if changed := self._changed(pods, _NUMBER.sub("#", because)):
            self._log.info("Pods stay pending", pods=pod_names(changed), pod_count=len(changed), because=because)

    def _changed(self, pods: Iterable[PodKey], text: str) -> list[PodKey]:
        with self._lock:
            changed = [key for key in pods if self._logged.get(key) != text]
            self._logged.update(dict.fromkeys(changed, text))
        return changed
