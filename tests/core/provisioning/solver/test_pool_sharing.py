"""No spot pool carries more than its share of a workload's replicas, where spread is free."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import OwnerReference, Pod
from controller.core.cloud import InstanceType, PricedOffering
from controller.core.provisioning import SchedulingPlan, SolveOptions
from controller.core.provisioning.flexibility import Flexibility
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.plan import PlannedNode, SchedulingProblem
from controller.core.provisioning.solver.pool_sharing import FREE_PREMIUM
from controller.settings import Settings
from tests.core.provisioning.plans import FIRST, WEB, near, solved
from tests.factories import ZONES, instance_type, node, pending_pods, problem, running_pod, state_node

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
    """Replicas that each spot pool would carry if EC2 chose it for every node that requests it."""
    replicas_by_pool: Counter[tuple[str, str]] = Counter()
    for planned in plan.new_nodes:
        replicas_by_pool.update({pool: len(planned.pods) for pool in asked(planned)})
    return replicas_by_pool


def asked(planned: PlannedNode) -> set[tuple[str, str]]:
    spot = [o for o in (planned.offering, *planned.alternatives) if o.capacity_type == keys.SPOT]
    return {(o.instance_type, o.zone) for o in planned.flexibility.named(spot)}


def test_whatever_ec2_picks_no_pool_carries_more_than_its_share() -> None:
    plan = solved(problem(pending=replicas(8), catalog=alike(8)), SolveOptions(spot_pool_share=0.5))
    assert len(plan.new_nodes) == 8
    assert max(carried(plan).values()) == 4
    assert min(len(asked(planned)) for planned in plan.new_nodes) >= SolveOptions().flexibility.spot_offerings


def test_a_share_of_one_leaves_every_node_all_pools() -> None:
    plan = solved(problem(pending=replicas(8), catalog=alike(8)), SolveOptions(spot_pool_share=1.0))
    assert set(carried(plan).values()) == {8}


def test_the_setting_reaches_the_plan() -> None:
    """`aws.spotPoolShare`, by way of the options that plans are made with."""
    posed = problem(pending=replicas(8), catalog=alike(8))
    halves, whole = (
        solved(posed, Settings.parse({"aws.clusterName": "c", "aws.spotPoolShare": share}).solve_options())
        for share in ("0.5", "1")
    )
    assert (max(carried(halves).values()), max(carried(whole).values())) == (4, 8)


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


def test_a_node_that_fits_few_pools_keeps_them_all() -> None:
    """Flexibility comes before spread: a narrow choice risks that no pool has capacity."""
    plan = solved(problem(pending=replicas(4), catalog=alike(2)), SolveOptions(spot_pool_share=0.5))
    assert set(carried(plan).values()) == {4}


def test_spread_that_costs_money_is_not_bought() -> None:
    """One pool is 10 % cheaper than all others: every node keeps it, whatever its share."""
    cheap = instance_type(name="z.large", cpu=2, price=0.09, capacity_types=SPOT, zones=ZONES[:1])
    kinds = [cheap, *alike(8)]
    plan = solved(problem(pending=replicas(8), catalog=kinds), SolveOptions(spot_pool_share=0.5))
    assert {planned.offering.instance_type for planned in plan.new_nodes} == {"z.large"}


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


def shared_one_by_one(nodes: Sequence[PlannedNode], options: SolveOptions) -> list[list[PricedOffering]]:
    """The rule without any cache, node by node: the offerings that each keeps."""
    total: Counter[str] = Counter()
    for planned in nodes:
        total.update(workloads(planned.pods))
    load: Counter[tuple[str, PricedOffering]] = Counter()
    kept_offerings = []
    for planned in nodes:
        every = [planned.offering, *planned.alternatives]
        asked = sorted(planned.flexibility.named(every))
        own = {w: n for w, n in workloads(planned.pods).items() if total[w] >= 2}
        most = {w: math.ceil(options.spot_pool_share * total[w]) for w in own}
        own = {w: n for w, n in own.items() if n <= most[w]}
        fine = [o for o in asked if all(load[w, o] + n <= most[w] for w, n in own.items())]
        many = int(options.spot_pool_share * len(asked))
        kept = asked
        if own and min(many, len(fine)) >= planned.flexibility.spot_offerings:
            some = fine[:: max(1, len(fine) // many)][:many]
            kept = some if some[0].price <= planned.offering.price * (1 + FREE_PREMIUM) else asked
        load.update({(w, o): n for w, n in own.items() for o in kept})
        kept_offerings.append(sorted([*kept, *(o for o in every if o not in asked)]))
    return kept_offerings


@pytest.mark.parametrize("seed", range(25))
def test_equal_nodes_share_a_selection_that_is_what_each_would_get_by_itself(seed: int) -> None:
    posed = several_workloads(random.Random(seed))
    unshared = replace(FIRST, spot_pool_share=1.0, flexibility=Flexibility(spot_offerings=2))
    before = solved(posed, unshared).new_nodes
    shared = replace(unshared, spot_pool_share=0.5)
    nodes = solved(posed, shared).new_nodes
    assert [[each.offering, *each.alternatives] for each in nodes] == shared_one_by_one(before, shared)
