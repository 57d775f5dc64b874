"""Surge first: which Deployments start their only pod anew before they end the old one."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.pod import PodVolume
from controller.core.deprovisioning.surge import may_surge, restart_patch, restarted_for, surges
from tests import factories


def deployment(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, True),
        ({"replicas": 1}, True),
        ({"replicas": 2}, False),
        ({"replicas": 0}, False),
        ({"replicas": 1, "paused": True}, False),
        ({"replicas": 1, "strategy": {"type": "Recreate"}}, False),
        ({"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}, True),
        ({"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": "99%"}}}, True),
        ({"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, False),
        ({"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "100%"}}}, False),
        ({"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": "many"}}}, False),
    ],
)
def test_a_rollout_starts_the_new_pod_first(spec: dict[str, Any], expected: bool) -> None:
    """Kubernetes: maxSurge is rounded up, maxUnavailable down, and both are 25 % by default."""
    assert surges(deployment(**spec)) == expected


def test_a_pod_with_a_volume_is_evicted_like_any_other() -> None:
    """Its volume is attached to one node: the new pod would wait for the old one to go."""
    assert may_surge(factories.running_pod(node="a"))
    assert not may_surge(factories.running_pod(node="a", pod_fields={"ready": False})), "nothing to lose"
    assert not may_surge(factories.running_pod(node="a", pod_fields={"volumes": (PodVolume("data", "claim"),)}))


def test_a_rollout_is_asked_for_once_a_command() -> None:
    assert restarted_for(deployment()) == ""
    assert restarted_for(restart_patch("abc")) == "abc"
