"""Disruption cost and price of candidates (rules of Karpenter v0.27)."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.pod import Pod
from controller.core.deprovisioning.candidates import candidates, pod_cost
from controller.core.deprovisioning.scale_in.deletion_costs import COST_ANNOTATION
from tests import factories

NOW = 1_700_000_000.0
TYPES = {"default": factories.small_catalog()}


def costly(deletion_cost: str = "0", priority: int = 0) -> Pod:
    return factories.pod(annotations={COST_ANNOTATION: deletion_cost}, priority=priority)


def test_a_plain_pod_costs_one() -> None:
    assert pod_cost(factories.pod()) == 1.0


def test_costs_follow_the_deletion_cost_and_the_priority() -> None:
    costs = [pod_cost(costly(str(each))) for each in (-100, 0, 99, 100, 101)]
    assert costs == sorted(set(costs))
    assert pod_cost(costly(priority=-1)) < 1.0 < pod_cost(costly(priority=1))


@pytest.mark.parametrize(("text", "expected"), [("much", 1.0), ("1e30", 10.0), ("-1e30", -10.0)])
def test_costs_are_clamped_and_what_is_no_number_counts_as_nothing(text: str, expected: float) -> None:
    assert pod_cost(costly(text)) == expected


@pytest.mark.parametrize(("age", "expected"), [(0.0, 2.0), (50.0, 1.0), (100.0, 0.0), (500.0, 0.0)])
def test_a_node_near_its_expiry_is_cheap_to_remove(age: float, expected: float) -> None:
    node = factories.node(created=NOW - age)
    pods = [factories.running_pod(node=node.name) for _ in range(2)]
    view = factories.snapshot(
        nodes=[factories.state_node(node=node, pods=pods)],
        provisioners=[factories.provisioner(disruption=DisruptionPolicy(expire_after_seconds=100))],
    )
    assert [candidate.disruption for candidate in candidates(view, TYPES, NOW)] == [expected]


def test_prices_are_those_of_the_nodes_own_offering_sold_out_or_not() -> None:
    node = factories.node(instance_type="m5.xlarge", capacity_type=keys.SPOT)
    view = factories.snapshot(nodes=[factories.state_node(node=node)], provisioners=[factories.provisioner()])
    assert candidates(view, TYPES, NOW)[0].price == pytest.approx(0.192 * 0.4)


def test_an_unknown_type_has_no_price_and_nodes_of_strangers_are_no_candidates() -> None:
    nodes = [factories.node(name="odd", instance_type="x9.huge"), factories.node(provisioner="")]
    nodes.append(factories.node(provisioner="deleted"))
    view = factories.snapshot(
        nodes=[factories.state_node(node=node) for node in nodes], provisioners=[factories.provisioner()]
    )
    assert [(c.name, c.price) for c in candidates(view, TYPES, NOW)] == [("odd", None)]


def test_daemons_static_finished_and_terminating_pods_need_no_other_place() -> None:
    node = factories.node()
    pods = [
        factories.running_pod(node=node.name, owner=factories.daemon_owner()),
        factories.running_pod(node=node.name, pod_fields={"phase": "Failed"}),
        factories.running_pod(node=node.name, pod_fields={"deleted_at": NOW}),
        factories.running_pod(node=node.name, name="ownerless"),
    ]
    view = factories.snapshot(
        nodes=[factories.state_node(node=node, pods=pods)], provisioners=[factories.provisioner()]
    )
    assert [pod.name for pod in candidates(view, TYPES, NOW)[0].pods] == ["ownerless"]
