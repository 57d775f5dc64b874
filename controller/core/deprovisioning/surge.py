"""Surge first: the only pod of a Deployment starts on its new node before the old one goes.

An eviction takes the only pod down and starts it again afterwards. A rollout (what `kubectl rollout restart` does)
starts the new one first, if the Deployment's strategy surges; so it is asked for instead, with the old node cordoned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from controller.core.api.pod import Pod

RESTARTED_FOR: Final = "karpenter.sh/restarted-for"
"""On a Deployment's pod template: the id of the command that asked for its last rollout, so that it asks once."""
_DEFAULT_SHARE: Final = "25%"
"""Kubernetes' default of maxSurge and maxUnavailable."""


def may_surge(pod: Pod) -> bool:
    """Whether the pod serves, and a second one could run beside it: volumes are attached to one node at a time.

    One that is not Ready has nothing to lose, and its rollout would not come up either: it is evicted like any other.
    """
    return pod.ready and not pod.volumes and not pod.terminating


def surges(deployment: Mapping[str, Any]) -> bool:
    """Whether a rollout of it starts its only pod anew before it ends the old one.

    Source: Kubernetes, Deployments, "Rolling Update Deployment": maxSurge is rounded up, maxUnavailable down.
    """
    spec = deployment.get("spec") or {}
    strategy = spec.get("strategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if spec.get("replicas", 1) != 1 or spec.get("paused") or strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return False
    more = math.ceil(_of_one(rolling.get("maxSurge", _DEFAULT_SHARE)))
    return more >= 1 and math.floor(_of_one(rolling.get("maxUnavailable", _DEFAULT_SHARE))) == 0


def _of_one(value: object) -> float:
    """A count or a percentage of one replica; 0 for what is neither."""
    text = str(value)
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdecimal()):
        return 0.0
    return int(number) / 100 if text.endswith("%") else float(number)


def restarted_for(deployment: Mapping[str, Any]) -> str:
    """The command that asked for its last rollout; empty: none did."""
    template = (deployment.get("spec") or {}).get("template") or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(RESTARTED_FOR, ""))


def restart_patch(command_id: str) -> dict[str, Any]:
    """A merge patch that begins a rollout; the second time it changes nothing."""
    return {"spec": {"template": {"metadata": {"annotations": {RESTARTED_FOR: command_id}}}}}
