"""The plan behind a command's replacements is judged before they are launched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.deprovisioning import removal_simulation
from controller.core.provisioning import solve
from controller.core.provisioning.plan import SchedulingPlan
from tests.reconcilers.conftest import World
from tests.reconcilers.deprovisioning.builders import expire_all, leader, old_node, untouched


def solve_with_a_wrong_price(*args: Any, **kwargs: Any) -> SchedulingPlan:
    plan = solve(*args, **kwargs)
    nodes = (replace(node, offering=replace(node.offering, price=0.001)) for node in plan.new_nodes)
    return replace(plan, new_nodes=tuple(nodes))


def test_a_replacement_whose_plan_breaks_a_rule_is_not_launched_and_its_node_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal_simulation, "solve", solve_with_a_wrong_price)
    world.add_provisioner(ttlSecondsUntilExpired=30)
    old_node(world)
    expire_all(world)
    one = leader(world)
    assert untouched(one.some_passes())
    assert world.cloud.requests == []
    (skip,) = one.ledger.entries(kind="skip")
    assert "Replacement not launched: the plan for it breaks a rule" in skip.decision.reason
    assert 'nodeless_plan_audit_violations{method="deprovisioning",result="violation"}' in one.metrics_text()
