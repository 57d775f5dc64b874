"""Bins are repacked two by two: units stay whole and in bins that hold them, and no pair could be cheaper."""

from __future__ import annotations

import random
from itertools import combinations, product

import numpy as np
import pytest

from controller.core.provisioning.optimize.bin_groups import find_bins, within_limits
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Bin, Packing, cheapest_type, first_packing
from controller.core.provisioning.optimize.pair_repacking import MOST_WAYS, PairRepacking
from controller.core.provisioning.optimize.patterns.pricing import PricedBins
from controller.core.provisioning.plan import SchedulingProblem
from tests.core.provisioning.optimize.test_local_search import bin_packing_of
from tests.factories import instance_type, node, pending_pods, problem, provisioner, state_node

KINDS = [
    instance_type(name=f"{family}{cpu}.x", cpu=cpu, memory=f"{cpu * ratio}Gi", price=round(price * cpu**0.95, 4))
    for family, ratio, price in (("c", 2, 0.04), ("m", 4, 0.05), ("r", 8, 0.065))
    for cpu in (2, 4, 8, 16)
]


def repacked(bins: BinPackingProblem) -> tuple[Packing, float]:
    """The first plan's bins, each of one unit, repacked."""
    units = [row for row, count in zip(np.eye(len(bins.counts)), bins.counts, strict=True) for _ in range(int(count))]
    largest = int(np.argmax(bins.price))
    start = Packing(
        [Bin(False, cheapest_type(bins, each, largest), each) for each in units], np.zeros(len(bins.counts))
    )
    groups = find_bins(bins, start.cost(bins))
    none = np.zeros(len(groups.price))
    priced = PricedBins(groups.capacity, groups.allowed, groups.price, none, none, 0)
    return PairRepacking(bins, groups, priced).repacked(start)


def posed(seed: int, limits: dict[str, str] | None = None) -> SchedulingProblem:
    """A few pods of several sizes, and room for one or two on an existing node."""
    chance = random.Random(seed)
    pods = [
        pod
        for _ in range(chance.randint(2, 4))
        for pod in pending_pods(
            chance.randint(1, 3),
            requests={"cpu": chance.choice(("300m", "700m", "1500m")), "memory": chance.choice(("1Gi", "3Gi", "7Gi"))},
        )
    ]
    there = [state_node(node=node(name="there", allocatable={"cpu": "1", "memory": "4Gi", "pods": 9}))]
    return problem(
        pending=pods, nodes=there, catalog=KINDS, provisioners=[provisioner(name="default", limits=limits or {})]
    )


@pytest.mark.parametrize("seed", range(8))
def test_every_unit_is_packed_once_and_no_pair_could_be_cheaper(seed: int) -> None:
    bins = bin_packing_of(posed(seed))
    packing, cost = repacked(bins)
    assert np.sum([one.units for one in packing.bins], axis=0).tolist() == bins.counts.tolist()
    assert cost == pytest.approx(packing.cost(bins))
    for one in packing.bins:
        room, allowed = (bins.room, bins.open_to) if one.existing else (bins.capacity, bins.allowed)
        assert (one.units @ bins.requests <= room[one.number] + 1e-6).all()
        assert allowed[one.number][one.units > 0].all()
    for one, other in combinations([each for each in packing.bins if not each.existing], 2):
        now = bins.price[one.number] + bins.price[other.number]
        whole = one.units + other.units
        if np.prod(whole + 1) <= MOST_WAYS:
            ways = (np.array(way) for way in product(*(range(int(count) + 1) for count in whole)))
            assert min(_price(bins, way) + _price(bins, whole - way) for way in ways) >= now - 1e-6


def _price(bins: BinPackingProblem, units: np.ndarray) -> float:
    """The $/hour of the cheapest bin type that holds these units."""
    holds = (bins.capacity >= units @ bins.requests - 1e-6).all(axis=1) & bins.allowed[:, units > 0].all(axis=1)
    return float(bins.price[holds].min(initial=np.inf)) if units.any() else 0.0


@pytest.mark.parametrize("seed", range(4))
def test_no_exchange_goes_beyond_a_limit(seed: int) -> None:
    """Pods that first have a node each are put together on larger nodes only as far as the limit admits these."""
    bins = bin_packing_of(posed(seed, {"cpu": "24"}))
    packing, cost = repacked(bins)
    assert within_limits(bins, packing)
    assert cost <= first_packing(bins).cost(bins) + 1e-6
