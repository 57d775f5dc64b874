"""What preferences may cost: each is honoured unless it makes a pod dearer than the premium allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import Pod, WeightedPodAffinityTerm
from controller.core.cloud import Offering
from controller.core.provisioning import SchedulingPlan, SolveOptions
from controller.settings import Settings
from tests.core.provisioning.plans import WEB, homes, near, preferring, solved, spread
from tests.factories import (
    ZONES,
    instance_type,
    node,
    pending_pod,
    pending_pods,
    problem,
    provisioner,
    requirement,
    state_node,
)

APART = (WeightedPodAffinityTerm(100, near(keys.HOSTNAME)),)
ONE_TYPE = (
    instance_type(
        cpu=2,
        price=0.1,
        offered=(Offering(ZONES[0], keys.ON_DEMAND, 0.25), Offering(ZONES[0], keys.SPOT, 0.1)),
    ),
)


def paying(premium: float | None) -> SolveOptions:
    return SolveOptions(preference_premium=premium, node_cost_per_hour=0.0)


def planned(*pods: Pod, premium: float | None, **fields: Any) -> SchedulingPlan:
    return solved(problem(pending=pods, **{"catalog": ONE_TYPE, **fields}), paying(premium))


@pytest.mark.parametrize(("premium", "nodes"), [(None, 8), (7.1, 8), (6.9, 1), (0.0, 1)])
def test_small_pods_that_prefer_a_host_of_their_own_get_it_for_what_it_may_cost(
    premium: float | None, nodes: int
) -> None:
    """An eighth of a node each: alone they cost eight times as much, a premium of 7."""
    pods = pending_pods(8, labels=WEB, requests={"cpu": "250m"}, preferred_pod_anti_affinity=APART)
    assert len(planned(*pods, premium=premium).new_nodes) == nodes


@pytest.mark.parametrize(("premium", "nodes"), [(None, 4), (3.1, 4), (2.9, 1)])
def test_a_soft_spread_over_hosts_costs_nodes_too(premium: float | None, nodes: int) -> None:
    pods = pending_pods(
        8, labels=WEB, requests={"cpu": "250m"}, topology_spread=(spread(keys.HOSTNAME, skew=2, soft=True),)
    )
    assert len(planned(*pods, premium=premium).new_nodes) == nodes


def test_one_pod_alone_keeps_what_would_only_part_it_from_others() -> None:
    """Its anti-affinity costs nothing by itself, and a node that holds such a pod already is left alone."""
    (pod,) = pending_pods(1, labels=WEB, requests={"cpu": "250m"}, preferred_pod_anti_affinity=APART)
    existing = state_node(node=node(name="n"), pods=[replace(pod, name="other", node_name="n")])
    assert len(planned(pod, premium=0.0, nodes=[existing]).new_nodes) == 1


@pytest.mark.parametrize(("premium", "kind"), [(None, keys.ON_DEMAND), (1.6, keys.ON_DEMAND), (1.4, keys.SPOT)])
def test_a_preferred_capacity_type_is_taken_for_what_it_may_cost(premium: float | None, kind: str) -> None:
    """On-demand is 2.5 times spot."""
    pod = pending_pod(preferred_node_affinity=preferring(keys.CAPACITY_TYPE, keys.ON_DEMAND))
    assert planned(pod, premium=premium).new_nodes[0].offering.capacity_type == kind


def test_each_preference_is_weighed_by_itself() -> None:
    """A host of their own is too dear; the zone, which costs the same as the others, is kept."""
    pods = pending_pods(
        8,
        labels=WEB,
        requests={"cpu": "250m"},
        preferred_pod_anti_affinity=APART,
        preferred_node_affinity=preferring(keys.ZONE, ZONES[2]),
    )
    posed = problem(pending=pods, catalog=(instance_type(cpu=2),))
    plan = solved(posed, paying(1.0))
    assert (len(plan.new_nodes), set(homes(plan, posed).values())) == (1, {ZONES[2]})


def test_of_two_node_preferences_the_one_that_may_be_paid_for_is_kept() -> None:
    """The heavier one asks for a type that costs fifty times as much."""
    catalog = (instance_type(cpu=2, price=0.1), instance_type(name="p4d.24xlarge", cpu=2, price=5.0))
    wishes = preferring(keys.INSTANCE_TYPE, "p4d.24xlarge", weight=100) + preferring(keys.ZONE, ZONES[1])
    (new,) = planned(pending_pod(preferred_node_affinity=wishes), premium=2.0, catalog=catalog).new_nodes
    assert (new.offering.instance_type, new.offering.zone) == ("m5.large", ZONES[1])


@pytest.mark.parametrize(("premium", "pool"), [(None, "plain"), (4.1, "plain"), (3.9, "soft")])
def test_a_taint_to_be_avoided_is_avoided_for_what_it_may_cost(premium: float | None, pool: str) -> None:
    """PreferNoSchedule on a Provisioner whose nodes cost a fifth."""
    soft = provisioner(name="soft", taints=[Taint("a", "", "PreferNoSchedule")])
    catalog = {"soft": (instance_type(price=0.1),), "plain": (instance_type(name="m5.metal", price=0.5),)}
    plan = planned(
        pending_pod(requests={"cpu": "2"}),
        premium=premium,
        provisioners=[soft, provisioner(name="plain")],
        catalog=catalog,
    )
    assert plan.new_nodes[0].provisioner == pool


def test_a_preference_that_only_an_existing_node_meets_is_free() -> None:
    existing = state_node(node=node(name="n", labels={"disk": "ssd"}))
    pod = pending_pod(preferred_node_affinity=preferring("disk", "ssd"))
    plan = planned(pod, premium=0.0, nodes=[state_node(node=node(name="a")), existing])
    assert [placement.node for placement in plan.existing] == ["n"]


def test_the_controllers_default_is_the_solvers() -> None:
    assert Settings(cluster_name="c").preference_premium == SolveOptions().preference_premium


@pytest.mark.parametrize(
    ("fields", "told", "premium"),
    [
        ({"preferred_pod_anti_affinity": APART}, f"pod anti-affinity over {keys.HOSTNAME}", 7.0),
        (
            {"preferred_node_affinity": preferring(keys.CAPACITY_TYPE, keys.ON_DEMAND)},
            f"node affinity to {keys.CAPACITY_TYPE} In [on-demand]",
            1.5,
        ),
        ({"topology_spread": (spread(keys.HOSTNAME, soft=True),)}, f"topology spread over {keys.HOSTNAME}", 7.0),
    ],
    ids=["apart", "node affinity", "spread"],
)
def test_a_preference_that_is_given_up_for_its_price_is_on_the_plan_with_what_it_costs(
    fields: dict[str, Any], told: str, premium: float
) -> None:
    pods = pending_pods(8, labels=WEB, requests={"cpu": "250m"}, **fields)
    (dear,) = planned(*pods, premium=1.0).too_dear
    assert dear.preference == told
    assert dear.premium == pytest.approx(premium)
    assert set(dear.pods) == {pod.key for pod in pods}
    assert planned(*pods, premium=None).too_dear == ()
    assert f"costs {premium:.0%} more, and preferences may cost 100% (preferencePremium)" in dear.said(1.0)


def test_taints_to_be_avoided_that_cannot_be_at_the_price_are_on_the_plan() -> None:
    dear_pool = provisioner(name="dear", requirements=[requirement(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND)])
    soft = provisioner(name="soft", taints=[Taint("soft", "", "PreferNoSchedule")])
    plan = planned(pending_pod(requests={"cpu": "1"}), premium=1.0, provisioners=[dear_pool, soft])
    assert [dear.preference for dear in plan.too_dear] == ["nodes without PreferNoSchedule taints"]


def test_pods_that_nodes_there_are_take_are_told_of_no_price() -> None:
    """There they may have had their wish, and nothing was paid for at all."""
    pods = pending_pods(2, labels=WEB, requests={"cpu": "250m"}, preferred_pod_anti_affinity=APART)
    assert planned(*pods, premium=0.0, nodes=[state_node(node=node(name="here"))]).too_dear == ()
