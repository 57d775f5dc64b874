"""Taints and tolerations, by kube-scheduler's TaintToleration filter."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.api.node import Taint
from controller.core.api.pod import Toleration

BLOCKING = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep a pod away; PreferNoSchedule only discourages."""

ON_DEMAND_TAINT = Taint("karpenter.sh/on-demand", effect="PreferNoSchedule")
"""Taint of nodes that are on demand because pods require it. It is for kube-scheduler alone: plans ignore it."""

CLOSED_TAINT_KEY = "karpenter.sh/closed"
"""Key of the taint of nodes in service that are closed while pods move to them (`core.machines.opening`). It is for
kube-scheduler alone, too."""

TOLERATE_PREFERENCES = Toleration(operator="Exists", effect="PreferNoSchedule")
"""The toleration that the last relaxation step adds, as in Karpenter v0.27."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether this toleration covers the taint (k8s.io/api core/v1 ToleratesTaint)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value


def untolerated(
    taints: Iterable[Taint], tolerations: tuple[Toleration, ...], *, preferences: bool = False
) -> Taint | None:
    """Return the first taint that no toleration covers, or None. `preferences`: PreferNoSchedule counts too."""
    for taint in taints:
        if taint.effect not in BLOCKING and not (preferences and taint.effect == "PreferNoSchedule"):
            continue
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None
