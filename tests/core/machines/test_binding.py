"""Which planned pods are bound to new nodes, and which are left to kube-scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import HOSTNAME, OPENS_WITH, ZONE
from controller.core.api.node import Taint
from controller.core.api.pod import (
    LabelSelector,
    Pod,
    PodAffinityTerm,
    PodClaim,
    PodVolume,
    TopologySpreadConstraint,
)
from controller.core.audit.plan_audit import Verdict, Violation, judge
from controller.core.machines import binding
from controller.core.machines.binding import Bindings, bindings, may_be_bound
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.machines.on_their_way import ExpectedPod, stand_in_name
from controller.core.state.snapshot import StateNode
from tests import factories

OWNER = factories.replica_set_owner()
EVERY_POD = LabelSelector()


def replica(name: str, cpu: str = "1", spec: Mapping[str, Any] | None = None, **fields: Any) -> Pod:
    made = factories.pending_pod(name=name, requests={"cpu": cpu})
    return replace(made, **{"owners": (OWNER,), "spec": replace(made.spec, **(spec or {})), **fields})


def new_node(name: str, zone: str = "zone-a", pods: tuple[Pod, ...] = (), **fields: Any) -> StateNode:
    """A node of 2 CPUs that is Ready and not initialized."""
    node = factories.node(name=name, zone=zone, initialized=False, **fields)
    return factories.state_node(node=node, pods=pods)


def found(
    planned: Mapping[Pod, str], *nodes: StateNode, due: str = "", elsewhere: tuple[StateNode, ...] = ()
) -> Bindings:
    """Of pods that are planned for nodes; `due`: the names of those that are to be opened, by default all."""
    snapshot = factories.snapshot(nodes=(*nodes, *elsewhere), pending=planned)
    opened = [each.node for each in nodes if not due or each.name in due]
    return bindings(opened, {pod.uid: ExpectedPod(pod.key, node) for pod, node in planned.items()}, snapshot)


def bound(given: Bindings) -> dict[str, str]:
    return {pod.name: node for pod, node in given.pods}


def test_pods_are_bound_to_the_nodes_that_they_were_planned_for() -> None:
    planned = {replica("one"): "a", replica("two"): "a", replica("three"): "b"}
    given = found(planned, new_node("a"), new_node("b"))
    assert bound(given) == {"one": "a", "two": "a", "three": "b"}
    assert given.violations == ()


def test_only_to_nodes_that_are_due() -> None:
    assert bound(found({replica("one"): "a", replica("two"): "b"}, new_node("a"), new_node("b"), due="b")) == {
        "two": "b"
    }


def test_a_pod_is_known_to_be_planned_by_the_name_of_its_nodes_stand_in() -> None:
    pod, state = replica("one"), new_node("a", annotations={LAUNCH_TOKEN: "token"})
    snapshot = factories.snapshot(nodes=[state], pending=[pod])
    expected = {pod.uid: ExpectedPod(pod.key, stand_in_name("token"))}
    assert bound(bindings([state.node], expected, snapshot)) == {"one": "a"}


@pytest.mark.parametrize(
    "pod",
    [
        replica("bare", owners=()),  # if its kubelet refuses it, it is gone
        replica("volumes", volumes=(PodVolume("data", "claim"),)),
        replica("devices", spec={"resource_claims": (PodClaim("gpu", "claim"),)}),
        replica("own-scheduler", spec={"scheduler_name": "volcano"}),
        replica("preempts", nominated_node_name="b"),
    ],
    ids=lambda pod: pod.name,
)
def test_what_kube_scheduler_has_to_choose_or_nobody_would_make_again_is_left_to_it(pod: Pod) -> None:
    assert may_be_bound(replica("plain"))
    assert not may_be_bound(pod)
    assert bound(found({pod: "a", replica("plain"): "a"}, new_node("a"))) == {"plain": "a"}


@pytest.mark.parametrize("change", [{"node_name": "b"}, {"deleted_at": 1.0}, {"phase": "Failed"}, {"uid": "another"}])
def test_a_pod_that_needs_no_node_any_more_is_not_bound(change: dict[str, Any]) -> None:
    planned, state = replica("one"), new_node("a")
    snapshot = factories.snapshot(nodes=[state], pending=[replace(planned, **change)])
    assert bindings([state.node], {planned.uid: ExpectedPod(planned.key, "a")}, snapshot) == Bindings(())


def test_nothing_is_bound_to_a_node_that_has_got_too_full_for_its_pods() -> None:
    """By a pod that tolerates everything, say. The other nodes of the plan get theirs."""
    stranger = factories.running_pod(node="a", requests={"cpu": "1500m"})
    given = found({replica("one"): "a", replica("two"): "b"}, new_node("a", pods=(stranger,)), new_node("b"))
    assert bound(given) == {"two": "b"}
    assert [each.subject for each in given.violations] == ["a"]


def test_what_a_node_does_not_report_yet_is_not_there() -> None:
    """Plans count on the GPU of its instance type, which its device plugin has not found: the kubelet would fail the
    pod."""
    state = new_node("a")
    promised = replace(state, allocatable=factories.pod_requests({"cpu": "2", "nvidia.com/gpu": 1}))
    pod = replica("gpu", spec={"requests": factories.pod_requests({"nvidia.com/gpu": 1})})
    assert bound(found({pod: "a"}, promised)) == {}


def test_a_startup_taint_that_is_still_there_is_obeyed() -> None:
    """Plans expect it to be removed, and so leave it out."""
    state = new_node("a", taints=[Taint("agent-not-ready", effect="NoExecute")])
    assert bound(found({replica("one"): "a"}, replace(state, taints=()))) == {}


def test_the_taint_of_a_node_that_was_not_ready_a_moment_ago_is_no_reason() -> None:
    """The node controller takes it off after the kubelet has reported Ready."""
    state = new_node("a", taints=[Taint("node.kubernetes.io/not-ready")])
    assert bound(found({replica("one"): "a"}, state)) == {"one": "a"}


def test_a_spread_has_to_hold_once_all_that_is_due_is_bound() -> None:
    spread = {"topology_spread": (TopologySpreadConstraint(1, ZONE, "DoNotSchedule", EVERY_POD),)}
    planned = {replica(f"{zone}{n}", spec=spread): zone for zone in "ab" for n in range(2)}
    nodes = [new_node(zone, f"zone-{zone}") for zone in "ab"]
    assert bound(found(planned, *nodes)) == {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}
    closed = replace(nodes[1], node=replace(nodes[1].node, annotations=FrozenMap({OPENS_WITH: "plan"})))
    assert bound(found(planned, nodes[0], closed, due="a")) == {"a0": "a"}, "zone b may get none"


@pytest.mark.parametrize(("extra", "left"), [(1, 0), (2, 1), (9, 8)])
def test_of_a_spread_with_too_many_replicas_in_a_zone_as_few_as_may_be_are_left_to_kube_scheduler(
    extra: int, left: int
) -> None:
    """kube-scheduler bound some to other nodes of the zone than planned. The pods of others are bound in any case."""
    spread = {"topology_spread": (TopologySpreadConstraint(1, ZONE, "DoNotSchedule", factories.selector(app="web")),)}
    web = FrozenMap({"app": "web"})
    planned = {replica(f"{zone}{n}", "100m", spec=spread, labels=web): zone for zone in "ab" for n in range(10)}
    planned[replace(replica("other", "100m"), owners=(replace(OWNER, uid="other"),))] = "a"
    standing = [replace(factories.running_pod(node="old", name=f"extra-{n}"), labels=web) for n in range(extra)]
    old = factories.state_node(node=factories.node(name="old", zone="zone-a"), pods=standing)
    given = bound(found(planned, *(new_node(zone, f"zone-{zone}") for zone in "ab"), elsewhere=(old,)))
    assert given["other"] == "a"
    assert len([name for name in given if name[0] == "a"]) == 10 - left
    assert len([name for name in given if name[0] == "b"]) == 10


def test_replicas_that_kube_scheduler_is_about_to_bind_to_open_nodes_count_for_a_spread() -> None:
    """As long as they still have their room there. It cannot bind them before these."""
    spread = {"topology_spread": (TopologySpreadConstraint(1, ZONE, "DoNotSchedule", factories.selector(app="web")),)}
    planned = {
        replica(f"{zone}{n}", spec=spread, labels=FrozenMap({"app": "web"})): zone for zone in "ab" for n in range(2)
    }
    there = factories.node(name="b", zone="zone-b")
    full = factories.running_pod(node="b", requests={"cpu": "500m"})
    new = new_node("a", "zone-a")
    assert bound(found(planned, new, factories.state_node(node=there), due="a")) == {"a0": "a", "a1": "a"}
    given = found(planned, new, factories.state_node(node=there, pods=[full]), due="a")
    assert bound(given) == {"a0": "a"}
    assert given.violations[0].subject == "b"


def test_pods_of_nodes_whose_kubelet_is_not_ready_are_not_judged() -> None:
    """It reports no room yet, which says nothing about the pods; kube-scheduler binds none there."""
    starting = factories.state_node(node=factories.node(name="b", ready=False, allocatable={}))
    given = found({replica("one"): "a", replica("two"): "b"}, new_node("a"), starting, due="a")
    assert (bound(given), given.violations) == ({"one": "a"}, ())


def test_nothing_is_judged_where_no_node_is_due() -> None:
    there = factories.running_pod(node="b", requests={"cpu": "2"})
    full = factories.state_node(node=factories.node(name="b"), pods=[there])
    assert found({replica("one"): "b"}, full, due="none") == Bindings(())


def test_what_was_bound_meanwhile_counts() -> None:
    term = PodAffinityTerm(ZONE, EVERY_POD)
    pod = replica("alone", spec={"required_pod_anti_affinity": (term,)})
    assert bound(found({pod: "a"}, new_node("a"))) == {"alone": "a"}
    neighbour = new_node("b", pods=(factories.running_pod(node="b"),))
    assert bound(found({pod: "a"}, new_node("a"), elsewhere=(neighbour,))) == {}


def test_where_topology_is_too_much_to_judge_pods_with_such_rules_are_left_to_kube_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "judge", partial(judge, most_work=0))
    spread = {"topology_spread": (TopologySpreadConstraint(1, HOSTNAME, "DoNotSchedule", EVERY_POD),)}
    planned = {replica("tied", spec=spread): "a", replica("free"): "a"}
    assert bound(found(planned, new_node("a"))) == {"free": "a"}


def test_nothing_is_bound_where_a_rule_blames_neither_a_pod_nor_a_node_of_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The audit has no such rule. With one, leaving out what is to blame would never end."""
    broken = Violation("provisioner default", "cpu would be over its limit")
    monkeypatch.setattr(binding, "judge", lambda plan, _problem: Verdict(plan, (broken,)))
    assert found({replica("one"): "a"}, new_node("a")) == Bindings((), (broken,))
