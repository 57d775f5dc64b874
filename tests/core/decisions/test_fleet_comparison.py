"""Fleet, fresh pack and lower bound on clusters small enough to work out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from controller.core.api.labels import ON_DEMAND
from controller.core.decisions.fleet_comparison import Comparison, compare
from controller.core.decisions.queues import Queue, queues
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import SolveOptions
from controller.core.state.snapshot import StateNode
from tests import factories

LARGE = factories.instance_type(name="m5.large", cpu="2", price=0.1, capacity_types=(ON_DEMAND,))
XLARGE = factories.instance_type(name="m5.xlarge", cpu="4", memory="16Gi", price=0.2, capacity_types=(ON_DEMAND,))
OPTIONS = SolveOptions(node_cost_per_hour=0.0)


def xlarge(name: str, pods: int, **pod_fields: Any) -> StateNode:
    node = factories.node(name=name, instance_type="m5.xlarge", allocatable={"cpu": "4", "memory": "16Gi", "pods": 50})
    own = [
        factories.running_pod(node=name, name=f"{name}-{n}", requests={"cpu": "1"}, **pod_fields) for n in range(pods)
    ]
    return factories.state_node(node=node, pods=own)


def compared(nodes: Iterable[StateNode]) -> Comparison:
    snapshot = factories.snapshot(nodes=nodes, provisioners=[factories.provisioner()])
    return compare(SnapshotIndex(snapshot), {"default": (LARGE, XLARGE)}, OPTIONS)


def test_two_half_empty_nodes_cost_twice_what_one_would() -> None:
    comparison = compared([xlarge("a", 2), xlarge("b", 2)])
    assert comparison.fleet_price == pytest.approx(0.4)
    assert comparison.fresh_pack_price == pytest.approx(0.2)
    assert comparison.bound_price == pytest.approx(0.2)
    assert comparison.kept == ()


def test_a_node_with_a_pod_that_no_fresh_pack_could_place_is_counted_as_it_is() -> None:
    comparison = compared([xlarge("a", 2), xlarge("stuck", 1, node_selector={"gone": "label"})])
    assert comparison.kept == ("stuck",)
    assert comparison.fleet_price == pytest.approx(0.4)
    assert comparison.fresh_pack_price == pytest.approx(0.2), "its pods fill up the node that stays"
    assert comparison.bound_price <= comparison.fresh_pack_price


def test_an_empty_cluster_costs_nothing() -> None:
    assert compared([]) == Comparison(0.0, 0.0, 0.0)


def test_what_waits_is_told_with_the_age_of_its_oldest() -> None:
    now = 1000.0
    starting = factories.node(name="s", initialized=False, created=900.0)
    leaving = factories.node(name="l", created=0.0, deleted_at=990.0)
    stranger = factories.node(name="x", provisioner="", created=0.0)
    pods = [factories.pending_pod(pod_fields={"created": created}) for created in (400.0, 700.0)]
    snapshot = factories.snapshot(
        nodes=[factories.state_node(node=each) for each in (starting, leaving, stranger)], pending=pods
    )
    assert queues(snapshot, now) == (
        Queue("pods", 2, 600.0),
        Queue("starting", 1, 100.0),
        Queue("terminating", 1, 10.0),
    )
    assert queues(factories.snapshot(), now)[0] == Queue("pods", 0, 0.0)
