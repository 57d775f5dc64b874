"""The cheapest of 1,344 instance types that meets the requirements of pod and Provisioner."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import Resources, SelectorRequirement
from controller.core.cloud import InstanceType, Offering
from controller.core.provisioning import PlannedNode
from controller.core.provisioning.offerings.option_table import TableCache
from tests.conformance.fixtures import ZONE_1, ZONE_2, ZONE_3, Cluster, Round, assorted_types, fake_type, terms
from tests.factories import pending_pod, pending_pods, provisioner, requirement

TABLES = TableCache()
"""The catalog is compiled once for each Provisioner's requirements."""
Wish = dict[str, str]


@cache
def by_name() -> dict[str, InstanceType]:
    return {each.name: each for each in assorted_types()}


@cache
def room() -> dict[str, Resources]:
    """What pods may request, by instance type."""
    return {each.name: each.allocatable for each in assorted_types()}


def assorted(of_pool: Wish) -> Cluster:
    """A cluster of one Provisioner over the whole catalog."""
    return Cluster([provisioner(requirements=expressions(of_pool))], assorted_types(), tables=TABLES)


def labels_of(kind: InstanceType, offering: Offering) -> dict[str, str]:
    """Labels of a node of this type and offering."""
    own = {key: next(iter(r.values)) for key, r in kind.requirements.items() if len(r.values) == 1}
    return {**own, keys.ZONE: offering.zone, keys.CAPACITY_TYPE: offering.capacity_type}


def expressions(wish: Wish) -> list[SelectorRequirement]:
    return [requirement(key, "In", value) for key, value in wish.items()]


def provision(of_pod: Wish, of_pool: Wish, **fields: Any) -> Round:
    """One pod with requirements of its own, from a Provisioner with others."""
    waiting = pending_pod(required_node_affinity=terms(expressions(of_pod)) if of_pod else None, **fields)
    return assorted(of_pool).provision(waiting)


def offered(planned: PlannedNode) -> list[dict[str, str]]:
    """Labels of every offering that the node may be launched as."""
    offers = []
    for each in (planned.offering, *planned.alternatives):
        kind = by_name()[each.instance_type]
        offers.append(labels_of(kind, Offering(each.zone, each.capacity_type, each.price)))
    return offers


def cheapest(wish: Wish, cpu: int = 1000) -> float:
    """$/hour of the cheapest offering of the whole catalog that meets the wish and holds the pod."""
    return min(
        offering.price
        for kind in assorted_types()
        for offering in kind.offerings
        if kind.allocatable["cpu"] >= cpu and wish.items() <= labels_of(kind, offering).items()
    )


AMD, ARM = {keys.ARCH: "amd64"}, {keys.ARCH: "arm64"}
LINUX, WINDOWS = {keys.OS: "linux"}, {keys.OS: "windows"}
SPOT, ON_DEMAND = {keys.CAPACITY_TYPE: keys.SPOT}, {keys.CAPACITY_TYPE: keys.ON_DEMAND}
IN_1, IN_2, IN_3 = {keys.ZONE: ZONE_1}, {keys.ZONE: ZONE_2}, {keys.ZONE: ZONE_3}


@pytest.mark.parametrize(
    ("of_pod", "of_pool"),
    [
        pytest.param({}, {}, id="no-wish"),
        pytest.param(AMD, {}, id="pod-amd64"),
        pytest.param(ARM, {}, id="pod-arm64"),
        pytest.param({}, AMD, id="pool-amd64"),
        pytest.param({}, ARM, id="pool-arm64"),
        pytest.param({}, WINDOWS, id="pool-windows"),
        pytest.param(WINDOWS, {}, id="pod-windows"),
        pytest.param({}, LINUX, id="pool-linux"),
        pytest.param(LINUX, {}, id="pod-linux"),
        pytest.param({}, IN_2, id="pool-zone"),
        pytest.param(IN_2, {}, id="pod-zone"),
        pytest.param({}, SPOT, id="pool-spot"),
        pytest.param(SPOT, {}, id="pod-spot"),
        pytest.param({}, ON_DEMAND | IN_1, id="pool-on-demand-zone"),
        pytest.param(SPOT | IN_1, {}, id="pod-spot-zone"),
        pytest.param(IN_2, SPOT, id="pool-spot-pod-zone"),
        pytest.param({}, ON_DEMAND | IN_1 | ARM | WINDOWS, id="pool-everything"),
        pytest.param(IN_2 | LINUX, SPOT | ARM, id="both-sides"),
        pytest.param(SPOT | IN_2 | AMD | LINUX, {}, id="pod-everything"),
        pytest.param(ON_DEMAND | IN_3, ARM | WINDOWS, id="two-and-two"),
    ],
)
def test_the_cheapest_of_all_that_match_is_planned_and_every_offer_matches(of_pod: Wish, of_pool: Wish) -> None:
    """Karpenter v0.27's price rule, and every alternative meets pod and Provisioner."""
    planned = provision(of_pod, of_pool).only
    wish = of_pool | of_pod
    assert planned.offering.price == cheapest(wish)
    assert all(wish.items() <= labels.items() for labels in offered(planned))
    assert len(planned.alternatives) > 0


@pytest.mark.parametrize(
    ("of_pod", "of_pool"),
    [
        pytest.param({keys.ARCH: "arm"}, {}, id="no-such-architecture"),
        pytest.param({keys.ARCH: "arm"} | IN_2, {}, id="no-such-architecture-in-the-zone"),
        pytest.param(IN_2, {keys.ARCH: "arm"}, id="the-pool-s-no-such-architecture"),
        pytest.param(SPOT, ON_DEMAND, id="sides-that-exclude-each-other"),
    ],
)
def test_nothing_is_launched_when_no_type_matches(of_pod: Wish, of_pool: Wish) -> None:
    done = provision(of_pod, of_pool)
    assert done.new == ()
    assert done.plan.unplaced[0].reason


@pytest.mark.parametrize("cpu", ["100m", "1", "2", "2500m", "4", "8", "16"])
def test_three_pods_of_a_size_fit_whatever_their_node_is_launched_as(cpu: str) -> None:
    """The sizing grid. Every offered type holds the node's pods, and the catalog is left as it was."""
    before = hash(assorted_types())
    for memory in ("100Mi", "1Gi", "2Gi", "4Gi", "8Gi", "16Gi", "32Gi"):
        pods = pending_pods(3, requests={"cpu": cpu, "memory": memory})
        done = assorted({}).provision(*pods)
        assert done.left == set()
        for planned in done.new:
            for offering in (planned.offering, *planned.alternatives):
                holds = room()[offering.instance_type]
                assert all(holds[name] >= amount for name, amount in planned.requests.items())
        request = pods[0].spec.requests
        holding = [n for n, holds in room().items() if all(holds[name] >= most for name, most in request.items())]
        fitting = (by_name()[name] for name in holding)
        cheap_each = 3 * min(offering.price for kind in fitting for offering in kind.offerings)
        assert done.plan.price_per_hour <= cheap_each + 1e-9
    assert hash(assorted_types()) == before


def test_prices_of_what_may_be_launched_decide_alone() -> None:
    """On-demand only; spot prices run the other way round and are no matter."""
    catalog = [
        fake_type(
            f"size-{cpu}",
            cpu=cpu,
            memory=f"{cpu}Gi",
            offered=(Offering(ZONE_1, keys.ON_DEMAND, 1.0 + cpu), Offering(ZONE_1, keys.SPOT, 1.0 - cpu / 100)),
        )
        for cpu in (2, 4, 8)
    ]
    pool = provisioner(requirements=[requirement(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND)])
    planned = Cluster([pool], catalog).provision(pending_pod()).only
    prices = [offering.price for offering in (planned.offering, *planned.alternatives)]
    assert prices == [3.0, 5.0, 9.0]


def test_an_offering_without_capacity_is_never_planned() -> None:
    """Only available offerings count, for the plan and its alternatives."""
    offers = (Offering(ZONE_1, keys.SPOT, 0.1, available=False), Offering(ZONE_2, keys.SPOT, 0.2))
    planned = Cluster(catalog=[fake_type("t", offered=offers)]).provision(pending_pod()).only
    assert [each.zone for each in (planned.offering, *planned.alternatives)] == [ZONE_2]
