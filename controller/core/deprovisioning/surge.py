"""Surge: the only pod of a Deployment starts on another node before its node is removed.

An eviction would end the only pod before its successor starts. A rollout (as by `kubectl rollout restart`) starts the
successor first if the Deployment's strategy surges; so the executor begins one instead, with the old node cordoned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from controller.core.api.pod import Pod

RESTARTED_FOR: Final = "karpenter.sh/restarted-for"
"""On a Deployment's pod template: the id of the command that began the last rollout, so that it begins only one."""
_DEFAULT_SHARE: Final = "25%"
"""Kubernetes' default of maxSurge and maxUnavailable."""


def may_surge(pod: Pod) -> bool:
    """Return whether the pod serves and has no volume, which would be attached to one node at a time.

    A pod that is not Ready is evicted: it serves nothing, and its rollout would not succeed either.
    """
    return pod.ready and not pod.volumes and not pod.terminating


def surges(deployment: Mapping[str, Any]) -> bool:
    """Return whether it has one replica, and a rollout starts the new pod before it ends the old one.

    maxSurge is rounded up, maxUnavailable down (Kubernetes documentation, Deployments, "Rolling Update Deployment").
    """
    spec = deployment.get("spec") or {}
    strategy = spec.get("strategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if spec.get("replicas", 1) != 1 or spec.get("paused") or strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return False
    more = math.ceil(_of_one(rolling.get("maxSurge", _DEFAULT_SHARE)))
    return more >= 1 and math.floor(_of_one(rolling.get("maxUnavailable", _DEFAULT_SHARE))) == 0


def _of_one(value: object) -> float:
    """Replicas, of a count or of a percentage of one replica; 0 for what is neither."""
    text = str(value)
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdecimal()):
        return 0.0
    return int(number) / 100 if text.endswith("%") else float(number)


def restarted_for(deployment: Mapping[str, Any]) -> str:
    """Return the id of the command that began its last rollout; empty: none did."""
    template = (deployment.get("spec") or {}).get("template") or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(RESTARTED_FOR, ""))


def restart_patch(command_id: str) -> dict[str, Any]:
    """Return a merge patch that begins a rollout; applied again it changes nothing."""
    return {"spec": {"template": {"metadata": {"annotations": {RESTARTED_FOR: command_id}}}}}
