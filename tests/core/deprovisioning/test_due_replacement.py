"""Expiration and drift as commands: whose turn it is, and how many nodes take the place of one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.pod import Pod
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.drift import Drift, drift_reason
from controller.core.deprovisioning.expiration import Expiration
from controller.core.deprovisioning.method import Proposal
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories
from tests.core.deprovisioning.builders import NOW, method_input, only, removed, with_budget

THREE_CPUS = (factories.instance_type(name="c5.xlarge", cpu="3", memory="8Gi", price=0.2),)


def marked(name: str, value: str = "expired", pods: Iterable[Pod] = (), **fields: Any) -> StateNode:
    annotations = FrozenMap({V1ALPHA5.keys.voluntary_disruption: value} if value else {})
    node = factories.node(**{"name": name, "annotations": annotations, "created": NOW - 10, **fields})
    return factories.state_node(node=node, pods=pods)


def cluster(nodes: Iterable[StateNode]) -> Snapshot:
    return factories.snapshot(nodes=nodes, provisioners=[factories.provisioner()])


def expire(nodes: Iterable[StateNode], types: Any = THREE_CPUS) -> Proposal:
    return Expiration().decide(method_input(cluster(nodes), types))


@pytest.mark.parametrize("value", ["", "drifted", "Expired", "true"])
def test_a_node_without_the_marker_of_its_method_does_not_expire(value: str) -> None:
    assert removed(expire([marked("a", value)])) == []


def test_an_empty_expired_node_is_deleted_and_nothing_launched() -> None:
    assert only(expire([marked("a")])).action == "delete"


def test_the_marked_node_goes_and_the_one_beside_it_stays() -> None:
    """One command takes one node."""
    assert removed(expire([marked("a", ""), marked("b"), marked("c")])) == [["b"]]


def test_one_node_is_replaced_by_as_many_as_its_pods_need() -> None:
    """Three pods of 2 cpu on 8, and the types that are left have 3: three replacements, all first."""
    big = factories.instance_type(name="c5.2xlarge", cpu="8", memory="16Gi", price=0.4)
    pods = [factories.running_pod(node="a", name=f"p{i}", requests={"cpu": "2"}) for i in range(3)]
    old = marked("a", pods=pods, instance_type=big.name, allocatable={"cpu": "8", "memory": "16Gi", "pods": 29})
    assert len(only(expire([old])).replacements) == 3


def test_nodes_whose_pods_fit_nowhere_do_not_hide_those_that_may_go() -> None:
    """A look simulates a few nodes; later ones go on behind them, and begin anew when all were looked at."""
    stuck = [factories.running_pod(node=f"a{n}", requests={"cpu": "900"}) for n in range(30)]
    nodes = [marked(f"a{n}", pods=[pod], created=NOW - 9000) for n, pod in enumerate(stuck)]
    view = factories.snapshot(nodes=[*nodes, marked("z")], provisioners=[with_budget('[{"nodes": "100%"}]')])
    method = Expiration()
    looks = [method.decide(method_input(view)) for _ in range(30)]
    assert removed(looks[0]) == []
    assert ["z"] in [name for proposal in looks for name in removed(proposal)]


def test_nodes_of_a_provisioner_that_is_backed_off_from_stay_and_count_as_eligible() -> None:
    view = cluster([marked("a"), marked("b")])
    proposal = Expiration().decide(method_input(view, held_back=frozenset({"a"})))
    assert (removed(proposal), proposal.eligible) == ([["b"]], 2)


def test_the_next_look_is_due_when_the_next_node_expires() -> None:
    young = factories.state_node(node=factories.node(name="a", created=NOW - 10))
    owner = factories.provisioner(disruption=DisruptionPolicy(expire_after_seconds=30))
    view = factories.snapshot(nodes=[young], provisioners=[owner])
    assert Expiration().decide(method_input(view)).again_seconds == pytest.approx(20, abs=0.1)
    assert Expiration().decide(method_input(cluster([young]))).again_seconds == math.inf


def drifted(node: Node, *, images: tuple[str, ...] = ()) -> str:
    return drift_reason(node, factories.provisioner(), factories.node_template(), images)


class StatedDrift:
    """Drift by what the cluster says alone."""

    def reason(self, candidate: Candidate, snapshot: Snapshot) -> str:
        assert candidate.name in snapshot.nodes
        return drifted(candidate.node.node)

    def missing_hashes(self, candidate: Candidate, snapshot: Snapshot) -> dict[str, str]:
        assert candidate.name in snapshot.nodes
        return {"hash": "v1-x"}


@pytest.mark.parametrize("value", ["", "expired", "Drifted", "true"])
def test_a_node_without_the_marker_has_not_drifted(value: str) -> None:
    assert drifted(marked("a", value).node) == ""


@pytest.mark.parametrize(("cpu", "action"), [("", "delete"), ("2", "replace")])
def test_a_node_that_a_user_marked_as_drifted_goes(cpu: str, action: str) -> None:
    pods = [factories.running_pod(node="a", requests={"cpu": cpu})] if cpu else []
    node = marked("a", "drifted", pods)
    assert drifted(node.node)
    assert only(Drift(StatedDrift()).decide(method_input(cluster([node]), THREE_CPUS))).action == action


def test_nodes_get_the_hashes_that_they_lack() -> None:
    stamps = Drift(StatedDrift()).decide(method_input(cluster([marked("a", "")]))).annotations
    assert [(stamp.node.name, stamp.values) for stamp in stamps] == [("a", {"hash": "v1-x"})]
