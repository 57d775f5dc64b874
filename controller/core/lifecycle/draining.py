"""Draining: which pods of a leaving node to evict next.

Four tiers, each after the one before it is gone: ordinary pods, ordinary daemons, critical pods, critical daemons
(the later peer's order; v0.27 had two tiers). Pods that finished, static pods, pods that tolerate the cordon, and
pods that are past their deletion time by a minute (their kubelet is gone) neither are evicted nor hold the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.core.api.node import Taint
from controller.core.api.pod import Pod

STUCK_TERMINATING_SECONDS = 60.0
"""Past metadata.deletionTimestamp, which includes the grace period (the peer's value)."""

UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")
CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


@dataclass(frozen=True, slots=True)
class DrainStep:
    """`evict`: ask for these now. `waiting`: pods that still hold the node, those to evict included."""

    evict: tuple[Pod, ...]
    waiting: tuple[Pod, ...]

    @property
    def drained(self) -> bool:
        """Nothing holds the node any more."""
        return not self.waiting


def next_step(pods: Iterable[Pod], now: float) -> DrainStep:
    """The step at `now` (Unix seconds): the first tier that still has pods, without those terminating already."""
    waiting = tuple(sorted((pod for pod in pods if holds(pod, now)), key=lambda pod: pod.key))
    if not waiting:
        return DrainStep((), ())
    tier = min(_tier(pod) for pod in waiting)
    return DrainStep(tuple(pod for pod in waiting if _tier(pod) == tier and not pod.terminating), waiting)


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
