"""Diving: combinations of patterns that builds and local search miss, within limits, each existing node used once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.provisioning.optimize import refine
from controller.core.provisioning.optimize.bin_groups import within_limits
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Packing, first_packing
from controller.core.provisioning.optimize.contenders import Contenders
from controller.core.provisioning.optimize.diving import Diving
from controller.core.provisioning.optimize.refine import STRATEGIES, cheapest
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.plan import SchedulingProblem
from tests.core.provisioning.optimize.test_local_search import KINDS, bin_packing_of, scattered
from tests.core.provisioning.plans import WEB, near
from tests.examples import examples
from tests.factories import instance_type, node, pending_pods, problem, provisioner, state_node

LARGE = KINDS[-1:]
"""A node of 8 cpus for $0.32."""
FULL: Counter[tuple[int, ...]] = Counter({(3200, 3800, 1000): 8, (3200, 1600, 3200): 7, (3200, 2900, 1900): 7})
"""Pods, in thousandths of a cpu, that fill 22 such nodes to the last one."""


def filling(nodes: Counter[tuple[int, ...]]) -> tuple[Pod, ...]:
    """Pods that fill so many nodes in these ways."""
    sizes = Counter(size for pods, count in nodes.items() for size in pods for _ in range(count))
    return tuple(
        pod for size, count in sorted(sizes.items()) for pod in pending_pods(count, requests={"cpu": f"{size}m"})
    )


class Seen(Contenders):
    """Keeps every packing, too."""

    def __init__(self, problem: BinPackingProblem) -> None:
        super().__init__(problem, 0.0)
        self.packings: list[Packing] = []

    def add(self, packing: Packing) -> None:
        super().add(packing)
        self.packings.append(packing)


def dived(bins: BinPackingProblem, start: Packing | None = None, work: float = 0.5) -> Packing:
    """The cheapest packing that dives find; each of theirs has every unit once, in a bin that admits it."""
    seen = Seen(bins)
    best = Diving(bins, start or first_packing(bins), STRATEGIES, WorkBudget(work)).run(seen)
    assert seen.packings or not work
    for packing in seen.packings:
        assert (np.sum([one.units for one in packing.bins], axis=0) + packing.left).tolist() == bins.counts.tolist()
        assert (packing.left >= 0).all()
        assert within_limits(bins, packing)
        existing = [one.number for one in packing.bins if one.existing]
        assert len(set(existing)) == len(existing)
        for one in packing.bins:
            room, allowed = (bins.room, bins.open_to) if one.existing else (bins.capacity, bins.allowed)
            assert (one.units @ bins.requests <= room[one.number] + 1e-6).all()
            assert allowed[one.number][one.units > 0].all()
    return best


def test_a_combination_is_found_that_builds_and_local_search_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    posed = problem(pending=filling(FULL), catalog=LARGE)
    assert len(cheapest(bin_packing_of(posed), WorkBudget(0.6)).bins) == FULL.total()
    monkeypatch.setattr(refine, "DIVING_ITEM_TYPES", 0)
    assert len(cheapest(bin_packing_of(posed), WorkBudget(0.6)).bins) > FULL.total()


def test_the_bins_of_a_known_packing_are_patterns() -> None:
    """The pods of a full node are one of its patterns: nothing is lost, whatever greedy filling finds."""
    bins = bin_packing_of(problem(pending=filling(FULL), catalog=LARGE))
    known = dived(bins)
    assert len(known.bins) == FULL.total()
    assert dived(bins, known, work=0.0).cost(bins) == known.cost(bins)
    assert {one.units.tobytes() for one in known.bins} == {
        units.tobytes() for units in Diving(bins, known, STRATEGIES, WorkBudget(0.0)).patterns.units
    }


def test_limits_are_kept_though_nodes_under_them_are_cheaper() -> None:
    """20 cpus are two nodes of 8. The other 45 pods go to nodes of 2 cpus, at over three times the price of a cpu."""
    pools = [provisioner(name="large", limits={"cpu": "20"}), provisioner(name="small", weight=1)]
    dear = instance_type(name="m5.large", cpu=2, memory="8Gi", price=0.3, capacity_types=(keys.ON_DEMAND,))
    posed = problem(
        pending=pending_pods(61, requests={"cpu": "1"}), provisioners=pools, catalog={"large": LARGE, "small": [dear]}
    )
    bins = bin_packing_of(posed)
    best = dived(bins, scattered(bins, "m5.large"))
    assert not best.left.any()
    assert Counter(bins.capacity[one.number, 0] for one in best.bins) == {2000.0: 23, 8000.0: 2}


def test_each_existing_node_is_filled_once() -> None:
    """Three nodes of 4 free cpus each take twelve of 60 pods of a cpu; the others fill six new nodes."""
    nodes = [
        state_node(node=node(name=f"node-{number}", allocatable={"cpu": "4", "memory": "16Gi", "pods": "20"}))
        for number in range(3)
    ]
    bins = bin_packing_of(problem(pending=pending_pods(60, requests={"cpu": "1"}), catalog=LARGE, nodes=nodes))
    best = dived(bins)
    assert Counter(one.existing for one in best.bins) == {True: 3, False: 6}


def test_units_that_several_patterns_hold_are_packed_once() -> None:
    """The only pattern has three small pods beside a large one, and there are three in all for two large ones."""
    pods = (*pending_pods(2, requests={"cpu": "5"}), *pending_pods(3, requests={"cpu": "1"}))
    bins = bin_packing_of(problem(pending=pods, catalog=LARGE))
    assert len(dived(bins, Packing([], bins.counts)).bins) == 2


def test_pods_kept_apart_stay_apart() -> None:
    pods = pending_pods(6, requests={"cpu": "1"}, required_pod_anti_affinity=(near(keys.HOSTNAME),), labels=WEB)
    others = pending_pods(50, requests={"cpu": "500m"})
    bins = bin_packing_of(problem(pending=(*pods, *others), catalog=LARGE))
    assert sum(one.units[bins.requests[:, 0] == 1000].any() for one in dived(bins).bins) == 6


def test_equal_problems_are_packed_alike() -> None:
    def packed() -> list[tuple[int, list[float]]]:
        bins = bin_packing_of(problem(pending=filling(FULL), catalog=KINDS))
        return [(one.number, one.units.tolist()) for one in dived(bins, work=0.1).bins]

    assert packed() == packed()


@examples(15)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 60), st.integers(1, 9)), min_size=1, max_size=6),
    free=st.lists(st.integers(1, 40), max_size=4),
    limit=st.none() | st.integers(10, 60),
)
def test_no_unit_is_lost_and_no_bin_overfilled(
    sizes: list[tuple[int, int, int]], free: list[int], limit: int | None
) -> None:
    posed = _posed(sizes, free, limit)
    bins = bin_packing_of(posed)
    if bins.item_types:
        start = first_packing(bins)
        assert dived(bins, start, work=0.05).cost(bins) <= start.cost(bins)


def _posed(sizes: list[tuple[int, int, int]], free: list[int], limit: int | None) -> SchedulingProblem:
    """Pods of so many tenths of a cpu and of a GiB, nodes with so many tenths of a cpu free."""
    pods = [
        pod
        for cpu, memory, count in sizes
        for pod in pending_pods(count, requests={"cpu": f"{cpu}00m", "memory": f"{memory}00Mi"})
    ]
    nodes = [
        state_node(node=node(name=f"node-{number}", allocatable={"cpu": f"{cpu}00m", "memory": "8Gi", "pods": "20"}))
        for number, cpu in enumerate(free)
    ]
    pool = provisioner(limits=None if limit is None else {"cpu": str(limit)})
    return problem(pending=tuple(pods), catalog=KINDS, nodes=nodes, provisioners=[pool])
