"""What the log says of a plan: which pods it was made for, and where each of them goes or why it stays.

A pod can be followed by its name to a node's name, by that to the instance (`Launched instance`), through `Registered
node` and `Initialized node` to `Pods run`. Pods that are planned for again and again are named again only with news.
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
    """The pods that a plan leaves pending, by why."""
    found: dict[str, list[PodKey]] = defaultdict(list)
    for each in pods:
        found[each.reason].append(each.pod)
    return found


class PlanLog:
    """Of one loop. `computed` is its thread's; the others may be called by launches side by side."""

    def __init__(self, name: str) -> None:
        self._log = structlog.get_logger(name)
        self._counts: tuple[int, ...] = ()
        self._lock = Lock()
        self._said: LRUCache[PodKey, str] = LRUCache(MOST_REMEMBERED)
        """What was said last of a pod that stays, or goes to a node that there is."""

    def computed(self, pods: Sequence[Pod], plan: SchedulingPlan, now: float) -> None:
        """The plan; aloud when something new follows from it. `now` in Unix seconds."""
        counts = (len(pods), len(plan.new_nodes), len(plan.existing), len(plan.unplaced))
        news = bool(plan.new_nodes) or counts != self._counts
        self._counts = counts
        oldest = min((pod.created for pod in pods), default=now)
        (self._log.info if news else self._log.debug)(
            "Computed plan",
            pods=pod_names([pod.key for pod in pods]),
            pod_count=len(pods),
            oldest_waits_seconds=round(max(0.0, now - oldest), 1),
            new_nodes=len(plan.new_nodes),
            existing_nodes=len(plan.existing),
            unplaced=len(plan.unplaced),
            price_per_hour=round(plan.price_per_hour, 4),
        )

    def on_its_way(self, node: str, pods: Sequence[PodKey]) -> None:
        """A node was launched for them; that they still have room on it is no news."""
        self._news(pods, node)
        self._log.info("Pods have a node on its way", node=node, pods=pod_names(pods), pod_count=len(pods))

    def have_room(self, node: str, pods: Iterable[PodKey]) -> None:
        """They fit on a node that there is."""
        if news := self._news(pods, node):
            self._log.info("Pods have room on a node", node=node, pods=pod_names(news), pod_count=len(news))

    def stay_pending(self, pods: Iterable[PodKey], because: str) -> None:
        """They get no node now. A reason in which only numbers differ is the same one."""
        if news := self._news(pods, _NUMBER.sub("#", because)):
            self._log.info("Pods stay pending", pods=pod_names(news), pod_count=len(news), because=because)

    def _news(self, pods: Iterable[PodKey], text: str) -> list[PodKey]:
        with self._lock:
            found = [key for key in pods if self._said.get(key) != text]
            self._said.update(dict.fromkeys(found, text))
        return found
