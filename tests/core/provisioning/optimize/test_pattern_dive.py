"""Dives through patterns: every unit once, each existing node once, within limits, other bins by other turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from controller.core.provisioning.optimize.bin_groups import BinGroups, find_bins, within_limits
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Packing, first_packing
from controller.core.provisioning.optimize.patterns.pattern_dive import Rest, dives
from controller.core.provisioning.resource_space import Floats, Ints
from tests.core.provisioning.optimize.test_local_search import bin_packing_of
from tests.core.provisioning.optimize.test_pair_repacking import posed

TURNS = ((), (1,), (0, 1), (1, 1))


def patterns(bins: BinPackingProblem, groups: BinGroups, seed: int) -> tuple[Floats, Ints]:
    """Some of what each group's bin holds: every single unit, and random loads (units P x D, group P)."""
    chance, counts = np.random.default_rng(seed), bins.counts.astype(np.int64)
    found: list[tuple[Floats, int]] = []
    for number, capacity in enumerate(groups.capacity):
        tried = [*np.eye(len(counts)), *(chance.integers(0, counts + 1) for _ in range(30))]
        for units in tried:
            fits = (units @ bins.requests <= capacity + 1e-9).all() and groups.allowed[number][units > 0].all()
            if fits and units.any():
                found.append((units.astype(np.float64), number))
    return np.array([units for units, _ in found]), np.array([number for _, number in found])


def dived(
    bins: BinPackingProblem, seed: int, turns: Sequence[Sequence[int]] = TURNS, states: Ints | None = None
) -> list[Packing]:
    groups = find_bins(bins, first_packing(bins).cost(bins))
    units, group = patterns(bins, groups, seed)
    wholes = [bins.counts[None].astype(np.int64) if states is None else states]
    limits = np.array([limit.left for limit in bins.limits])
    rest = Rest(groups, wholes, groups.available, limits, lambda _, group: groups.price[group], 1e3)
    return list(dives(rest, units, group, turns))


@pytest.mark.parametrize("seed", range(8))
def test_every_unit_is_packed_once_in_a_bin_that_holds_it_and_each_existing_node_is_used_once(seed: int) -> None:
    bins = bin_packing_of(posed(seed))
    packings = dived(bins, seed)
    assert len(packings) == len(TURNS)
    for packing in packings:
        assert np.sum([one.units for one in packing.bins], axis=0).tolist() == bins.counts.tolist()
        existing = [one.number for one in packing.bins if one.existing]
        assert len(existing) == len(set(existing))
        for one in packing.bins:
            room, allowed = (bins.room, bins.open_to) if one.existing else (bins.capacity, bins.allowed)
            assert (one.units @ bins.requests <= room[one.number] + 1e-6).all()
            assert allowed[one.number][one.units > 0].all()


def test_no_dive_goes_beyond_a_limit() -> None:
    for seed in range(12):
        for cpu in (4, 6, 8, 10):
            bins = bin_packing_of(posed(seed, {"cpu": f"{cpu}"}))
            assert all(within_limits(bins, packing) for packing in dived(bins, seed)), (seed, cpu)


def test_other_turns_come_to_other_packings() -> None:
    found = [
        {round(packing.cost(bins), 6) for packing in dived(bins, seed)}
        for seed, bins in ((seed, bin_packing_of(posed(seed))) for seed in range(8))
    ]
    assert max(map(len, found)) > 1


def test_of_several_end_states_one_is_packed() -> None:
    bins = bin_packing_of(posed(3))
    counts = bins.counts.astype(np.int64)
    fewer = np.maximum(counts - np.eye(len(counts), dtype=np.int64)[0], 0)
    for packing in dived(bins, 3, states=np.array([counts, fewer])):
        packed = np.sum([one.units for one in packing.bins], axis=0).tolist()
        assert packed in (counts.tolist(), fewer.tolist())
