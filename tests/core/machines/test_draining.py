"""Draining: who is evicted next, and whom the node waits for (Karpenter's four tiers)."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.node import UnhealthyCondition
from controller.core.api.pod import OwnerReference, Pod, Toleration
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.machines.draining import (
    DEADLINE_ANNOTATION,
    deadline,
    first_wave,
    grace_period_seconds,
    next_step,
)
from tests import factories

NOW = 1_700_000_000.0


def running(name: str, *, critical: bool = False, daemon: bool = False, **pod_fields: object) -> Pod:
    return factories.running_pod(
        node="node",
        name=name,
        owner=factories.daemon_owner() if daemon else None,
        priority_class_name="system-cluster-critical" if critical else "",
        pod_fields=pod_fields,
    )


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [pod.name for pod in pods]


def test_a_node_without_pods_is_drained() -> None:
    assert next_step([], NOW).drained


def test_tiers_go_one_after_the_other() -> None:
    """Ordinary pods, then ordinary daemons, then critical pods, then critical daemons."""
    left = [
        running("d-critical-daemon", critical=True, daemon=True),
        running("c-critical", critical=True),
        running("b-daemon", daemon=True),
        running("a-ordinary"),
    ]
    order = []
    while left:
        step = next_step(left, NOW)
        order.append(names(step.evict))
        left = [pod for pod in left if pod not in step.evict]
    assert order == [["a-ordinary"], ["b-daemon"], ["c-critical"], ["d-critical-daemon"]]


def test_the_largest_pods_are_evicted_first() -> None:
    """By the larger of their shares of what all request: kube-scheduler places what is made anew in that order."""
    sizes = {"a": ("100m", "128Mi"), "b": ("3", "1Gi"), "c": ("500m", "20Gi"), "d": ("500m", "512Mi")}
    pods = [
        factories.running_pod(node="node", name=name, requests={"cpu": cpu, "memory": memory})
        for name, (cpu, memory) in sizes.items()
    ]
    assert names(next_step(pods, NOW).evict) == ["c", "b", "d", "a"]


def sized(name: str, cpu: str, **fields: Any) -> Pod:
    return factories.running_pod(node="node", name=name, requests={"cpu": cpu}, **fields)


def first(*pods: Pod) -> set[str]:
    uids = first_wave(pods)
    return {pod.name for pod in pods if pod.uid in uids}


def test_large_pods_of_all_leaving_nodes_are_evicted_before_small_ones() -> None:
    """What is at most a fourth of the largest waits: it would take the room that the large ones need."""
    pods = [sized("largest", "4"), sized("large", "1100m"), sized("small", "900m"), sized("tiny", "50m")]
    assert first(*pods) == {"largest", "large"}
    assert first(*pods[2:]) == {"small"}
    assert first(*pods[3:]) == {"tiny"}
    assert first() == set()


def test_pods_that_only_some_nodes_may_take_are_evicted_before_others_of_their_size() -> None:
    spot = sized("spot", "1", node_selector={"karpenter.sh/capacity-type": "spot"})
    pods = [sized("any", "3"), spot, sized("small", "100m", node_selector={"kubernetes.io/arch": "arm64"})]
    assert first(*pods) == {"spot"}
    assert first(pods[0], pods[2]) == {"any"}


def test_pods_that_request_nothing_are_evicted_together() -> None:
    assert first(*(factories.running_pod(node="node", name=name, requests={}) for name in "ab")) == {"a", "b"}


def test_the_next_tier_waits_for_terminating_pods_of_this_one() -> None:
    step = next_step([running("a", deleted_at=NOW + 30), running("b", critical=True)], NOW)
    assert names(step.evict) == []
    assert names(step.waiting) == ["a", "b"]


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("node.kubernetes.io/unschedulable", "Exists", effect="NoSchedule"),
        Toleration("node.kubernetes.io/unschedulable", "Exists"),
        Toleration("node.kubernetes.io/unschedulable", "Equal", ""),
        Toleration("", "Exists"),
    ],
)
def test_pods_that_tolerate_the_cordon_neither_are_evicted_nor_hold_the_node(toleration: Toleration) -> None:
    assert next_step([factories.running_pod(node="node", tolerations=(toleration,))], NOW).drained


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration("node.kubernetes.io/unschedulable", "Exists", effect="NoExecute"),
        Toleration("node.kubernetes.io/unschedulable", "Equal", "yes"),
        Toleration("other", "Exists"),
    ],
)
def test_other_tolerations_do_not_save_a_pod(toleration: Toleration) -> None:
    assert not next_step([factories.running_pod(node="node", tolerations=(toleration,))], NOW).drained


def test_static_and_finished_pods_do_not_hold_the_node() -> None:
    static = factories.running_pod(node="node", owner=OwnerReference("v1", "Node", "node", "uid-node"))
    assert next_step([static, running("s", phase="Succeeded"), running("f", phase="Failed")], NOW).drained


def test_a_pod_a_minute_past_its_deletion_time_is_given_up() -> None:
    assert not next_step([running("a", deleted_at=NOW - 60)], NOW).drained
    assert next_step([running("a", deleted_at=NOW - 61)], NOW).drained


def test_a_terminating_pod_is_waited_for_and_not_evicted_again() -> None:
    step = next_step([running("a", deleted_at=NOW + 5)], NOW)
    assert (step.evict, names(step.waiting)) == ((), ["a"])


def test_a_deadline_cuts_grace_periods_to_what_is_left() -> None:
    """The instance of an interrupted node is gone two minutes after the warning, whatever pods ask for."""
    patient = factories.running_pod(node="node", termination_grace_period_seconds=600)
    quick = factories.running_pod(node="node", termination_grace_period_seconds=30)
    assert grace_period_seconds(patient, NOW + 120, NOW) == 115
    assert grace_period_seconds(quick, NOW + 120, NOW) is None
    assert grace_period_seconds(patient, None, NOW) is None
    assert grace_period_seconds(patient, NOW - 10, NOW) == 1


def test_in_the_last_minute_tiers_do_not_wait_for_each_other() -> None:
    ordinary = factories.running_pod(node="node")
    critical = factories.running_pod(node="node", priority_class_name="system-cluster-critical")
    assert next_step([ordinary, critical], NOW, NOW + 90).evict == (ordinary,)
    assert set(next_step([ordinary, critical], NOW, NOW + 50).evict) == {ordinary, critical}


@pytest.mark.parametrize(
    ("text", "expected"), [("2023-11-14T22:13:20Z", 1_700_000_000.0), ("soon", None), (None, None)]
)
def test_a_deadline_is_an_annotation_of_the_node(text: str | None, expected: float | None) -> None:
    node = factories.node(annotations=FrozenMap({DEADLINE_ANNOTATION: text} if text else {}))
    assert deadline(node) == expected


@pytest.mark.parametrize(
    ("annotation", "setting", "expected"),
    [(None, None, None), (None, 60.0, NOW + 60), ("2m", 60.0, NOW + 120), ("soon", 60.0, None), ("0s", 60.0, None)],
)
def test_a_provisioner_or_the_setting_gives_its_nodes_a_deadline_from_their_deletion_on(
    annotation: str | None, setting: float | None, expected: float | None
) -> None:
    annotations = {"karpenter.sh/termination-grace-period": annotation} if annotation else {}
    owner = V1ALPHA5.pool.parse(factories.provisioner_object(annotations=annotations))
    assert deadline(factories.node(deleted_at=NOW), owner, setting) == expected
    assert deadline(factories.node(), owner, setting) is None, "a node that stays has none"


def test_a_node_that_is_not_ready_drains_for_a_quarter_of_an_hour() -> None:
    """Its pods serve nobody, and a budget that counts them may allow nothing for ever."""

    def ends(
        since: float, deleted_at: float | None = NOW, status: str = "Unknown", after: float | None = 1800.0
    ) -> object:
        conditions = (UnhealthyCondition("Ready", status, since),)
        return deadline(factories.node(ready=False, unhealthy=conditions, deleted_at=deleted_at), None, None, after)

    assert ends(NOW - 7200) == NOW + 900
    assert ends(NOW - 60) == NOW + 1740, "not before it counts as broken"
    assert ends(NOW - 7200, deleted_at=None) is None
    assert ends(NOW - 7200, after=None) is None, "repair is off"
    sick = (UnhealthyCondition("KernelReady", "False", NOW - 7200),)
    assert deadline(factories.node(unhealthy=sick, deleted_at=NOW), None, None, 1800.0) is None, "its pods may work"


def test_the_soonest_deadline_counts() -> None:
    interrupted = FrozenMap({DEADLINE_ANNOTATION: "2023-11-14T22:14:20Z"})
    assert deadline(factories.node(deleted_at=NOW, annotations=interrupted), None, 3600.0) == NOW + 60
    assert deadline(factories.node(deleted_at=NOW, annotations=interrupted), None, 30.0) == NOW + 30


def test_a_pod_that_its_budget_holds_is_deleted_when_only_its_grace_period_is_left() -> None:
    """Karpenter v1's rule: it ends in its own way before the instance goes, whatever its PodDisruptionBudget says."""
    pod = factories.running_pod(node="node", termination_grace_period_seconds=30)
    assert next_step([pod], NOW, NOW + 36).evict == (pod,)
    late = next_step([pod], NOW, NOW + 35)
    assert (late.evict, late.delete) == ((), (pod,))


def test_after_the_deadline_nothing_holds_the_node() -> None:
    pods = [running("stuck", deleted_at=NOW), running("ordinary")]
    assert not next_step(pods, NOW, NOW + 1).drained
    assert next_step(pods, NOW, NOW).drained
