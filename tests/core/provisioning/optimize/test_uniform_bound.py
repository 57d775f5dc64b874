"""The bound of units that are all alike: never above the optimum, and met by plans that then need no search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.provisioning import SolveOptions
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.dual_prices import uniform_bound
from controller.core.provisioning.optimize.refine import cheapest
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.provisioning.solver.compiled_problem import compile_problem
from controller.core.provisioning.solver.solver import Solver
from controller.core.provisioning.topology.allocation import PackingStyle
from tests.factories import instance_type, pending_pods, problem

SIZES = (("large", 2, 0.10), ("xlarge", 4, 0.18), ("2xlarge", 8, 0.32), ("4xlarge", 16, 0.61))
KINDS = [
    instance_type(name=f"c5.{size}", cpu=cpu, memory=f"{2 * cpu}Gi", price=price, capacity_types=(keys.ON_DEMAND,))
    for size, cpu, price in SIZES
]


def packing_problem(posed: SchedulingProblem) -> BinPackingProblem:
    return BinPackingProblem(Solver(compile_problem(posed, SolveOptions())).attempt(PackingStyle()).packer, [])


def optimum(units: int, millis: int, bins: Sequence[tuple[float, float, float]]) -> float:
    """By trying every bin for the units that are left. bins: CPU in thousandths, places for pods, and $/hour."""

    @cache
    def least(left: int) -> float:
        held = ((min(int(cpu // millis), int(places)), price) for cpu, places, price in bins)
        return min((price + least(max(0, left - fits)) for fits, price in held if fits), default=0.0) if left else 0.0

    return least(units)


@given(st.integers(1, 90), st.integers(100, 3500))
def test_the_bound_is_what_the_cheapest_whole_nodes_cost(units: int, millis: int) -> None:
    posed = packing_problem(problem(pending=pending_pods(units, requests={"cpu": f"{millis}m"}), catalog=KINDS))
    column, capacity = posed.catalog.space.column, posed.capacity.tolist()
    bins = [(row[column["cpu"]], row[column["pods"]], price) for row, price in zip(capacity, posed.price, strict=True)]
    assert uniform_bound(posed) == pytest.approx(optimum(units, millis, bins))


def test_units_of_two_sizes_have_no_such_bound() -> None:
    pods = [*pending_pods(3, requests={"cpu": "1"}), *pending_pods(3, requests={"cpu": "2"})]
    assert uniform_bound(packing_problem(problem(pending=pods, catalog=KINDS))) == 0.0


def test_alike_pods_are_packed_by_one_build_and_no_search() -> None:
    """A node of 16 vCPUs holds ten pods of 1.5 and is left with room for a part of one, which is no waste."""
    posed = packing_problem(problem(pending=pending_pods(600, requests={"cpu": "1500m"}), catalog=KINDS))
    work = WorkBudget(10.0)
    packing = cheapest(posed, work)
    assert packing.cost(posed) == pytest.approx(uniform_bound(posed))
    assert work.done < 0.05 * work.allowed
