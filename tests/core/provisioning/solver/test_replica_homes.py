"""Replicas are divided between zones and groups of families; what stands counts, and on demand none is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import OwnerReference, Pod
from controller.core.cloud import InstanceType, Offering
from controller.core.provisioning import SolveOptions
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.provisioning.solver.division_program import DivisionProgram
from controller.core.provisioning.solver.replica_homes import ON_DEMAND, Homes, Workload
from controller.core.provisioning.solver.solver import Solver
from controller.core.provisioning.solver.workload_items import by_workload
from controller.core.provisioning.topology.allocation import PackingStyle
from tests.factories import ZONES, instance_type, pending_pods, problem

PRICES = {"m1": 0.1, "m2": 0.1, "m3": 0.2}


def deployment(name: str, count: int, **requests: str) -> tuple[Pod, ...]:
    owner = OwnerReference("apps/v1", "ReplicaSet", name, name)
    return pending_pods(count, requests=requests or {"cpu": "1"}, owner=owner)


def family(name: str, price: float, on_demand: float | None = None) -> InstanceType:
    offered = [Offering(zone, keys.SPOT, price) for zone in ZONES]
    offered += [Offering(zone, keys.ON_DEMAND, on_demand) for zone in ZONES if on_demand is not None]
    return instance_type(name=f"{name}.large", cpu=4, offered=tuple(offered))


def divided(
    pods: Sequence[Pod], kinds: Sequence[InstanceType], standing: Mapping[tuple[str, str], int], most: float = 10.0
) -> Mapping[str, Counter[tuple[str, str]]]:
    """By workload that is kept for so much, $/hour, the replicas by zone and cheapest family of their homes.

    Half of each may be in one domain.
    """
    compiled = compile_problem(problem(pending=pods, catalog=kinds), SolveOptions())
    packer = by_workload(Solver(compiled).attempt(PackingStyle()).packer)
    found: dict[str, Workload] = {}
    for item, count in Counter({id(p.item): sum(p.counts) for p in packer.placements}).items():
        own = next(p.item for p in packer.placements if id(p.item) == item)
        name = own.allocations[0].bundle.pod_class.members[0].first.owners[0].uid
        found[name] = Workload(name, items={item: (own, count)}, standing=Counter(standing))
        found[name].most = (count + max(standing.values(), default=0)) // 2
    homes = Homes(packer.catalog, [each for one in found.values() for each in one.items.values()])

    def named(home: tuple[int, int]) -> tuple[str, str]:
        if home == ON_DEMAND:
            return keys.ON_DEMAND, ""
        return homes.zones[home[0]], str(homes.names[homes.group == home[1]][0])

    divisions = DivisionProgram(packer, list(found.values()), [], homes, most).solve(most)
    parts = divisions.parts if divisions is not None else {}
    return {name: Counter({named(home): count for _, home, count in each}) for name, each in parts.items()}


def test_the_odd_one_goes_to_a_third_zone_and_to_the_other_families() -> None:
    kinds = [family(name, price) for name, price in PRICES.items()]
    assert divided(deployment("a", 9), kinds, {}) == {
        "a": {(ZONES[0], "m1"): 4, (ZONES[1], "m2"): 4, (ZONES[2], "m3"): 1}
    }


def test_equal_pods_are_told_apart_by_workload() -> None:
    kinds = [family(name, price) for name, price in PRICES.items()]
    found = divided([*deployment("a", 4), *deployment("b", 8)], kinds, {})
    assert found == {
        "a": {(ZONES[0], "m1"): 2, (ZONES[1], "m2"): 2},
        "b": {(ZONES[0], "m1"): 4, (ZONES[1], "m2"): 4},
    }


def test_replicas_that_run_on_spot_count_in_their_zone_and_family() -> None:
    kinds = [family(name, price) for name, price in PRICES.items()]
    standing = {("", ZONES[0]): 3, ("m2", ""): 3}
    (found,) = divided(deployment("a", 5), kinds, standing).values()
    assert sum(count for (zone, _), count in found.items() if zone == ZONES[0]) <= 1
    assert sum(count for (_, name), count in found.items() if name == "m2") <= 1
    assert found.total() == 5


@pytest.mark.parametrize(
    ("on_demand", "expected"), [(0.15, {(ZONES[0], "m1"): 2, (keys.ON_DEMAND, ""): 2}), (None, {})]
)
def test_where_one_family_is_sold_on_spot_the_rest_is_on_demand_if_it_is_sold(
    on_demand: float | None, expected: Mapping[tuple[str, str], int]
) -> None:
    found = divided(deployment("a", 4), [family("m1", 0.1, on_demand)], {})
    assert found.get("a", {}) == expected


@pytest.mark.parametrize(("most", "kept"), [(0.52, {"a", "b"}), (0.47, {"a"}), (0.42, {"a"}), (0.4, set())])
def test_as_many_workloads_are_kept_as_the_money_allows_at_the_least_cost(most: float, kept: set[str]) -> None:
    """Three nodes cost $0.36. Half of four replicas cost $0.05 more in the other family, half of eight $0.10."""
    kinds = [family("m1", 0.1), family("m2", 0.2)]
    found = divided([*deployment("a", 4), *deployment("b", 8)], kinds, {}, most)
    assert found.keys() == kept
    assert all(homes[ZONES[1], "m2"] == homes.total() / 2 for homes in found.values())


def test_replicas_go_for_nothing_where_others_leave_room() -> None:
    """The memory of `a` asks for 1.2 nodes of each family, $0.41. That of `b`, $0.09 elsewhere, finds room there."""
    kinds = [family("m1", 0.1), family("m2", 0.2)]
    memory = kinds[0].allocatable["memory"] * 6 // 10
    pods = [*deployment("a", 4, cpu="1200m", memory=str(memory)), *deployment("b", 4, cpu="500m")]
    assert divided(pods, kinds, {}, most=0.41).keys() == {"a", "b"}
