"""Zone balance in plans: a soft aim with a price, which no pod waits for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import ON_DEMAND, SPOT, ZONE
from controller.core.api.pod import SelectorRequirement
from controller.core.cloud import InstanceType, Offering
from controller.core.provisioning.plan import SchedulingPlan, SolveOptions
from controller.core.zones.balance import SCOPE_ANNOTATION, SHARE_ANNOTATION, ZoneBalance
from tests.core.provisioning.plans import solved
from tests.factories import ZONES, instance_type, node, pending_pods, pod, problem, provisioner, state_node

EVEN = SolveOptions(zone_balance=ZoneBalance(0.6))


def m5(prices: tuple[float, ...], capacity_type: str = ON_DEMAND) -> InstanceType:
    """One type with a price in each zone."""
    offerings = tuple(Offering(zone, capacity_type, price, True) for zone, price in zip(ZONES, prices, strict=False))
    return replace(instance_type(name="m5.large", cpu=2, memory="8Gi"), offerings=offerings)


def zones(plan: SchedulingPlan) -> Counter[str]:
    return Counter(each.offering.zone for each in plan.new_nodes)


@pytest.mark.parametrize(("capacity_type", "extra"), [(ON_DEMAND, "$0.0010/h more"), (SPOT, "$0.0005/h more")])
def test_no_zone_has_more_than_its_share_where_that_costs_within_the_premium(capacity_type: str, extra: str) -> None:
    """Of spot EC2 would choose the dearer one half of the time anyway."""
    posed = problem(pending=pending_pods(10, requests={"cpu": "1500m"}), catalog=[m5((0.1, 0.101, 0.2), capacity_type)])
    plan = solved(posed, EVEN)
    assert zones(plan) == {ZONES[0]: 6, ZONES[1]: 4}
    assert zones(solved(posed, SolveOptions())) == {ZONES[0]: 10}
    assert all({o.zone for o in each.named} == {each.offering.zone} for each in plan.new_nodes), "EC2 may not undo it"
    moved = next(each for each in plan.new_nodes if each.offering.zone == ZONES[1])
    assert f"zone balance, {extra}" in moved.reason
    assert f"${moved.zone_extra:.4f}/h more" == extra
    assert [each.zone_extra for each in plan.new_nodes].count(None) == 6
    assert {o.zone for o in moved.alternatives} >= {ZONES[0]}, "it gives way where its zone has no capacity"


def test_few_nodes_and_dear_zones_stay_as_cheap_as_they_can_be() -> None:
    five = problem(pending=pending_pods(5, requests={"cpu": "1500m"}), catalog=[m5((0.1, 0.1))])
    assert zones(solved(five, EVEN)) == {ZONES[0]: 5}
    dear = problem(pending=pending_pods(10, requests={"cpu": "1500m"}), catalog=[m5((0.1, 0.11))])
    assert zones(solved(dear, EVEN)) == {ZONES[0]: 10}


def test_nodes_that_stand_count_and_the_provisioner_may_ask_for_more() -> None:
    full = {"cpu": "1900m"}
    there = [state_node(node=node(zone=ZONES[0]), pods=[pod(requests=full)]) for _ in range(4)]
    posed = problem(pending=pending_pods(4, requests=full), nodes=there, catalog=[m5((0.1, 0.1))])
    assert zones(solved(posed, EVEN)) == {ZONES[1]: 4}
    asks = provisioner(object_annotations=FrozenMap({SHARE_ANNOTATION: "1"}))
    given = problem(pending=pending_pods(10, requests={"cpu": "1500m"}), catalog=[m5((0.1, 0.1))], provisioners=[asks])
    assert zones(solved(given, EVEN)) == {ZONES[0]: 10}


def test_pods_that_ask_for_a_zone_get_it() -> None:
    posed = problem(
        pending=pending_pods(10, requests={"cpu": "1500m"}, node_selector=FrozenMap({ZONE: ZONES[0]})),
        catalog=[m5((0.1, 0.1))],
    )
    assert zones(solved(posed, EVEN)) == {ZONES[0]: 10}


FARGATE = {"eks.amazonaws.com/compute-type": "fargate"}
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}


@pytest.mark.parametrize(
    ("scope", "fields", "zone"),
    [
        ("cluster", {"labels": FARGATE}, ZONES[1]),
        ("provisioner", {"labels": FARGATE}, ZONES[0]),
        ("cluster", {"labels": CONTROL_PLANE}, ZONES[0]),
        ("cluster", {"ready": False}, ZONES[0]),
    ],
)
def test_of_the_whole_cluster_the_nodes_count_that_count_for_hints(
    scope: str, fields: dict[str, Any], zone: str
) -> None:
    others = [state_node(node=node(provisioner="", **fields)) for _ in range(4)]
    full = [replace(each, pods=(pod(requests={"cpu": "1900m"}),)) for each in others]
    asks = provisioner(object_annotations=FrozenMap({SCOPE_ANNOTATION: scope}))
    waiting = pending_pods(4, requests={"cpu": "1900m"})
    posed = problem(pending=waiting, nodes=full, catalog=[m5((0.1, 0.1))], provisioners=[asks])
    assert zones(solved(posed, EVEN)) == {zone: 4}


def test_of_the_whole_cluster_the_nodes_planned_for_other_provisioners_count() -> None:
    first, second = FrozenMap({"team": "a"}), FrozenMap({"team": "b"})
    asks = FrozenMap({SCOPE_ANNOTATION: "cluster"})
    owners = [
        provisioner(name="a", labels=first, requirements=[SelectorRequirement(ZONE, "In", (ZONES[0],))]),
        provisioner(name="b", labels=second, object_annotations=asks),
    ]
    waiting = [
        *pending_pods(4, requests={"cpu": "1900m"}, node_selector=first),
        *pending_pods(4, requests={"cpu": "1900m"}, node_selector=second),
    ]
    plan = solved(problem(pending=waiting, catalog=[m5((0.1, 0.1))], provisioners=owners), EVEN)
    assert Counter((each.provisioner, each.offering.zone) for each in plan.new_nodes) == {
        ("a", ZONES[0]): 4,
        ("b", ZONES[1]): 4,
    }
