"""Resources, selectors, taints, weights, limits, existing nodes and daemons: what the solver does with each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import NodeSelectorTerm, SelectorRequirement, Toleration
from controller.core.provisioning import solve
from tests.core.provisioning.plans import daemon_sets, solved
from tests.factories import (
    ZONES,
    instance_type,
    node,
    node_affinity,
    pending_pod,
    pending_pods,
    problem,
    provisioner,
    requirement,
    running_pod,
    state_node,
)


def test_one_plain_pod_becomes_one_node_of_the_cheapest_type() -> None:
    plan = solved(problem(pending=[pending_pod()]))
    (planned,) = plan.new_nodes
    assert planned.offering.instance_type == "c5.large"
    assert planned.offering.capacity_type == keys.SPOT
    assert plan.unplaced == ()


def test_alternatives_hold_the_same_pods_and_come_cheapest_first() -> None:
    plan = solved(problem(pending=[pending_pod(requests={"cpu": "3", "memory": "12Gi"})]))
    (planned,) = plan.new_nodes
    assert planned.offering.instance_type == "m5.xlarge"
    assert list(planned.alternatives) == sorted(planned.alternatives)
    assert planned.offering < planned.alternatives[0]
    assert {o.instance_type for o in planned.alternatives} >= {"r5.xlarge", "m5.2xlarge"}
    assert {o.instance_type for o in planned.alternatives}.isdisjoint({"c5.xlarge", "m5.large"})


def test_a_pod_that_fits_an_existing_node_opens_none() -> None:
    existing = state_node(node=node(name="here"))
    plan = solved(problem(pending=[pending_pod()], nodes=[existing]))
    assert [placement.node for placement in plan.existing] == ["here"]
    assert plan.new_nodes == ()


def test_pods_on_a_node_use_its_room() -> None:
    full = state_node(node=node(name="here"), pods=[running_pod(node="here", requests={"cpu": "2"})])
    plan = solved(problem(pending=[pending_pod(requests={"cpu": "1"})], nodes=[full]))
    assert plan.existing == ()
    assert len(plan.new_nodes) == 1


def test_three_pods_on_a_type_of_one_pod_are_three_nodes() -> None:
    tiny = instance_type(name="m5.large", pods=1)
    plan = solved(problem(pending=pending_pods(3), catalog=[tiny]))
    assert len(plan.new_nodes) == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.PROVISIONER_NAME, "default"),
        (keys.ZONE, ZONES[1]),
        (keys.INSTANCE_TYPE, "m5.xlarge"),
        (keys.ARCH, "amd64"),
        (keys.OS, "linux"),
        (keys.CAPACITY_TYPE, keys.ON_DEMAND),
    ],
)
def test_a_node_selector_on_a_well_known_label_is_met_or_refused(key: str, value: str) -> None:
    met = solved(problem(pending=[pending_pod(pod_fields={}, node_selector={key: value})]))
    assert len(met.new_nodes) == 1
    refused = solved(problem(pending=[pending_pod(pod_fields={}, node_selector={key: "nowhere"})]))
    assert refused.new_nodes == ()
    assert key in refused.unplaced[0].reason


def test_a_node_selector_on_an_undefined_label_is_refused_with_the_provisioner_named() -> None:
    plan = solved(problem(pending=[pending_pod(node_selector={"foo": "bar"})]))
    (left,) = plan.unplaced
    assert "Provisioner default" in left.reason
    assert "no label foo" in left.reason


@pytest.mark.parametrize(
    "asked",
    [
        {"node_selector": {keys.HOSTNAME: "n1"}},
        {"required_node_affinity": (NodeSelectorTerm((), (SelectorRequirement("metadata.name", "In", ("n1",)),)),)},
    ],
    ids=["label", "field"],
)
def test_a_pod_that_asks_for_a_host_by_its_name_is_told_that_a_new_node_has_its_own(asked: dict[str, Any]) -> None:
    (left,) = solved(problem(pending=[pending_pod(**asked)])).unplaced
    assert "In [n1] is asked for, and a new node has a name of its own" in left.reason


@pytest.mark.parametrize(
    ("operator", "values", "placed"),
    [
        ("In", ("x",), False),
        ("NotIn", ("x",), True),
        ("Exists", (), False),
        ("DoesNotExist", (), True),
        ("Gt", ("1",), False),
        ("Lt", ("1",), False),
    ],
)
def test_operators_on_an_undefined_key(operator: str, values: tuple[str, ...], placed: bool) -> None:
    affinity = node_affinity(requirement("undefined", operator, *values))
    plan = solved(problem(pending=[pending_pod(required_node_affinity=affinity)]))
    assert bool(plan.new_nodes) is placed


def test_or_terms_are_any_of_them_and_an_empty_term_matches_nothing() -> None:
    impossible = NodeSelectorTerm((requirement(keys.ZONE, "In", "nowhere"),))
    possible = NodeSelectorTerm((requirement(keys.ZONE, "In", ZONES[2]),))
    either = pending_pod(required_node_affinity=(impossible, NodeSelectorTerm(), possible))
    (planned,) = solved(problem(pending=[either])).new_nodes
    assert planned.offering.zone == ZONES[2]
    nothing = pending_pod(required_node_affinity=(NodeSelectorTerm(),))
    assert "empty node selector term" in solved(problem(pending=[nothing])).unplaced[0].reason


def test_pods_that_ask_for_different_values_of_an_open_label_get_different_nodes() -> None:
    pool = provisioner(requirements=[requirement("team", "Exists")])
    red, blue = (pending_pod(node_selector={"team": team}) for team in ("red", "blue"))
    plan = solved(problem(pending=[red, blue, pending_pod()], provisioners=[pool]))
    assert sorted(planned.labels["team"] for planned in plan.new_nodes) == ["blue", "red"]


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it() -> None:
    pool = provisioner(taints=[Taint("dedicated", "batch", "NoSchedule")])
    tolerant = pending_pod(tolerations=(Toleration("dedicated", "Equal", "batch"),))
    plan = solved(problem(pending=[tolerant, pending_pod(name="plain")], provisioners=[pool]))
    assert len(plan.new_nodes) == 1
    assert plan.new_nodes[0].taints == pool.taints
    assert "taint dedicated=batch:NoSchedule" in plan.unplaced[0].reason


def test_startup_taints_need_no_toleration() -> None:
    pool = provisioner(startup_taints=(Taint("cni", "", "NoSchedule"),))
    assert len(solved(problem(pending=[pending_pod()], provisioners=[pool])).new_nodes) == 1


def test_the_heaviest_provisioner_wins() -> None:
    pools = [provisioner(name="none"), provisioner(name="some", weight=20), provisioner(name="most", weight=100)]
    plan = solved(problem(pending=pending_pods(3), provisioners=pools))
    assert {planned.provisioner for planned in plan.new_nodes} == {"most"}


def test_a_selector_beats_weight() -> None:
    pools = [provisioner(name="light"), provisioner(name="heavy", weight=100)]
    chosen = pending_pod(node_selector={keys.PROVISIONER_NAME: "light"})
    assert solved(problem(pending=[chosen], provisioners=pools)).new_nodes[0].provisioner == "light"


def test_limits_count_the_capacity_of_nodes_that_stand_and_are_named_in_the_reason() -> None:
    pool = provisioner(limits={"cpu": "4"})
    existing = state_node(node=node(name="here"), pods=[running_pod(node="here", requests={"cpu": "2"})])
    plan = solved(problem(pending=pending_pods(2, requests={"cpu": "1500m"}), nodes=[existing], provisioners=[pool]))
    assert len(plan.new_nodes) == 1
    assert "its limit of 4 CPU is reached" in plan.unplaced[0].reason


def test_no_alternative_takes_more_of_a_limit_than_the_plan_counted_on() -> None:
    pool = provisioner(limits={"cpu": "4"})
    plan = solved(problem(pending=[pending_pod(requests={"cpu": "1"})], provisioners=[pool]))
    (planned,) = plan.new_nodes
    assert all(offering.instance_type.endswith(".large") for offering in planned.alternatives)


def test_daemons_take_their_share_of_new_and_existing_nodes() -> None:
    existing = state_node(node=node(name="here"))
    wanted = pending_pod(requests={"cpu": "1500m"})
    posed = problem(pending=[wanted], nodes=[existing], daemon_sets=daemon_sets(requests={"cpu": "1"}))
    (planned,) = solved(posed).new_nodes
    assert planned.offering.instance_type == "c5.xlarge"
    assert planned.requests["cpu"] == 2500


def test_a_daemon_that_an_existing_node_does_not_hold_takes_no_room_there() -> None:
    """Its pod stays pending, and others run there. Else whoever may create a DaemonSet could fill every node."""
    small = state_node(node=node(name="small", allocatable={"cpu": "2", "memory": "8Gi", "pods": 110}))
    large = state_node(node=node(name="large", allocatable={"cpu": "4", "memory": "8Gi", "pods": 110}))
    pods = pending_pods(3, requests={"cpu": "900m"})
    plan = solved(problem(pending=pods, nodes=[small, large], daemon_sets=daemon_sets(requests={"cpu": "3"})))
    assert {each.node: len(each.pods) for each in plan.existing} == {"small": 2, "large": 1}


def test_daemons_that_will_not_run_there_take_nothing() -> None:
    wanted = pending_pod(requests={"cpu": "1500m"})
    posed = problem(
        pending=[wanted], daemon_sets=daemon_sets(requests={"cpu": "1"}, node_selector={keys.INSTANCE_FAMILY: "r5"})
    )
    assert solved(posed).new_nodes[0].offering.instance_type == "c5.large"


def test_a_pod_that_cannot_be_read_is_left_out_and_the_others_carry_on() -> None:
    bad = pending_pod(name="bad")
    bad = replace(bad, spec=replace(bad.spec, malformed=("spec.containers[0].resources.requests.cpu: 'x'",)))
    bounds = pending_pod(name="bounds", required_node_affinity=node_affinity(requirement("a", "Gt", "many")))
    plan = solved(problem(pending=[bad, bounds, pending_pod(name="good")]))
    assert len(plan.new_nodes) == 1
    assert [left.pod[1] for left in plan.unplaced] == ["bad", "bounds"]


def test_the_order_of_objects_does_not_matter() -> None:
    pods = [pending_pod(name=f"p{i}", requests={"cpu": f"{100 + 130 * (i % 7)}m"}) for i in range(40)]
    pools = [provisioner(name="a"), provisioner(name="b", weight=3, limits={"cpu": "6"})]
    nodes = [state_node(node=node(name=f"n{i}", zone=ZONES[i % 3])) for i in range(3)]
    one = problem(pending=pods, provisioners=pools, nodes=nodes)
    two = problem(pending=pods[::-1], provisioners=pools[::-1], nodes=nodes[::-1])
    assert solve(one) == solve(two)


def test_no_provisioner_is_said_so() -> None:
    plan = solved(problem(pending=[pending_pod()], provisioners=[], skipped={"broken": "its template is missing"}))
    assert "Provisioner broken is not used: its template is missing" in plan.unplaced[0].reason


def test_a_pod_that_cannot_be_served_gets_no_node_and_is_told_why() -> None:
    plain = pending_pod()
    claiming = pending_pod(unsupported=("spec.resourceClaims: not known",))
    plan = solved(problem(pending=[plain, claiming]))
    assert [key for node in plan.new_nodes for key in node.pods] == [plain.key]
    ((key, reason),) = ((each.pod, each.reason) for each in plan.unplaced)
    assert (key, reason) == (claiming.key, "the pod cannot be served: spec.resourceClaims: not known")
