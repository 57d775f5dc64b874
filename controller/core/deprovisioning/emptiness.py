"""Emptiness: the annotation that says since when a node has had nothing to do, and when its time is over.

Rules are the peer's (v0.27 `ttlSecondsAfterEmpty`), with two mended: a timestamp left behind when the TTL was taken
off the Provisioner is cleared, and one that nobody can read is written anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.core.api.labels import EMPTINESS_TIMESTAMP
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.api.timestamps import parse_time
from controller.core.state.snapshot import StateNode

NOMINATED_RETRY_SECONDS = 30.0
"""A nominated node is looked at again after this long (the peer's value)."""


class EmptinessAction(Enum):
    """What to do with a node."""

    KEEP = "keep"
    SET = "set"
    CLEAR = "clear"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class EmptinessVerdict:
    """`requeue_seconds`: when to look again though nothing changed; 0: only when something changes."""

    action: EmptinessAction
    reason: str
    requeue_seconds: float = 0.0


def occupies(pod: Pod) -> bool:
    """Whether the pod keeps its node from being empty: not those of DaemonSets, static or finished ones."""
    return not (pod.terminal or pod.daemon or pod.static)


def verdict(node: StateNode, provisioner: Provisioner | None, now: float) -> EmptinessVerdict:
    """What emptiness asks of a node of ours at `now` (Unix seconds); `provisioner` None: it is gone or invalid.

    A terminating pod still occupies its node, so that a TTL of 0 does not cut its grace period short.
    """
    stamp = node.node.annotations.get(EMPTINESS_TIMESTAMP)
    if node.leaving:
        return EmptinessVerdict(EmptinessAction.KEEP, "the node is leaving")
    if provisioner is None:
        return EmptinessVerdict(EmptinessAction.KEEP, "its Provisioner is not usable")
    ttl = provisioner.ttl_seconds_after_empty
    if ttl is None:
        return _unless_absent(stamp, "ttlSecondsAfterEmpty is not set")
    if not node.initialized:
        return _unless_absent(stamp, "the node is not initialized")
    if node.nominated_until > now:
        return EmptinessVerdict(
            EmptinessAction.KEEP,
            "pods are expected on the node",
            min(NOMINATED_RETRY_SECONDS, node.nominated_until - now),
        )
    if any(occupies(pod) for pod in node.pods):
        return _unless_absent(stamp, "pods run on the node")
    since = parse_time(stamp) if stamp is not None else None
    if since is None:
        return EmptinessVerdict(EmptinessAction.SET, "the node became empty", float(ttl))
    if now < since + ttl:
        return EmptinessVerdict(EmptinessAction.KEEP, "its time is not over", since + ttl - now)
    return EmptinessVerdict(EmptinessAction.DELETE, f"empty for {ttl} s or longer")


def _unless_absent(stamp: str | None, reason: str) -> EmptinessVerdict:
    return EmptinessVerdict(EmptinessAction.KEEP if stamp is None else EmptinessAction.CLEAR, reason)
