"""No spot pool, family or zone carries more than its share of a workload's replicas, where spread costs little."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import OwnerReference, Pod, SelectorRequirement
from controller.core.cloud import InstanceType
from controller.core.provisioning import SchedulingPlan, SolveOptions
from controller.core.provisioning.flexibility import Flexibility
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.plan import PlannedNode, SchedulingProblem
from controller.core.provisioning.solver.pool_sharing import MOST_PREMIUM, domains_of, share_pools
from controller.settings import Settings
from tests.core.provisioning.plans import FIRST, WEB, near, solved
from tests.factories import ZONES, instance_type, node, pending_pods, problem, provisioner, running_pod, state_node

APART = (near(keys.HOSTNAME),)
OWNER = OwnerReference("apps/v1", "ReplicaSet", "web", "uid-web")
SPOT = (keys.SPOT,)


def alike(count: int, capacity_types: tuple[str, ...] = SPOT) -> list[InstanceType]:
    """Instance types of one size and price, in three zones."""
    return [instance_type(name=f"f{n}.large", cpu=2, price=0.1, capacity_types=capacity_types) for n in range(count)]


def replicas(count: int) -> tuple[Pod, ...]:
    """A ReplicaSet's pods, each on a host of its own."""
    return pending_pods(count, requests={"cpu": "1"}, required_pod_anti_affinity=APART, owner=OWNER, labels=WEB)


def carried(plan: SchedulingPlan) -> Counter[tuple[str, str]]:
    """Replicas that each pool, family and zone would carry if EC2 chose it for every node that may be of it."""
    replicas_by_domain: Counter[tuple[str, str]] = Counter()
    for planned in plan.new_nodes:
        domains = {domain for pool in asked(planned) for domain in domains_of(*pool)}
        replicas_by_domain.update({domain: len(planned.pods) for domain in domains})
    return replicas_by_domain


def asked(planned: PlannedNode) -> set[tuple[str, str]]:
    return {(o.instance_type, o.zone) for o in planned.named}


@pytest.mark.parametrize("count", [4, 5, 8, 13])
def test_whatever_ec2_picks_no_pool_family_or_zone_carries_more_than_its_share(count: int) -> None:
    plan = solved(problem(pending=replicas(count), catalog=alike(12)), SolveOptions(spot_pool_share=0.5))
    assert len(plan.new_nodes) == count
    assert max(carried(plan).values()) <= count / 2
    assert min(len(asked(planned)) for planned in plan.new_nodes) >= SolveOptions().flexibility.spot_offerings


def test_a_share_of_one_leaves_every_node_all_offerings() -> None:
    plan = solved(problem(pending=replicas(8), catalog=alike(8)), SolveOptions(spot_pool_share=1.0))
    assert set(carried(plan).values()) == {8}


def test_the_setting_reaches_the_plan() -> None:
    """`aws.spotPoolShare`, by way of the options that plans are made with."""
    posed = problem(pending=replicas(8), catalog=alike(12))
    halves, whole = (
        solved(posed, Settings.parse({"aws.clusterName": "c", "aws.spotPoolShare": share}).solve_options())
        for share in ("0.5", "1")
    )
    assert (max(carried(halves).values()), max(carried(whole).values())) == (4, 8)


def test_what_spreading_costs_is_told_apart_from_what_the_packing_lacks_to_the_optimum() -> None:
    """One family is a little cheaper than all others: half of the nodes leave it, though the packing stays optimal."""
    cheap, *others = alike(12)
    dear = [replace(each, offerings=tuple(replace(o, price=0.041) for o in each.offerings)) for each in others]
    posed = problem(pending=replicas(4), catalog=[cheap, *dear])
    plans = [solved(posed, SolveOptions(spot_pool_share=share)) for share in (0.5, 1.0)]
    spread, free = (plan.proof for plan in plans)
    assert spread is not None
    assert free is not None
    assert (spread.cost, spread.least, spread.optimal) == (free.cost, free.least, True)
    assert spread.cost + spread.spread == pytest.approx(plans[0].cost_per_hour)
    assert free.spread == 0
    assert spread.spread == pytest.approx(0.002)  # two nodes, $0.001 each
    assert str(spread) == "optimal, plus $0.0020/h to spread nodes over spot pools and zones"
    assert str(free) == "optimal"


def test_replicas_that_run_already_count() -> None:
    """Six of eight replicas stand in the cheapest pool: the two that come ask for others."""
    here = node(
        name="here", labels={keys.INSTANCE_TYPE: "f0.large", keys.ZONE: ZONES[0], keys.CAPACITY_TYPE: keys.SPOT}
    )
    running = [running_pod(node="here", requests={"cpu": "10m"}, owner=OWNER, labels=WEB) for _ in range(6)]
    posed = problem(pending=replicas(2), nodes=[state_node(node=here, pods=running)], catalog=alike(8))
    plan = solved(posed, SolveOptions(spot_pool_share=0.5))
    assert len(plan.new_nodes) == 2
    assert ("f0.large", ZONES[0]) not in carried(plan)


def test_a_node_that_chooses_anew_takes_no_other_workload_over_its_share() -> None:
    """Zone a has both nodes of one workload. Elsewhere, the node that may leave would take a second workload over its
    share, with which it is within it."""
    kinds = [
        instance_type(name=f"{name}.large", cpu=2, price=price, capacity_types=SPOT, zones=(zone,))
        for name, price, zone in (("f0", 0.1, ZONES[0]), ("f1", 0.1001, ZONES[1]))
    ]
    small = OwnerReference("apps/v1", "ReplicaSet", "small", "uid-small")
    free, tied = ({keys.PROVISIONER_NAME: name} for name in ("free", "tied"))
    pending = (
        *pending_pods(2, requests={"cpu": "800m"}, owner=OWNER, node_selector=free),
        *pending_pods(1, requests={"cpu": "100m"}, owner=small, node_selector=free),
        *pending_pods(2, requests={"cpu": "800m"}, owner=OWNER, node_selector=tied),
    )
    in_zone = SelectorRequirement(keys.ZONE, "In", (ZONES[0],))
    pools = [provisioner(name="free"), provisioner(name="tied", requirements=[in_zone])]
    own = {keys.INSTANCE_TYPE: "f1.large", keys.ZONE: ZONES[1], keys.CAPACITY_TYPE: keys.SPOT}
    there = state_node(node=node(name="there", labels=own), pods=[running_pod(node="there", owner=small)])
    posed = problem(provisioners=pools, pending=pending, nodes=[there], catalog=kinds)
    unshared = replace(FIRST, spot_pool_share=1.0)
    plan = share_pools(
        solved(posed, unshared), posed, replace(unshared, spot_pool_share=0.5), SnapshotIndex(posed.snapshot)
    )
    assert [asked(planned) for planned in plan.new_nodes] == [{("f0.large", ZONES[0])}] * 2


def test_where_one_family_fits_its_zones_share_the_replicas() -> None:
    """What cannot be spread, the family, does not keep the rest from being spread."""
    plan = solved(problem(pending=replicas(4), catalog=alike(1)), SolveOptions(spot_pool_share=0.5))
    carries = carried(plan)
    assert carries.pop(("f0", "")) == 4
    assert max(carries.values()) == 2


def test_spread_that_costs_money_is_not_bought() -> None:
    """One pool is far cheaper than all others: every node keeps it, whatever its share."""
    cheap = instance_type(name="z.large", cpu=2, price=0.05, capacity_types=SPOT, zones=ZONES[:1])
    kinds = [cheap, *alike(8)]
    plan = solved(problem(pending=replicas(8), catalog=kinds), SolveOptions(spot_pool_share=0.5))
    assert {planned.offering.instance_type for planned in plan.new_nodes} == {"z.large"}


@pytest.mark.parametrize(("dearer", "fullest"), [(1.01, 2), (1.1, 3), (1.14, 4)])
def test_a_family_is_left_for_a_dearer_one_as_far_as_three_percent_of_all_nodes_go(dearer: float, fullest: int) -> None:
    """Of four nodes at $1, 12 cents buy one move for 10 cents, none for 14."""
    kinds = [
        instance_type(name=f"f{n}.large", cpu=2, price=0.1 * price, capacity_types=SPOT)
        for n, price in enumerate((1.0, dearer))
    ]
    plan = solved(problem(pending=replicas(4), catalog=kinds), SolveOptions(spot_pool_share=0.5))
    assert carried(plan)["f0", ""] == fullest


def test_on_demand_is_not_reclaimed_and_needs_no_spread() -> None:
    kinds = alike(8, (keys.ON_DEMAND,))
    one, all_of_it = (
        solved(problem(pending=replicas(4), catalog=kinds), SolveOptions(spot_pool_share=share)) for share in (0.5, 1.0)
    )
    assert [n.alternatives for n in one.new_nodes] == [n.alternatives for n in all_of_it.new_nodes]


def test_pods_without_an_owner_do_not_count_as_a_workload() -> None:
    pods = pending_pods(4, requests={"cpu": "1"}, required_pod_anti_affinity=APART, labels=WEB)
    plan = solved(problem(pending=pods, catalog=alike(8)), SolveOptions(spot_pool_share=0.5))
    assert set(carried(plan).values()) == {4}


def several_workloads(chance: random.Random) -> SchedulingProblem:
    """ReplicaSets whose pods share nodes, and types whose spot prices are close to each other or not."""
    pods: list[Pod] = []
    for number in range(chance.randint(1, 4)):
        owner = OwnerReference("apps/v1", "ReplicaSet", f"w{number}", f"uid-{number}")
        cpu = chance.choice(["600m", "900m", "1500m", "1900m"])
        pods += pending_pods(
            chance.choice([1, 2, 5, 16]),
            requests={"cpu": cpu},
            owner=owner if number < 3 else None,
            node_selector=chance.choice([{}, {keys.ZONE: ZONES[0]}]),
        )
    prices = (0.1, 0.1, 0.101, 0.11)
    types = [
        instance_type(
            name=f"f{n}.large",
            cpu=chance.choice([2, 2, 2, 4]),
            price=chance.choice(prices),
            capacity_types=SPOT,
            zones=ZONES[:2],
        )
        for n in range(chance.randint(4, 16))
    ]
    return problem(pending=pods, catalog=types)


def beyond(plan: SchedulingPlan, share: float) -> int:
    """Replicas beyond the share of their workload that some pool, family or zone may carry, summed."""
    total: Counter[str] = Counter()
    load: Counter[tuple[str, tuple[str, str]]] = Counter()
    for each in plan.new_nodes:
        total.update(workloads(each.pods))
    most = {name: max(1, int(share * count)) for name, count in total.items() if count > 1}
    for each in plan.new_nodes:
        domains = {domain for pool in asked(each) for domain in domains_of(*pool)}
        own = {name: count for name, count in workloads(each.pods).items() if count <= most.get(name, 0)}
        load.update({(name, domain): count for name, count in own.items() for domain in domains})
    return sum(max(0, count - most[name]) for (name, _), count in load.items())


@pytest.mark.parametrize("seed", range(25))
def test_spreading_keeps_to_its_budget_and_keeps_all_offerings(seed: int) -> None:
    posed = several_workloads(random.Random(seed))
    unshared = replace(FIRST, spot_pool_share=1.0, flexibility=Flexibility(spot_offerings=2))
    free = solved(posed, unshared)
    plan = share_pools(free, posed, replace(unshared, spot_pool_share=0.5), SnapshotIndex(posed.snapshot))
    assert plan.expected_price_per_hour <= free.expected_price_per_hour * (1 + MOST_PREMIUM) + 1e-9
    assert beyond(plan, 0.5) <= beyond(free, 0.5)
    for before, after in zip(free.new_nodes, plan.new_nodes, strict=True):
        assert after.pods == before.pods
        assert {after.offering, *after.alternatives} == {before.offering, *before.alternatives}, "a second choice stays"
        assert set(after.first_choice) <= {after.offering, *after.alternatives}
        assert after.offering == min(after.named)
