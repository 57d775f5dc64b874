"""Refinement of few units is optimal: against all packings there are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.provisioning import SolveOptions
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Packing, first_packing
from controller.core.provisioning.optimize.exact_packing import few_states
from controller.core.provisioning.optimize.refine import cheapest
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.provisioning.solver.solver import Solver
from controller.core.provisioning.topology.allocation import PackingStyle
from controller.core.state.snapshot import StateNode
from tests.core.provisioning.plans import WEB, near, solved, spread
from tests.factories import instance_type, node, pending_pod, pending_pods, problem, provisioner, state_node

TYPES = [
    instance_type(name=name, cpu=cpu, memory=memory, price=price, capacity_types=(keys.ON_DEMAND,))
    for name, cpu, memory, price in (
        ("c5.large", 2, "4Gi", 0.085),
        ("m5.large", 2, "8Gi", 0.096),
        ("c5.xlarge", 4, "8Gi", 0.17),
        ("r5.xlarge", 4, "32Gi", 0.252),
        ("m5.2xlarge", 8, "32Gi", 0.36),
    )
]


def compiled(posed: SchedulingProblem) -> BinPackingProblem:
    """The bin packing problem that refinement gets of a first plan."""
    rounds = Solver(compile_problem(posed, SolveOptions())).attempt(PackingStyle())
    return BinPackingProblem(rounds.packer, [])


def packed(posed: SchedulingProblem) -> tuple[BinPackingProblem, Packing]:
    """The refined packing: everything in it once, nothing beyond any bin's capacity or any limit."""
    bins = compiled(posed)
    packing = cheapest(bins, WorkBudget(1.0))
    held = np.sum([one.units for one in packing.bins], axis=0) + packing.left
    assert held.tolist() == bins.counts.tolist()
    for one in packing.bins:
        capacity, allowed = (bins.room, bins.open_to) if one.existing else (bins.capacity, bins.allowed)
        assert (one.units @ bins.requests <= capacity[one.number] + 1e-6).all()
        assert allowed[one.number][one.units > 0].all()
    existing = [one.number for one in packing.bins if one.existing]
    assert len(existing) == len(set(existing))
    for limit in bins.limits:
        assert sum(float(limit.takes[one.number]) for one in packing.bins if not one.existing) <= limit.left
    return bins, packing


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    """All ways to part these into sets."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            remaining = [item for item in rest if item not in others]
            for parted in partitions(remaining):
                yield [[first, *others], *parted]


def least_cost(bins: BinPackingProblem) -> float:
    """The cheapest packing, by looking at every choice of units for each existing node and every partition of the rest.

    No unit is left out: the problems here have a bin for every one.
    """
    units = [item for item, count in enumerate(bins.counts.tolist()) for _ in range(int(count))]
    rows = np.flatnonzero(bins.open_to.any(axis=1)).tolist()
    costs: dict[tuple[int, ...], float] = {}

    def cost(members: list[int]) -> float:
        kinds = tuple(sorted(units[member] for member in members))
        if kinds not in costs:
            asked = bins.requests[list(kinds)].sum(axis=0)
            fits = (bins.capacity >= asked - 1e-9).all(axis=1) & bins.allowed[:, list(kinds)].all(axis=1)
            costs[kinds] = float(np.where(fits, bins.price, np.inf).min())
        return costs[kinds]

    def held(row: int, members: list[int]) -> bool:
        kinds = [units[member] for member in members]
        asked = bins.requests[kinds].sum(axis=0)
        return bool((bins.room[row] >= asked - 1e-9).all() and bins.open_to[row][kinds].all())

    def least(members: list[int], rows: list[int]) -> float:
        if not rows:
            return min(sum(map(cost, parted)) for parted in partitions(members))
        row, *others = rows
        chosen = itertools.chain.from_iterable(itertools.combinations(members, n) for n in range(len(members) + 1))
        return min(
            least([member for member in members if member not in taken], others)
            for taken in chosen
            if held(row, list(taken))
        )

    return least(list(range(len(units))), rows)


@pytest.mark.parametrize("seed", range(12))
def test_a_small_batch_costs_what_the_cheapest_of_all_its_packings_costs(seed: int) -> None:
    chance = random.Random(seed)
    pods: list[Pod] = []
    for _ in range(4):
        amounts = {"cpu": chance.choice(("300m", "700m", "1", "1500m")), "memory": chance.choice(("1Gi", "3Gi", "7Gi"))}
        only = {keys.INSTANCE_CPU: "4"} if chance.random() < 0.2 else {}
        pods += pending_pods(chance.randint(1, 2), requests=amounts, node_selector=only)
    bins, packing = packed(problem(pending=pods, catalog=TYPES))
    assert packing.cost(bins) == pytest.approx(least_cost(bins))


def test_units_kept_apart_over_hosts_are_packed_optimally_too() -> None:
    apart = pending_pods(3, requests={"cpu": "500m"}, required_pod_anti_affinity=(near(keys.HOSTNAME),), labels=WEB)
    skewed = pending_pods(4, requests={"cpu": "700m"}, topology_spread=(spread(keys.HOSTNAME, skew=2),), labels=WEB)
    bins, packing = packed(problem(pending=[*apart, *skewed], catalog=TYPES))
    assert packing.cost(bins) == pytest.approx(least_cost(bins))


def test_room_on_existing_nodes_is_free_and_used_once() -> None:
    """Two equal nodes take two of the five pods each; the last one gets the cheapest new node."""
    nodes = [
        state_node(node=node(name=f"old-{n}", allocatable={"cpu": "2", "memory": "8Gi", "pods": "9"})) for n in range(2)
    ]
    bins, packing = packed(problem(pending=pending_pods(5, requests={"cpu": "1"}), nodes=nodes, catalog=TYPES))
    assert sorted(one.units.sum() for one in packing.bins if one.existing) == [2, 2]
    assert packing.cost(bins) == pytest.approx(0.085 + SolveOptions().node_cost_per_hour)


@pytest.mark.parametrize("seed", range(10))
def test_existing_nodes_that_differ_in_room_and_labels_are_used_as_the_cheapest_packing_uses_them(seed: int) -> None:
    """Two existing nodes, of which some pods may go to one only; the least cost comes from all choices there are."""
    chance = random.Random(seed)
    nodes = [
        state_node(
            node=node(
                name=f"old-{number}",
                labels={"disk": chance.choice(("ssd", "hdd"))},
                allocatable={"cpu": chance.choice(("900m", "1600m", "2100m")), "memory": "4Gi", "pods": "9"},
            )
        )
        for number in range(2)
    ]
    free = (pending_pod(requests={"cpu": chance.choice(("300m", "800m", "1300m")), "memory": "1Gi"}) for _ in range(4))
    pods = [*free, *pending_pods(2, requests={"cpu": "700m"}, node_selector={"disk": "ssd"})]
    provisioners = [provisioner(labels={"disk": "ssd"})]
    bins, packing = packed(problem(pending=pods, nodes=nodes, provisioners=provisioners, catalog=TYPES))
    assert packing.cost(bins) == pytest.approx(least_cost(bins))


@pytest.mark.parametrize("seed", range(6))
def test_a_larger_cheaper_bin_type_that_pods_do_not_select_does_not_stand_in_for_a_smaller_one(seed: int) -> None:
    chance = random.Random(seed)
    cheap = instance_type(name="m5.4xlarge", cpu=16, memory="64Gi", price=0.08, capacity_types=(keys.ON_DEMAND,))
    selectors: tuple[dict[str, str], ...] = ({}, {keys.INSTANCE_CPU: "4"}, {keys.INSTANCE_CPU: "8"})
    pods = [
        pending_pod(
            requests={"cpu": chance.choice(("600m", "1100m", "1700m")), "memory": chance.choice(("1Gi", "5Gi"))},
            node_selector=chance.choice(selectors),
        )
        for _ in range(7)
    ]
    bins, packing = packed(problem(pending=pods, catalog=[*TYPES, cheap]))
    assert packing.cost(bins) == pytest.approx(least_cost(bins))


def test_limits_are_kept_and_as_many_units_placed_as_they_allow() -> None:
    """Eight cpus may be launched: one node of eight holds five pods of 1.5 cpus, smaller nodes would hold four."""
    posed = problem(
        pending=pending_pods(6, requests={"cpu": "1500m"}),
        provisioners=[provisioner(limits={"cpu": "8"})],
        catalog=TYPES,
    )
    _, packing = packed(posed)
    assert not packing.left.any()
    assert len(solved(posed).unplaced) == 1


def varied(count: int, nodes: Sequence[StateNode] = ()) -> SchedulingProblem:
    """Pods that all differ: too many ways to choose among them to enumerate."""
    return problem(
        nodes=nodes,
        pending=[
            pending_pod(requests={"cpu": f"{200 + 130 * (n % 11)}m", "memory": f"{300 + 290 * (n % 13)}Mi"})
            for n in range(count)
        ],
        catalog=TYPES,
    )


def test_more_units_are_built_and_searched_locally() -> None:
    bins, packing = packed(varied(35))
    assert not few_states(bins)
    assert packing.cost(bins) < first_packing(bins).cost(bins)


def test_each_of_several_equal_existing_nodes_is_used_once() -> None:
    nodes = [
        state_node(node=node(name=f"old-{n}", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"})) for n in range(3)
    ]
    bins, packing = packed(varied(40, nodes))
    assert not few_states(bins)
    assert sum(one.existing for one in packing.bins) == 3


@pytest.mark.parametrize("count", [8, 40])
def test_the_same_problem_gives_the_same_packing(count: int) -> None:
    one, two = (packed(varied(count))[1] for _ in range(2))
    assert [(b.number, b.units.tolist()) for b in one.bins] == [(b.number, b.units.tolist()) for b in two.bins]
