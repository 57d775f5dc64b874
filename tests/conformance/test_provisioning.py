"""Karpenter v0.27's provisioning suite: plain pods, what a planned node carries, many Provisioners.

Annotations, owner reference, providerRef and provider are of the Node and the launch request:
tests/core/lifecycle and tests/reconcilers hold them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.parse import parse_pod
from controller.core.api.pod import Toleration
from controller.core.cloud import InstanceType
from controller.core.provisioning.problem import build
from tests.conformance.fixtures import (
    ARM,
    DEFAULT,
    GPU_A,
    GPU_B,
    SINGLE_POD,
    SMALL,
    VENDOR_A,
    VENDOR_B,
    ZONE_2,
    Cluster,
    daemon_set,
    fake_type,
    six_types,
    terms,
)
from tests.core.provisioning.plans import solved
from tests.factories import (
    node,
    pending_pod,
    pending_pods,
    pod_object,
    provisioner,
    requirement,
    running_pod,
    snapshot,
    state_node,
)


def test_one_plain_pod_gets_one_node() -> None:
    waiting = pending_pod()
    done = Cluster().provision(waiting)
    assert [planned.pods for planned in done.new] == [(waiting.key,)]
    assert done.left == set()


def test_a_provisioner_that_is_being_deleted_is_not_used() -> None:
    dying = provisioner(deleted_at=100.0)
    view = snapshot(pending=[pending_pod(name="waits")], provisioners=[dying])
    plan = solved(build(view, {"default": six_types()}))
    assert plan.new_nodes == ()
    assert "being deleted" in plan.unplaced[0].reason


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.PROVISIONER_NAME, "default"),
        (keys.ZONE, ZONE_2),
        (keys.INSTANCE_TYPE, ARM),
        (keys.ARCH, "arm64"),
        (keys.OS, "linux"),
    ],
)
def test_node_selectors_on_supported_labels_are_met_and_unknown_values_refused(key: str, value: str) -> None:
    good, bad = pending_pod(node_selector={key: value}), pending_pod(node_selector={key: "unknown"})
    done = Cluster().provision(good, bad)
    assert done.placed(good)
    assert done.left == {bad.name}


def test_a_node_selector_on_a_label_that_nobody_defines_is_refused() -> None:
    bad = pending_pod(node_selector={"foo": "bar"})
    assert Cluster().provision(bad).left == {bad.name}


@pytest.mark.parametrize(("resource", "kind"), [(GPU_A, VENDOR_A), (GPU_B, VENDOR_B)])
def test_accelerators_asked_for_as_limits_alone_pick_their_type(resource: str, kind: str) -> None:
    container = {"name": "main", "resources": {"limits": {resource: "1"}}}
    waiting = parse_pod(pod_object(spec={"containers": [container]}))
    assert Cluster().provision(waiting).types == [kind]


def test_three_pods_on_a_type_of_one_pod_are_three_nodes() -> None:
    pods = pending_pods(3, node_selector={keys.INSTANCE_TYPE: SINGLE_POD})
    assert Cluster().provision(*pods).types == [SINGLE_POD] * 3


def test_pods_of_a_node_that_is_leaving_are_packed_with_pending_ones() -> None:
    """One new node for all; the leaving node takes none of them back."""
    bound = [running_pod(node="leaving", requests={"cpu": "100m"}) for _ in range(2)]
    leaving = state_node(node=node(name="leaving", deleted_at=1.0), pods=bound)
    waiting = pending_pod(requests={"cpu": "100m"})
    view = snapshot(nodes=[leaving], pending=[waiting], provisioners=[provisioner()])
    plan = solved(build(view, {"default": six_types()}))
    assert plan.existing == ()
    (planned,) = plan.new_nodes
    assert set(planned.pods) == {waiting.key, *(each.key for each in bound)}


def test_node_labels_come_from_labels_and_from_every_requirement_that_demands_one() -> None:
    """In, NotIn, Lt, Gt and Exists give a value that they themselves accept; DoesNotExist gives none."""
    demands = [
        requirement("in", "In", "value-1", "value-2"),
        requirement("greater", "Gt", "5"),
        requirement("less", "Lt", "5"),
        requirement("exists", "Exists"),
        requirement("not-in", "NotIn", "0", "1", "value"),
        requirement("absent", "DoesNotExist"),
    ]
    pool = provisioner(labels={"own": "label"}, requirements=demands)
    chosen = Cluster([pool]).provision(pending_pod()).only.labels
    assert chosen["own"] == "label"
    assert chosen["in"] in ("value-1", "value-2")
    assert int(chosen["greater"]) > 5
    assert int(chosen["less"]) < 5
    assert chosen["exists"]
    assert chosen.get("not-in") not in ("0", "1", "value")
    assert "absent" not in chosen


def test_labels_of_exempt_domains_reach_the_node() -> None:
    exempt = {"node.kubernetes.io/one": "a", "kops.k8s.io/two": "b", "testing.karpenter.sh/three": "c"}
    chosen = Cluster([provisioner(labels=exempt)]).provision(pending_pod()).only.labels
    assert exempt.items() <= chosen.items()


TAINT = Taint("nvidia.com/gpu", "true", "NoSchedule")


@pytest.mark.parametrize(
    ("tolerations", "placed"),
    [
        ((Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),), True),
        ((Toleration("nvidia.com/gpu", "Exists"),), True),
        ((Toleration("nvidia.com/gpu", "Equal", "true", "NoSchedule"),), True),
        ((Toleration("nvidia.com/gpu", "Equal", "true"),), True),
        ((), False),
        ((Toleration("nvidia.com/gpu", "Equal", "false"),), False),
        ((Toleration("nvidia.com/gpu", "Exists", "", "NoExecute"),), False),
    ],
)
def test_pods_schedule_to_tainted_nodes_when_they_tolerate(tolerations: tuple[Toleration, ...], placed: bool) -> None:
    waiting = pending_pod(tolerations=tolerations)
    done = Cluster([provisioner(taints=[TAINT])]).provision(waiting)
    assert done.placed(waiting) is placed
    assert all(TAINT in planned.taints for planned in done.new)


def offered_types(planned_by: Cluster, **fields: Any) -> set[str]:
    """All types that the plan's one node may be launched as."""
    planned = planned_by.provision(pending_pod(**fields)).only
    return {offering.instance_type for offering in (planned.offering, *planned.alternatives)}


def test_a_planned_node_names_its_provisioner_and_every_type_that_would_do() -> None:
    """All types hold a small pod, GPU types included."""
    cluster = Cluster()
    planned = cluster.provision(pending_pod(requests={"cpu": "10m"})).only
    assert planned.requirements[keys.PROVISIONER_NAME].has("default")
    types = {offering.instance_type for offering in (planned.offering, *planned.alternatives)}
    assert types == {each.name for each in six_types()}


def test_custom_requirements_are_carried_by_the_planned_node() -> None:
    demands = [requirement("custom", "In", "a", "b"), requirement("other", "NotIn", "x")]
    planned = Cluster([provisioner(requirements=demands)]).provision(pending_pod()).only
    assert planned.requirements["custom"].has("a")
    assert not planned.requirements["custom"].has("c")
    assert not planned.requirements["other"].has("x")


def test_the_offered_types_shrink_to_the_pod_s_architecture() -> None:
    assert offered_types(Cluster(), required_node_affinity=terms([requirement(keys.ARCH, "In", "arm64")])) == {ARM}


def test_the_offered_types_shrink_to_the_pod_s_operating_system() -> None:
    catalog: tuple[InstanceType, ...] = (*six_types(), fake_type("ios-instance-type", arch="arm64", os="ios"))
    wanted = terms([requirement(keys.OS, "In", "ios")])
    assert offered_types(Cluster(catalog=catalog), required_node_affinity=wanted) == {"ios-instance-type"}


def test_the_offered_types_shrink_to_those_with_the_pod_s_accelerator() -> None:
    assert offered_types(Cluster(), requests={GPU_A: 1}) == {VENDOR_A}


def test_the_requests_of_a_planned_node_are_the_sum_of_its_pods() -> None:
    planned = Cluster().provision(pending_pod(requests={"cpu": "1", "memory": "1Mi"})).only
    assert planned.requests["cpu"] == 1000
    assert planned.requests["memory"] == 2**20
    assert planned.requests["pods"] == 1


def test_the_requests_of_a_planned_node_count_its_daemons() -> None:
    """2 cpu, 2Mi, 2 pods."""
    agent = daemon_set(requests={"cpu": "1", "memory": "1Mi"})
    cluster = Cluster(objects={"daemon_sets": {("kube-system", "agent"): agent}})
    planned = cluster.provision(pending_pod(requests={"cpu": "1", "memory": "1Mi"})).only
    assert planned.requests["cpu"] == 2000
    assert planned.requests["memory"] == 2 * 2**20
    assert planned.requests["pods"] == 2


def test_an_explicit_provisioner_is_used() -> None:
    pools = [provisioner(name="default"), provisioner(name="target")]
    waiting = pending_pod(node_selector={keys.PROVISIONER_NAME: "target"})
    assert Cluster(pools).provision(waiting).only.provisioner == "target"


def test_a_provisioner_is_chosen_by_its_labels() -> None:
    pools = [provisioner(name="default"), provisioner(name="target", labels={"foo": "bar"})]
    assert Cluster(pools).provision(pending_pod(node_selector={"foo": "bar"})).only.provisioner == "target"


def test_a_provisioner_without_a_prefer_no_schedule_taint_is_preferred() -> None:
    soft = Taint("foo", "bar", "PreferNoSchedule")
    pools = [provisioner(name="a-soft", taints=[soft]), provisioner(name="plain")]
    assert Cluster(pools).provision(pending_pod()).only.provisioner == "plain"


def test_the_heaviest_provisioner_takes_all_pods() -> None:
    pools = [provisioner(name="none"), provisioner(name="some", weight=20), provisioner(name="most", weight=100)]
    done = Cluster(pools).provision(*pending_pods(3))
    assert {planned.provisioner for planned in done.new} == {"most"}


def test_an_explicit_provisioner_beats_a_heavier_one() -> None:
    pools = [provisioner(name="target"), provisioner(name="heavy", weight=100)]
    waiting = pending_pod(node_selector={keys.PROVISIONER_NAME: "target"})
    assert Cluster(pools).provision(waiting).only.provisioner == "target"


def test_types_that_hold_the_pod_exactly_are_enough() -> None:
    """At the edge: allocatable less nothing, to the millicore and the byte."""
    kind = next(each for each in six_types() if each.name == SMALL)
    exact = pending_pod(requests={"cpu": f"{kind.allocatable['cpu']}m", "memory": kind.allocatable["memory"]})
    over = replace(exact, name="over", spec=pending_pod(requests={"cpu": f"{kind.allocatable['cpu'] + 1}m"}).spec)
    assert Cluster(catalog=[kind]).provision(exact).types == [SMALL]
    assert Cluster(catalog=[kind]).provision(over).left == {"over"}
    assert Cluster(catalog=[*six_types()]).provision(over).types != [DEFAULT, SMALL]
