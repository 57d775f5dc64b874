"""Consistency: what a user hears of nodes that are not what they should be (Karpenter v0.27's consistency checks)."""

from __future__ import annotations

from typing import Any

from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.quantity import resources
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.machines.consistency import FAILED_INIT, NODE_SHAPE, TERMINATION, Issue, issues
from controller.core.state.snapshot import StateNode
from tests import factories

NOW = 1_700_000_000.0
OLD = NOW - 7200
SHAPE = resources({"cpu": "2", "memory": "128Gi", "nvidia.com/gpu": 1})


def starting(**fields: Any) -> StateNode:
    """A node that is not initialized."""
    node = factories.node(**{"initialized": False, "created": OLD, "capacity": SHAPE, "allocatable": SHAPE, **fields})
    return factories.state_node(node=node)


def issues_of(node: StateNode, expected: Any = SHAPE, **fields: Any) -> tuple[Issue, ...]:
    owner = factories.provisioner(startup_taints=fields.get("startup_taints", ()))
    return issues(node, owner, expected, fields.get("budgets", ()), NOW)


def test_a_resource_that_never_registered_is_named() -> None:
    """C1."""
    (issue,) = issues_of(starting(allocatable=resources({"cpu": "2", "memory": "128Gi"})))
    assert issue.check == FAILED_INIT
    assert "nvidia.com/gpu" in issue.message


def test_a_startup_taint_that_nobody_takes_off_is_named() -> None:
    """C2."""
    taint = Taint("cilium.io/agent", effect="NoExecute")
    (issue,) = issues_of(starting(taints=(taint,)), startup_taints=(taint,))
    assert "cilium.io/agent:NoExecute" in issue.message


def test_a_node_has_an_hour_to_initialize() -> None:
    assert issues_of(starting(created=NOW - 3599, ready=False)) == ()
    assert issues_of(starting(created=NOW - 3600, ready=False))[0].check == FAILED_INIT


def test_a_type_that_its_provisioner_does_not_know_is_named() -> None:
    (issue,) = issues_of(starting(instance_type="x9.huge"), expected=None)
    assert "x9.huge" in issue.message


def test_the_budget_that_holds_a_leaving_node_is_named() -> None:
    """C3."""
    pod = factories.running_pod(node="a", labels=FrozenMap({"app": "web"}))
    node = factories.state_node(node=factories.node(name="a", deleted_at=NOW), pods=[pod])
    budget = PodDisruptionBudget("default", "web", factories.selector(app="web"), 0)
    (issue,) = issues_of(node, budgets=[budget])
    assert issue.check == TERMINATION
    assert "default/web" in issue.message
    assert issues_of(node, budgets=[PodDisruptionBudget("default", "web", factories.selector(app="web"), 1)]) == ()
    assert issues_of(node, budgets=[PodDisruptionBudget("other", "web", factories.selector(app="web"), 0)]) == ()


def test_a_node_that_is_smaller_than_its_type_says_by_how_much() -> None:
    """C4."""
    half = resources({"cpu": "2", "memory": "64Gi", "nvidia.com/gpu": 1})
    (issue,) = issues_of(starting(initialized=True, capacity=half))
    assert issue.check == NODE_SHAPE
    assert "memory" in issue.message
    assert "50.0 %" in issue.message
    enough = resources({"cpu": "2", "memory": "116Gi", "nvidia.com/gpu": 1})
    assert issues_of(starting(initialized=True, capacity=enough)) == (), "nine tenths will do"


def test_a_disk_of_another_template_is_not_compared_with_the_present_ones() -> None:
    """What its type has of it is decided by the template it was launched from, which is not known any more."""
    small = resources({"cpu": "2", "memory": "128Gi", "ephemeral-storage": "20Gi", "pods": 29})
    present = resources({"cpu": "2", "memory": "128Gi", "ephemeral-storage": "100Gi", "pods": 110})
    node = starting(initialized=True, capacity=small)
    owner = factories.provisioner()
    assert len(issues(node, owner, present, (), NOW)) == 2
    assert issues(node, owner, present, (), NOW, as_launched=False) == ()
    half = starting(initialized=True, capacity=resources({"cpu": "2", "memory": "64Gi"}))
    (issue,) = issues(half, owner, present, (), NOW, as_launched=False)
    assert "memory" in issue.message, "what the type alone decides is compared all the same"
