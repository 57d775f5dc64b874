"""Small batches: packings by fill patterns, against all packings there are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.provisioning import SolveOptions
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import first_packing
from controller.core.provisioning.optimize.patterns import PatternPacking, few_states, pack_by_patterns
from controller.core.provisioning.optimize.refine import STRATEGIES
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.packing_style import PackingStyle
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.provisioning.solver.solver import Solver
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


def packed(posed: SchedulingProblem) -> tuple[BinPackingProblem, PatternPacking]:
    """The packing by patterns: everything in it once, nothing beyond any bin's capacity or any limit."""
    bins = compiled(posed)
    found = pack_by_patterns(bins, first_packing(bins), STRATEGIES, WorkBudget(10.0))
    held = np.sum([one.units for one in found.packing.bins], axis=0) + found.packing.left
    assert held.tolist() == bins.counts.tolist()
    for one in found.packing.bins:
        capacity, allowed = (bins.room, bins.open_to) if one.existing else (bins.capacity, bins.allowed)
        assert (one.units @ bins.requests <= capacity[one.number] + 1e-6).all()
        assert allowed[one.number][one.units > 0].all()
    existing = [one.number for one in found.packing.bins if one.existing]
    assert len(existing) == len(set(existing))
    for limit in bins.limits:
        assert sum(float(limit.takes[one.number]) for one in found.packing.bins if not one.existing) <= limit.left
    return bins, found


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
    """The cheapest packing onto new nodes, by looking at every partition of the units."""
    units = [item for item, count in enumerate(bins.counts.tolist()) for _ in range(int(count))]
    costs: dict[tuple[int, ...], float] = {}

    def cost(members: list[int]) -> float:
        kinds = tuple(sorted(units[member] for member in members))
        if kinds not in costs:
            asked = bins.requests[list(kinds)].sum(axis=0)
            fits = (bins.capacity >= asked - 1e-9).all(axis=1) & bins.allowed[:, list(kinds)].all(axis=1)
            costs[kinds] = float(np.where(fits, bins.price, np.inf).min())
        return costs[kinds]

    return min(sum(map(cost, parted)) for parted in partitions(list(range(len(units)))))


@pytest.mark.parametrize("seed", range(12))
def test_a_small_batch_costs_what_the_cheapest_of_all_its_packings_costs(seed: int) -> None:
    chance = random.Random(seed)
    pods: list[Pod] = []
    for _ in range(4):
        amounts = {"cpu": chance.choice(("300m", "700m", "1", "1500m")), "memory": chance.choice(("1Gi", "3Gi", "7Gi"))}
        only = {keys.INSTANCE_CPU: "4"} if chance.random() < 0.2 else {}
        pods += pending_pods(chance.randint(1, 2), requests=amounts, node_selector=only)
    bins, found = packed(problem(pending=pods, catalog=TYPES))
    assert found.optimal
    assert found.packing.cost(bins) == pytest.approx(least_cost(bins))


def test_units_kept_apart_over_hosts_are_packed_optimally_too() -> None:
    apart = pending_pods(3, requests={"cpu": "500m"}, required_pod_anti_affinity=(near(keys.HOSTNAME),), labels=WEB)
    skewed = pending_pods(4, requests={"cpu": "700m"}, topology_spread=(spread(keys.HOSTNAME, skew=2),), labels=WEB)
    bins, found = packed(problem(pending=[*apart, *skewed], catalog=TYPES))
    assert found.optimal
    assert found.packing.cost(bins) == pytest.approx(least_cost(bins))


def test_room_on_existing_nodes_is_free_and_used_once() -> None:
    """Two equal nodes take two of the five pods each; the last one gets the cheapest new node."""
    nodes = [
        state_node(node=node(name=f"old-{n}", allocatable={"cpu": "2", "memory": "8Gi", "pods": "9"})) for n in range(2)
    ]
    bins, found = packed(problem(pending=pending_pods(5, requests={"cpu": "1"}), nodes=nodes, catalog=TYPES))
    assert found.optimal
    assert sorted(one.units.sum() for one in found.packing.bins if one.existing) == [2, 2]
    assert found.packing.cost(bins) == pytest.approx(0.085 + SolveOptions().node_cost_per_hour)


def test_limits_are_kept_and_as_many_units_placed_as_they_allow() -> None:
    """Eight cpus may be launched: one node of eight holds five pods of 1.5 cpus, smaller nodes would hold four."""
    posed = problem(
        pending=pending_pods(6, requests={"cpu": "1500m"}),
        provisioners=[provisioner(limits={"cpu": "8"})],
        catalog=TYPES,
    )
    _, found = packed(posed)
    assert found.optimal
    assert not found.packing.left.any()
    assert len(solved(posed).unplaced) == 1


def varied(count: int) -> SchedulingProblem:
    """Pods that all differ: too many ways to choose among them to enumerate."""
    return problem(
        pending=[
            pending_pod(requests={"cpu": f"{200 + 130 * (n % 11)}m", "memory": f"{300 + 290 * (n % 13)}Mi"})
            for n in range(count)
        ],
        catalog=TYPES,
    )


def test_where_patterns_are_too_many_they_are_generated() -> None:
    bins, found = packed(varied(40))
    assert not few_states(bins)
    assert not found.optimal
    assert found.packing.cost(bins) < first_packing(bins).cost(bins)


@pytest.mark.parametrize("count", [8, 40])
def test_the_same_problem_gives_the_same_packing(count: int) -> None:
    one, two = (packed(varied(count))[1] for _ in range(2))
    assert [(b.number, b.units.tolist()) for b in one.packing.bins] == [
        (b.number, b.units.tolist()) for b in two.packing.bins
    ]
