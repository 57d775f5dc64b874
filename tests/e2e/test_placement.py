"""What is said of a pod that kube-scheduler bound elsewhere than planned: each verdict, and what refuses a run."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.placement import PREFIX, REFUSED, Verdict, placements


def node(name: str, ready: str = "2026-01-01T00:00:10Z", cpu: str = "2") -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": ready}
    status = {"conditions": [condition], "allocatable": {"cpu": cpu, "pods": "29"}}
    return {"metadata": {"name": name}, "status": status}


def pod(name: str, on: str, bound: str = "2026-01-01T00:00:20Z", cpu: str = "1", owner: str = "") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}
    owners = [{"uid": owner, "controller": True}] if owner else []
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "uid": name, "ownerReferences": owners},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"conditions": [condition]},
    }


def nominated(pod_name: str, node_name: str) -> dict[str, Any]:
    return {"reason": "Nominated", "message": PREFIX + node_name, "involvedObject": {"uid": pod_name}}


PLANNED = [nominated("p", "a"), nominated("q", "b")]


@pytest.mark.parametrize(
    ("pods", "nodes", "verdict"),
    [
        ([pod("p", "a")], [node("a"), node("b")], Verdict.AS_PLANNED),
        ([pod("p", "")], [node("a"), node("b")], Verdict.UNBOUND),
        ([pod("p", "b", owner="o"), pod("q", "a", owner="o")], [node("a"), node("b")], Verdict.SWAPPED),
        ([pod("p", "b", owner="o"), pod("q", "b", owner="o")], [node("a"), node("b")], Verdict.RANKED),
        ([pod("p", "b")], [node("b")], Verdict.GONE),
        ([pod("p", "b", bound="2026-01-01T00:00:05Z")], [node("a"), node("b")], Verdict.NOT_READY),
        ([pod("p", "b"), pod("stranger", "a", cpu="1500m")], [node("a"), node("b")], Verdict.DISPLACED),
        ([pod("p", "b", cpu="3")], [node("a"), node("b")], Verdict.UNEXPLAINED),
    ],
)
def test_verdict(pods: list[dict[str, Any]], nodes: list[dict[str, Any]], verdict: Verdict) -> None:
    """An overfull plan is what nothing explains: the node lacks room, and holds nothing but what was meant for it."""
    by_pod = {placement.pod: placement for placement in placements(PLANNED, pods, nodes)}
    assert by_pod["p"].verdict is verdict
    assert (verdict in REFUSED) == (verdict in (Verdict.UNBOUND, Verdict.UNEXPLAINED))
    assert verdict.value in str(by_pod["p"])


def test_pods_that_no_plan_named_or_that_leave_are_not_judged() -> None:
    leaving = pod("q", "")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    assert placements(PLANNED, [leaving, pod("r", "")], []) == []
