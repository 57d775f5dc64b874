"""Planned nodes of a Provisioner with limits shrink to what they hold."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.provisioning.offerings.limits import Limits
from tests.core.provisioning.plans import FIRST, solved, spread
from tests.factories import instance_type, pending_pods, problem, provisioner, selector

SIZES = [
    instance_type(name=f"c5.{cpu}x", cpu=cpu, memory=f"{2 * cpu}Gi", price=0.1 + 0.1 * cpu) for cpu in range(2, 34)
]


def test_what_a_node_holds_is_judged_once_however_often_pods_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit of 60 cpus 40 Deployments spread over zones are tried zone by zone, on all nodes each time."""
    judged, takes = 0, Limits.takes

    def counted(*given: Any) -> Any:
        nonlocal judged
        judged += 1
        return takes(*given)

    monkeypatch.setattr(Limits, "takes", counted)
    pods = list[Pod]()
    for number in range(40):
        own = {"app": f"web-{number}"}
        rule = spread(keys.ZONE, of=selector(**own))
        pods += pending_pods(5, requests={"cpu": f"{500 + number % 5}m"}, labels=own, topology_spread=(rule,))
    plan = solved(problem(pending=pods, catalog=SIZES, provisioners=[provisioner(limits={"cpu": "60"})]), FIRST)
    assert len(plan.unplaced) > 50
    assert judged <= 2_000
