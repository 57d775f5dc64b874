"""Draining: which pods of a leaving node to evict next.

Four tiers, each after the one before it is gone: ordinary pods, ordinary daemons, critical pods, critical daemons
(the later peer's order; v0.27 had two tiers). Pods that finished, static pods, pods that tolerate the cordon, and
pods that are past their deletion time by a minute (their kubelet is gone) neither are evicted nor hold the node.

A node may have a deadline, when its instance will be gone whatever happens: then grace periods are cut to what is left,
and in the last minute all tiers are asked at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.core.api.node import Node, Taint
from controller.core.api.pod import Pod
from controller.core.lifecycle.timestamps import parse_time

STUCK_TERMINATING_SECONDS = 60.0
"""Past metadata.deletionTimestamp, which includes the grace period (the peer's value)."""

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


DEADLINE_ANNOTATION = "karpenter.sh/termination-deadline"
"""On a node: an RFC 3339 time. An interruption sets it; a user may, too."""
LAST_CALL_SECONDS = 60.0
"""So long before the deadline tiers do not wait for each other any more."""
SPARE_SECONDS = 5.0
"""A pod's grace period ends so long before the deadline."""


@dataclass(frozen=True, slots=True)
class DrainStep:
    """`evict`: ask for these now. `waiting`: pods that still hold the node, those to evict included."""

    evict: tuple[Pod, ...]
    waiting: tuple[Pod, ...]

    @property
    def drained(self) -> bool:
        """Nothing holds the node any more."""
        return not self.waiting


def deadline(node: Node) -> float | None:
    """Unix seconds; None without one, or when it cannot be read."""
    text = node.annotations.get(DEADLINE_ANNOTATION)
    return None if text is None else parse_time(text)


def grace_period_seconds(pod: Pod, until: float | None, now: float) -> int | None:
    """The grace period to ask for when the pod's own would outlast the deadline; None: its own."""
    if until is None or now + pod.spec.termination_grace_period_seconds <= until - SPARE_SECONDS:
        return None
    return max(1, min(pod.spec.termination_grace_period_seconds, int(until - SPARE_SECONDS - now)))


def next_step(pods: Iterable[Pod], now: float, until: float | None = None) -> DrainStep:
    """The step at `now` (Unix seconds): the first tier that still has pods, without those terminating already.

    `until` is the deadline, if there is one.
    """
    waiting = tuple(sorted((pod for pod in pods if holds(pod, now)), key=lambda pod: pod.key))
    if not waiting:
        return DrainStep((), ())
    hurry = until is not None and now >= until - LAST_CALL_SECONDS
    tier = max(map(_tier, waiting)) if hurry else min(map(_tier, waiting))
    return DrainStep(tuple(pod for pod in waiting if _tier(pod) <= tier and not pod.terminating), waiting)


def holds(pod: Pod, now: float) -> bool:
    """Whether the node must wait for the pod."""
    if pod.terminal or pod.static or tolerates_cordon(pod):
        return False
    return pod.deleted_at is None or now <= pod.deleted_at + STUCK_TERMINATING_SECONDS


def tolerates_cordon(pod: Pod) -> bool:
    """The pod tolerates `node.kubernetes.io/unschedulable:NoSchedule`, as daemons do: it would come right back."""
    for toleration in pod.spec.tolerations:
        if toleration.effect not in ("", UNSCHEDULABLE.effect):
            continue
        exists = toleration.operator == "Exists"
        if exists and toleration.key in ("", UNSCHEDULABLE.key):
            return True
        if not exists and toleration.key == UNSCHEDULABLE.key and toleration.value == UNSCHEDULABLE.value:
            return True
    return False


def _tier(pod: Pod) -> int:
    critical = pod.spec.priority_class_name in CRITICAL_CLASSES
    return 2 * critical + pod.daemon
