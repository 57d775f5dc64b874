"""Draining: which pods of a leaving node to evict next, and which of its volumes to wait for.

Four tiers, each evicted after the one before it is gone: ordinary pods, ordinary daemons, critical pods, critical
daemons (as in later Karpenter versions; v0.27 has two tiers). Four sorts of pods neither are evicted nor hold the node:
finished pods, static pods, pods that tolerate the cordon, and pods a minute past their deletion time (their kubelet is
gone).

A node may have a deadline at which its instance ends in any case: an interruption's, one that a user wrote on the node,
its Provisioner's grace period after the deletion (later Karpenter's `terminationGracePeriod`), or one for a node that
is not Ready. Then grace periods are cut to the time left, and in the last minute all tiers are evicted at once. A pod
that its PodDisruptionBudget still holds when only its own grace period is left is deleted, so that it can shut down
gracefully.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.core.api.labels import EXCLUDE_BALANCERS, OPENS_WITH
from controller.core.api.node import UNSCHEDULABLE, Node
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.api.timestamps import parse_time
from controller.core.scheduling.taints import tolerates
from controller.core.state.snapshot import Snapshot

STUCK_TERMINATING_SECONDS = 60.0
"""A pod counts as stuck this long after metadata.deletionTimestamp, which includes the grace period (as in v0.27)."""

CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})

DEADLINE_ANNOTATION = "karpenter.sh/termination-deadline"
"""On a node: an RFC 3339 time. An interruption sets it; a user may, too."""
LAST_CALL_SECONDS = 60.0
"""Before the deadline: from then on tiers do not wait for each other."""
BROKEN_DRAIN_SECONDS = 900.0
"""How long a node that is not Ready may drain (EKS node auto repair: 15 min)."""
SMALL_PART = 0.25
"""Pods of at most this part of the largest one's size are evicted after it."""
SPARE_SECONDS = 5.0
"""Between the end of a pod's grace period and the deadline."""


@dataclass(frozen=True, slots=True)
class DrainStep:
    """`evict`: pods to evict now. `delete`: pods to delete now, regardless of their PodDisruptionBudgets.

    `waiting`: all pods that still hold the node, the other two included.
    """

    evict: tuple[Pod, ...] = ()
    waiting: tuple[Pod, ...] = ()
    delete: tuple[Pod, ...] = ()

    @property
    def drained(self) -> bool:
        """Nothing holds the node any more."""
        return not self.waiting


def deadline(
    node: Node,
    provisioner: Provisioner | None = None,
    setting_seconds: float | None = None,
    unready_seconds: float | None = None,
) -> float | None:
    """Return the node's soonest deadline, Unix seconds: it is then removed with all its pods; None without one.

    `unready_seconds`: how long a node may be not Ready before it counts as broken (None: never). A broken node's pods
    serve nobody, and Kubernetes itself evicts them without asking PodDisruptionBudgets.
    """
    text = node.annotations.get(DEADLINE_ANNOTATION)
    stated = None if text is None else parse_time(text)
    own = provisioner.disruption.drain_seconds if provisioner is not None else None
    period = setting_seconds if own is None else own
    counted = None if period is None or node.deleted_at is None else node.deleted_at + period
    broken = _broken_deadline(node, unready_seconds)
    return min((at for at in (stated, counted, broken) if at is not None and at < math.inf), default=None)


def _broken_deadline(node: Node, unready_seconds: float | None) -> float | None:
    since = node.not_ready_since
    if unready_seconds is None or since is None or node.deleted_at is None:
        return None
    return max(node.deleted_at + BROKEN_DRAIN_SECONDS, since + unready_seconds)


def grace_period_seconds(pod: Pod, until: float | None, now: float) -> int | None:
    """Return the grace period to ask for when the pod's own would outlast the deadline; None: its own."""
    if until is None or now + pod.spec.termination_grace_period_seconds <= until - SPARE_SECONDS:
        return None
    return max(1, min(pod.spec.termination_grace_period_seconds, int(until - SPARE_SECONDS - now)))


def next_step(pods: Iterable[Pod], now: float, until: float | None = None) -> DrainStep:
    """Return the step at `now` (Unix seconds): the first tier that still has pods, without those terminating already.

    The largest pods first: kube-scheduler places pods in the order in which their owners make them anew, and a large
    one finds no room any more where small ones have been spread over all nodes. `until` is the deadline, if there is
    one; after it nothing holds the node.
    """
    waiting = _largest_first([pod for pod in pods if holds(pod, now)])
    if not waiting or (until is not None and now >= until):
        return DrainStep()
    staying = [pod for pod in waiting if not pod.terminating]
    spare = math.inf if until is None else until - SPARE_SECONDS - now
    must = tuple(pod for pod in staying if pod.spec.termination_grace_period_seconds >= spare)
    hurry = until is not None and now >= until - LAST_CALL_SECONDS
    tier = max(map(_tier, waiting)) if hurry else min(map(_tier, waiting))
    return DrainStep(tuple(pod for pod in staying if _tier(pod) <= tier and pod not in must), waiting, must)


def first_wave(pods: Sequence[Pod]) -> frozenset[str]:
    """Return the uids of those that are to be evicted first of all pods that leaving nodes would evict now.

    kube-scheduler places what is made anew in the order in which it is made, and spreads it over all nodes: of what
    comes later, some finds no room. So large pods go before small ones (`SMALL_PART`), from whichever node, and of the
    large ones those that only some nodes may take before the others.
    """
    shares = _shares(pods)
    most = max(shares.values(), default=0.0)
    large = [pod for pod in pods if shares[id(pod.spec)] > SMALL_PART * most or most == 0]
    restricted = [pod for pod in large if _only_some_nodes(pod)]
    return frozenset(pod.uid for pod in restricted or large)


def cordon(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the patch that takes a node out of scheduling and of load balancers' targets, and annotates it.

    One that was about to be opened to pods (`opening`) stays closed.
    """
    metadata = {"labels": {EXCLUDE_BALANCERS: "karpenter"}, "annotations": {OPENS_WITH: None, **annotations}}
    return {"metadata": metadata, "spec": {"unschedulable": True}}


def holds(pod: Pod, now: float) -> bool:
    """Return whether the node must wait for the pod."""
    if pod.terminal or pod.static or any(tolerates(each, UNSCHEDULABLE) for each in pod.spec.tolerations):
        return False  # a pod that tolerates the cordon, as daemons do, would come right back
    return pod.deleted_at is None or now <= pod.deleted_at + STUCK_TERMINATING_SECONDS


def _largest_first(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    shares = _shares(pods)
    return tuple(sorted(pods, key=lambda pod: (-shares[id(pod.spec)], pod.key)))


def _shares(pods: Sequence[Pod]) -> dict[int, float]:
    """Return, by id of the spec, the largest share that a pod has of what all of these request of a resource."""
    specs = {id(pod.spec): pod.spec for pod in pods}  # equal pods share theirs
    totals = Counter[str]()
    for key, count in Counter(id(pod.spec) for pod in pods).items():
        totals.update({name: amount * count for name, amount in specs[key].requests.items()})
    return {
        key: max((n / totals[name] for name, n in spec.requests.items() if n > 0 and name != "pods"), default=0.0)
        for key, spec in specs.items()
    }


def _only_some_nodes(pod: Pod) -> bool:
    return bool(pod.spec.node_selector) or pod.spec.required_node_affinity is not None


def _tier(pod: Pod) -> int:
    critical = pod.spec.priority_class_name in CRITICAL_CLASSES
    return 2 * critical + pod.daemon


def attached(
    attachments: Iterable[Mapping[str, Any]], pods: Iterable[Pod], snapshot: Snapshot, now: float
) -> tuple[str, ...]:
    """Return names of volumes still attached to a drained node, sorted. attachments: its VolumeAttachments.

    While the instance runs, the CSI driver detaches them in seconds (later Karpenter versions wait too). Kubernetes
    detaches those of a node that is gone only after `maxWaitForUnmountDuration` (6 minutes), while their pods wait.
    Volumes of `pods` that stay until the node's end (daemons and static pods) do not count: they are never detached.
    """
    claims = {(pod.namespace, volume.claim_name) for pod in pods if not holds(pod, now) for volume in pod.volumes}
    kept = {name for name, volume in snapshot.volumes.items() if volume.claim in claims}
    return tuple(sorted(name for name in map(_volume, attachments) if name not in kept))


def _volume(attachment: Mapping[str, Any]) -> str:
    source = attachment["spec"].get("source") or {}
    return str(source.get("persistentVolumeName") or attachment["metadata"]["name"])
