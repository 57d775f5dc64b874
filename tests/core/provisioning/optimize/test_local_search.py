"""Local search over bins: cheaper, whole and within the rules; and packings where hosts are what is scarce."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from controller.core.api import labels as keys
from controller.core.provisioning import SolveOptions
from controller.core.provisioning.bound.lower_bound import bound
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Bin, Builder, Pace, Packing, first_packing
from controller.core.provisioning.optimize.local_search import Search
from controller.core.provisioning.optimize.refine import STRATEGIES, cheapest
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.provisioning.solver.solver import Solver
from controller.core.provisioning.topology.allocation import PackingStyle
from tests.core.provisioning.plans import WEB, near, solved
from tests.factories import instance_type, node, pending_pod, pending_pods, problem, provisioner, state_node

KINDS = [
    instance_type(name=f"c5.{size}", cpu=cpu, memory=f"{2 * cpu}Gi", price=price, capacity_types=(keys.ON_DEMAND,))
    for size, cpu, price in (("large", 2, 0.10), ("xlarge", 4, 0.18), ("2xlarge", 8, 0.32))
]


def bin_packing_of(posed: SchedulingProblem) -> BinPackingProblem:
    """The units that a first plan placed."""
    rounds = Solver(compile_problem(posed, SolveOptions())).attempt(PackingStyle())
    return BinPackingProblem(rounds.packer, [])


def scattered(bin_packing: BinPackingProblem, cheapest_type: str) -> Packing:
    """Each unit in a node of its own."""
    types = [bin_packing.catalog.types[option].name for option in bin_packing.bin_types.option.tolist()]
    number = types.index(cheapest_type)
    bins = []
    for item_type, count in enumerate(bin_packing.counts.tolist()):
        units = np.zeros(len(bin_packing.counts))
        units[item_type] = 1.0
        bins += [Bin(False, number, units.copy()) for _ in range(int(count))]
    return Packing(bins, np.zeros(len(bin_packing.counts)))


def searched(bin_packing: BinPackingProblem, start: Packing, seconds: float = 5.0) -> Packing:
    """The search's packing; it holds what the start held, within every bin's room."""
    better = Search(bin_packing, start, STRATEGIES, WorkBudget(seconds)).run()
    held = np.sum([one.units for one in better.bins], axis=0) + better.left
    assert held.tolist() == (np.sum([one.units for one in start.bins], axis=0) + start.left).tolist()
    for one in better.bins:
        assert not one.existing
        assert (one.units @ bin_packing.requests <= bin_packing.capacity[one.number] + 1e-6).all()
        assert bin_packing.allowed[one.number][one.units > 0].all()
    return better


def test_nodes_that_hold_one_pod_each_are_merged() -> None:
    """Eight cpus on eight nodes of $0.10: one node of 8 cpus costs $0.32."""
    bin_packing = bin_packing_of(problem(pending=pending_pods(8, requests={"cpu": "1"}), catalog=KINDS))
    start = scattered(bin_packing, "c5.large")
    beside = SolveOptions().node_cost_per_hour
    assert start.cost(bin_packing) == pytest.approx(8 * (0.10 + beside))
    assert searched(bin_packing, start).cost(bin_packing) == pytest.approx(0.32 + beside)


def test_no_work_allowed_leaves_the_packing_as_it_was() -> None:
    bin_packing = bin_packing_of(problem(pending=pending_pods(8, requests={"cpu": "1"}), catalog=KINDS))
    start = scattered(bin_packing, "c5.large")
    assert searched(bin_packing, start, 0.0).cost(bin_packing) == start.cost(bin_packing)


def test_pods_kept_apart_are_not_merged() -> None:
    pods = pending_pods(4, requests={"cpu": "1"}, required_pod_anti_affinity=(near(keys.HOSTNAME),), labels=WEB)
    bin_packing = bin_packing_of(problem(pending=pods, catalog=KINDS))
    assert len(searched(bin_packing, scattered(bin_packing, "c5.large")).bins) == 4


def test_limits_hold_for_what_is_merged() -> None:
    """Four nodes of 2 cpus are all that the limit allows: the one of 8 cpus is no more, the two of 16 would be."""
    posed = problem(
        pending=pending_pods(4, requests={"cpu": "1"}),
        provisioners=[provisioner(limits={"cpu": "8"})],
        catalog=[*KINDS, instance_type(name="c5.9xlarge", cpu=36, price=0.01, capacity_types=(keys.ON_DEMAND,))],
    )
    bin_packing = bin_packing_of(posed)
    merged = searched(bin_packing, scattered(bin_packing, "c5.large"))
    (limit,) = bin_packing.limits
    assert sum(float(limit.takes[one.number]) for one in merged.bins) <= limit.left
    assert merged.cost(bin_packing) < 4 * 0.102


def test_the_same_start_and_work_give_the_same_packing() -> None:
    pods = [
        pending_pod(requests={"cpu": f"{200 + 130 * (n % 7)}m", "memory": f"{300 * (n % 5 + 1)}Mi"}) for n in range(40)
    ]
    bin_packing = bin_packing_of(problem(pending=pods, catalog=KINDS))
    one, two = (searched(bin_packing, scattered(bin_packing, "c5.large"), 0.05) for _ in range(2))
    assert [(b.number, b.units.tolist()) for b in one.bins] == [(b.number, b.units.tolist()) for b in two.bins]


def test_where_pods_need_a_node_each_the_others_are_shared_out_among_these() -> None:
    """Every size at the same price a cpu: large nodes for the free pods would leave nodes with one small pod each."""
    sizes = [
        instance_type(
            name=f"m5.{cpu}x", cpu=cpu, memory=f"{2 * cpu}Gi", price=0.3 * cpu, overhead={"cpu": "100m"}, pods=110
        )
        for cpu in range(1, 201)
    ]
    cpus, memories = ("100m", "250m", "500m", "1", "1500m"), ("100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")
    amounts = [{"cpu": cpu, "memory": memory} for cpu in cpus for memory in memories]
    apart: dict[str, Any] = {"required_pod_anti_affinity": (near(keys.HOSTNAME),), "labels": WEB}
    free = [pending_pod(requests=amounts[7 * n % 30]) for n in range(160)]
    alone = [pending_pod(requests=amounts[11 * n % 30], **apart) for n in range(40)]
    posed = problem(pending=[*free, *alone], catalog=sizes)
    assert solved(posed, SolveOptions(budget_seconds=1.0)).cost_per_hour <= 1.08 * bound(posed).cost_per_hour


def test_pods_that_want_cpu_and_pods_that_want_memory_are_paired_across_nodes() -> None:
    """Packed apart they fill eight nodes, each short of one resource; together they fill four: the search sees it."""
    kind = instance_type(name="m5.xlarge", cpu=4, memory="16Gi", price=0.2, capacity_types=(keys.ON_DEMAND,))
    pods = [
        *pending_pods(4, requests={"cpu": "3", "memory": "1Gi"}),
        *pending_pods(4, requests={"cpu": "500m", "memory": "13Gi"}),
    ]
    bin_packing = bin_packing_of(problem(pending=pods, catalog=[kind]))
    assert len(searched(bin_packing, scattered(bin_packing, "m5.xlarge")).bins) == 4


def test_existing_nodes_get_what_each_of_them_is_rich_in() -> None:
    """One node has cpu to spare, the other memory: each gets the pods that want it, and no node is launched."""
    rich = [
        state_node(node=node(name=name, allocatable={"cpu": cpu, "memory": memory, "pods": "50"}))
        for name, cpu, memory in (("compute", "9", "5Gi"), ("memory", "3", "33Gi"))
    ]
    pods = [
        *pending_pods(8, requests={"cpu": "1", "memory": "512Mi"}),
        *pending_pods(8, requests={"cpu": "250m", "memory": "4Gi"}),
    ]
    assert solved(problem(pending=pods, nodes=rich, catalog=KINDS), SolveOptions()).new_nodes == ()


def thirty_item_types() -> BinPackingProblem:
    """Thirty item types of four units each, for many new nodes and room on two existing ones."""
    pods = [pending_pod(requests={"cpu": f"{300 + 20 * (n // 4)}m", "memory": f"{200 + 40 * n}Mi"}) for n in range(120)]
    nodes = [
        state_node(node=node(name=f"old-{n}", allocatable={"cpu": "4", "memory": "8Gi", "pods": "110"}))
        for n in range(2)
    ]
    return bin_packing_of(problem(pending=pods, catalog=KINDS, nodes=nodes))


def built(most: float) -> tuple[Packing | None, float]:
    """A build with a work budget, and the work that it did."""
    bin_packing, work = thirty_item_types(), WorkBudget(1.0)
    lefts = [limit.left for limit in bin_packing.limits]
    return Builder(bin_packing, bin_packing.counts, lefts, work, most).build(STRATEGIES[0]), work.done


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_build_that_exceeds_its_work_budget_is_given_up(part: float) -> None:
    """One more node may be opened, and one linear program solved, before that is seen."""
    _, whole = built(math.inf)
    packing, done = built(part * whole)
    assert packing is None
    assert done <= (part + 0.2) * whole


def test_a_build_projected_to_exceed_its_budget_is_given_up_early() -> None:
    _, whole = built(math.inf)
    assert built(0.9 * whole)[1] < 0.7 * whole


def test_a_build_within_its_budget_is_the_one_without_a_budget() -> None:
    packing, whole = built(math.inf)
    again, done = built(3.0 * whole)
    assert packing is not None
    assert again is not None
    assert done == whole
    assert [(b.number, b.units.tolist()) for b in again.bins] == [(b.number, b.units.tolist()) for b in packing.bins]


def test_where_a_build_is_given_up_the_search_begins_with_the_first_plan() -> None:
    """A hundredth of a second is too little for a build of all: the plan still is whole, and no dearer."""
    bin_packing, work = thirty_item_types(), WorkBudget(0.01)
    best = cheapest(bin_packing, work)
    assert not best.left.any()
    assert best.cost(bin_packing) <= first_packing(bin_packing).cost(bin_packing)
    assert work.done < 4 * work.allowed


def test_a_build_that_runs_late_tries_fewer_bin_types_per_node() -> None:
    work = WorkBudget(1.0)
    pace = Pace(work, most=0.4)
    at_first = pace.candidates
    work.done = 0.1
    assert pace.candidates == at_first
    work.done = 0.39
    assert 0 < pace.candidates < at_first
