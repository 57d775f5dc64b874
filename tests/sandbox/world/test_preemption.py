"""Whom a pod of higher priority may push away, by value; and that it happens, through the API."""

from __future__ import annotations

from sandbox.world.resources import EVENTS, PDBS, PODS, Obj, Resource
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.preemption import Preemption, choose_preemption
from tests.sandbox.world.builders import apart, cluster, judge, node, pod, pod_term
from tests.sandbox.world.harness import Cluster

PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False)


def _choose(candidate: Obj, nodes: list[Obj], pods: list[Obj], budgets: tuple[Obj, ...] = ()) -> Preemption | None:
    view = cluster(nodes, pods)
    return choose_preemption(PodInfo(candidate), view, judge(candidate, view), budgets)


def _victims(preemption: Preemption | None) -> tuple[str, list[str]]:
    assert preemption is not None
    return preemption.node, [victim.name for victim in preemption.victims]


def _low(name: str, on: str, cpu: str, priority: int = 0, labels: dict[str, str] | None = None) -> Obj:
    return pod(name, on=on, requests={"cpu": cpu}, priority=priority, labels=labels)


def test_no_more_victims_than_needed_and_the_least_important_first() -> None:
    """Pods are given back from the most important down; only what is in the way goes."""
    pods = [_low("old", "one", "1", 5), _low("mid", "one", "1", 3), _low("new", "one", "1", 1)]
    chosen = _choose(pod(requests={"cpu": "2"}, priority=10), [node("one")], pods)
    assert _victims(chosen) == ("one", ["new"])


def test_equal_priority_is_never_a_victim() -> None:
    assert _choose(pod(requests={"cpu": "4"}, priority=5), [node("one")], [_low("peer", "one", "1", 5)]) is None


def test_nodes_that_eviction_cannot_help_are_left_alone() -> None:
    """A taint is not cured by evicting pods."""
    tainted = node("one", taints=[{"key": "k", "effect": "NoSchedule"}])
    assert _choose(pod(requests={"cpu": "4"}, priority=5), [tainted], [_low("low", "one", "1")]) is None


def test_the_node_with_the_lowest_victims_is_chosen() -> None:
    """The highest victim counts before the number of victims."""
    pods = [_low("dear", "one", "4", 9), _low("cheap-1", "two", "2", 1), _low("cheap-2", "two", "2", 1)]
    chosen = _choose(pod(requests={"cpu": "4"}, priority=10), [node("one"), node("two")], pods)
    assert _victims(chosen) == ("two", ["cheap-1", "cheap-2"])


def test_budgets_are_broken_only_where_nothing_else_helps() -> None:
    """The node whose victims no budget protects is preferred, even at a higher priority."""
    budget = {
        "metadata": {"namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "kept"}}},
        "status": {"disruptionsAllowed": 0},
    }
    pods = [_low("kept", "one", "4", 0, labels={"app": "kept"}), _low("free", "two", "4", 5)]
    nodes = [node("one"), node("two")]
    candidate = pod(requests={"cpu": "4"}, priority=10)
    assert _victims(_choose(candidate, nodes, pods, (budget,))) == ("two", ["free"])
    assert _victims(_choose(candidate, nodes[:1], pods[:1], (budget,))) == ("one", ["kept"])


def test_a_victim_can_be_in_the_way_by_affinity() -> None:
    """Anti-affinity on the host is cured by evicting the pod that it speaks of."""
    candidate = pod(priority=10, affinity=apart(pod_term("kubernetes.io/hostname", app="noisy")))
    pods = [_low("noisy", "one", "100m", labels={"app": "noisy"}), _low("calm", "one", "100m")]
    assert _victims(_choose(candidate, [node("one")], pods)) == ("one", ["noisy"])


def test_a_pod_of_high_priority_takes_the_place_of_a_low_one(kube: Cluster) -> None:
    """Nomination, DisruptionTarget on the victim, event Preempted, and the pod runs in its place."""
    kube.machine(instance_type="m5.large")
    kube.create(PRIORITY_CLASSES, f"high-{kube.namespace}", None, value=1000)
    kube.create(PDBS, "none", {"minAvailable": 0, "selector": {"matchLabels": {"app": "low"}}})
    low = kube.pod_spec(terminationGracePeriodSeconds=30)
    low["containers"][0]["resources"]["requests"]["cpu"] = "1500m"
    meta = {"name": "low", "labels": {"app": "low"}, "annotations": {"sandbox/stop-seconds": "25"}}
    kube.create(PODS, "low", low, metadata=meta)
    kube.eventually(lambda: ((kube.get(PODS, "low") or {})["status"]).get("phase") == "Running")
    high = kube.pod_spec(priorityClassName=f"high-{kube.namespace}")
    high["containers"][0]["resources"]["requests"]["cpu"] = "1"
    kube.create(PODS, "high", high)
    node_name = kube.eventually(lambda: ((kube.get(PODS, "high") or {})["status"]).get("nominatedNodeName"))
    victim = kube.eventually(
        lambda: v if (v := kube.get(PODS, "low") or {}).get("metadata", {}).get("deletionTimestamp") else None
    )
    assert "DisruptionTarget" in {condition["type"] for condition in victim["status"]["conditions"]}
    kube.eventually(lambda: ((kube.get(PODS, "high") or {})["status"]).get("phase") == "Running")
    assert (kube.get(PODS, "high") or {})["spec"]["nodeName"] == node_name
    assert kube.get(PODS, "low") is None
    kube.eventually(lambda: "Preempted" in {event["reason"] for event in kube.list(EVENTS)})
