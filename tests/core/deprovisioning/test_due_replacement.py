"""Expiration and drift as commands: whose turn it is, and how many nodes take the place of one (D36 to D49)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.pod import Pod
from controller.core.deprovisioning import expiration
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.drift import DRIFT, DRIFTED, drift_reason
from controller.core.deprovisioning.due_replacement import Decision, Method, replace_first
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.removal_simulation import Stage
from controller.core.state.snapshot import StateNode
from tests import factories

NOW = 1_700_000_000.0
THREE_CPUS = (factories.instance_type(name="c5.xlarge", cpu="3", memory="8Gi", price=0.2),)


def marked(name: str, value: str = "expired", pods: Iterable[Pod] = (), **fields: Any) -> StateNode:
    annotations = FrozenMap({keys.VOLUNTARY_DISRUPTION: value} if value else {})
    return factories.state_node(
        node=factories.node(name=name, annotations=annotations, created=NOW - 10, **fields), pods=pods
    )


def expire(nodes: Iterable[StateNode], types: Any = THREE_CPUS) -> Decision:
    view = factories.snapshot(nodes=nodes, provisioners=[factories.provisioner()])
    found = candidates(view, {"default": types}, NOW)
    method = Method("expiration", "expired", expiration.because)
    return replace_first(expiration.expired(found, NOW), method, Stage(view, {"default": types}), Gate(view, NOW))


def names(decision: Decision) -> list[str]:
    return [candidate.name for candidate in decision.command.candidates] if decision.command else []


@pytest.mark.parametrize("value", ["", "drifted", "Expired", "true"])
def test_a_node_without_the_marker_of_its_method_does_not_expire(value: str) -> None:
    """D43, D44."""
    assert names(expire([marked("a", value)])) == []


def test_an_empty_expired_node_is_deleted_and_nothing_launched() -> None:
    """D45."""
    decision = expire([marked("a")])
    assert decision.command is not None
    assert decision.command.action == "delete"


def test_the_marked_node_goes_and_the_one_beside_it_stays() -> None:
    """D46, D42: one command takes one node."""
    assert names(expire([marked("a", ""), marked("b"), marked("c")])) == ["b"]


def test_one_node_is_replaced_by_as_many_as_its_pods_need() -> None:
    """D41, D49: three pods of 2 cpu on 8, and the types that are left have 3: three replacements, all first."""
    big = factories.instance_type(name="c5.2xlarge", cpu="8", memory="16Gi", price=0.4)
    pods = [factories.running_pod(node="a", name=f"p{i}", requests={"cpu": "2"}) for i in range(3)]
    old = marked("a", pods=pods, instance_type=big.name, allocatable={"cpu": "8", "memory": "16Gi", "pods": 29})
    decision = expire([old])
    assert decision.command is not None
    assert len(decision.command.replacements) == 3


def drifted(node: Node, *, images: tuple[str, ...] = ()) -> str:
    return drift_reason(node, factories.provisioner(), factories.node_template(), images)


@pytest.mark.parametrize("value", ["", "expired", "Drifted", "true"])
def test_a_node_without_the_marker_has_not_drifted(value: str) -> None:
    """D37, D38."""
    assert drifted(marked("a", value).node) == ""


@pytest.mark.parametrize(("cpu", "action"), [("", "delete"), ("2", "replace")])
def test_a_node_that_a_user_marked_as_drifted_goes(cpu: str, action: str) -> None:
    """D39, D40."""
    pods = [factories.running_pod(node="a", requests={"cpu": cpu})] if cpu else []
    node = marked("a", "drifted", pods)
    assert drifted(node.node)
    view = factories.snapshot(nodes=[node], provisioners=[factories.provisioner()])
    stage = Stage(view, {"default": THREE_CPUS})
    found = candidates(view, stage.catalog, NOW)
    decision = replace_first(found, Method(DRIFT, DRIFTED, lambda c: drifted(c.node.node)), stage, Gate(view, NOW))
    assert decision.command is not None
    assert decision.command.action == action
