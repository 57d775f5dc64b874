"""Pack a plan's new nodes anew, so that no zone and no family carries over its share of a workload's replicas on spot.

Each workload's replicas are divided between homes (`replica_homes`), and the units packed anew as if labels bound them
there, by the same builds and local search as refinement. In the plan they may be elsewhere, as before: each node first
asks for the offering that it was packed as, and for the others where that one has no capacity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.optimize.bin_groups import within_limits
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem, Part
from controller.core.provisioning.optimize.build import Packing
from controller.core.provisioning.optimize.exact_packing import MOST_UNITS
from controller.core.provisioning.optimize.refine import cheapest
from controller.core.provisioning.optimize.work_budget import WorkBudget
from controller.core.provisioning.optimize.writer import Writer
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer, Placement
from controller.core.provisioning.pods.pod_classes import workload_of
from controller.core.provisioning.solver.division_program import DivisionProgram, Divisions, Parts
from controller.core.provisioning.solver.pool_sharing import LEAST_REPLICAS, Standing
from controller.core.provisioning.solver.replica_homes import Homes, Workload
from controller.core.provisioning.solver.workload_items import by_workload
from controller.core.provisioning.topology.groups import RuleKind

HOPELESS = 1.4
"""Times what new nodes may cost at most: a packing of few units that costs more is neither repacked pair by pair nor
divided anew, as that would not make it cheap enough."""
MOST_SIZE_OF_FEW = 250
"""Columns of the program of divisions of few units: of larger ones whole nodes were never cheap enough."""
WORK = (0.3, 0.1, 0.1, 0.1)
"""Work of each packing for each second of the budget, see `WorkBudget`: mostly the first is the last."""


@dataclass(frozen=True, slots=True)
class Funds:
    """What new nodes may cost, $/hour, and the budget of a solve (`SolveOptions`)."""

    most: float
    seconds: float


def pack_apart(packer: Packer, limits: Limits, standing: Standing, share: float, funds: Funds) -> Packer | None:
    """Pack the units anew within these funds; None: that cannot be, or there is nothing to divide.

    limits: of the pools before anything was planned.
    """
    apart = by_workload(packer)
    spread = _workloads(apart, standing, share)
    if not spread:
        return None
    homes = Homes(packer.catalog, [own for each in spread for own in each.items.values()])
    for work, divisions in zip(WORK, _divisions(apart, spread, homes, funds), strict=False):
        problem, originals = _problem(apart, homes, divisions.parts.values())
        packing = cheapest(problem, WorkBudget(work * funds.seconds), HOPELESS * funds.most)
        if packing.left.any() or not within_limits(problem, packing):
            return None
        divisions.packed = packing.cost(problem)
        if divisions.packed <= funds.most:
            return _written(apart, problem, originals, limits, packing)
    return None


def _divisions(packer: Packer, spread: Sequence[Workload], homes: Homes, funds: Funds) -> Iterator[Divisions]:
    """Yield divisions in the order in which they are to be packed: each after the one before was packed too dearly.

    Few units are divided once, or twice if that was not hopeless: whole nodes cost far more than divisible ones there.
    """
    others = _others(packer, spread)
    few = sum(sum(placement.counts) for placement in packer.placements) <= MOST_UNITS
    program = DivisionProgram(packer, spread, others, homes, funds.most)
    if few and program.size > MOST_SIZE_OF_FEW:
        return
    divisions = program.solve(funds.most)
    if divisions is not None:
        yield divisions
        if few and divisions.packed > HOPELESS * funds.most:
            return
        if len(divisions.parts) == len(spread):
            # Three homes fill whole nodes in other ways than two.
            other = DivisionProgram(packer, spread, others, homes, funds.most, evenly=True).solve(funds.most)
            if other is not None and len(other.parts) == len(spread):
                yield other
    while divisions is not None and not few:
        # Whole nodes cost more than divisible ones: the next packing is taken to cost as much more than its program.
        divisions = program.solve(divisions.cost - (divisions.packed - funds.most))
        if divisions is not None:
            yield divisions


def _workloads(packer: Packer, standing: Standing, share: float) -> list[Workload]:
    """Return those to be spread, with their units on new nodes."""
    found: dict[str, Workload] = {}
    total: Counter[str] = Counter()
    for placement in packer.placements:
        name = _workload(placement.item)
        new = sum(n for row, n in zip(placement.rows, placement.counts, strict=True) if row >= packer.table.existing)
        total[name] += sum(placement.counts)
        if name and new:
            own = found.setdefault(name, Workload(name)).items
            own[id(placement.item)] = placement.item, own.get(id(placement.item), (placement.item, 0))[1] + new
    for name, workload in found.items():
        total[name] += standing.total[name]
        workload.standing = standing.load[name]
        workload.most = max(1, int(share * total[name]))
    return [each for name, each in sorted(found.items()) if total[name] >= LEAST_REPLICAS]


def _others(packer: Packer, spread: Sequence[Workload]) -> list[tuple[Item, int]]:
    """Return the items of no workload to be spread, with their units on new nodes."""
    own = {key for each in spread for key in each.items}
    found: dict[int, tuple[Item, int]] = {}
    for placement in packer.placements:
        key, item = id(placement.item), placement.item
        new = sum(n for row, n in zip(placement.rows, placement.counts, strict=True) if row >= packer.table.existing)
        if new and key not in own:
            found[key] = item, found.get(key, (item, 0))[1] + new
    return list(found.values())


def _workload(item: Item) -> str:
    """Return the workload of an item whose units are single pods that stay with no others; else empty."""
    (allocation,) = item.allocations
    members = allocation.bundle.members
    tied = item.shared or any(rule.group.key.kind is RuleKind.AFFINITY for rule in item.rules)
    if tied or len(members) > 1 or members[0].pods > 1 or not members[0].pod_class.of_one_workload:
        return ""
    return workload_of(members[0].pod_class.members[0].first)


def _problem(packer: Packer, homes: Homes, divisions: Iterable[Parts]) -> tuple[BinPackingProblem, dict[int, Item]]:
    """Return the problem with divided units bound to their homes, and by id of its items those they are part of."""
    parts: defaultdict[int, list[tuple[Item, int]]] = defaultdict(list)
    originals: dict[int, Item] = {}
    for division in divisions:
        for item, home, count in division:
            bound = homes.narrowed(item, home)
            originals[id(bound)] = item
            parts[id(item)].append((bound, count))
    narrowed = copy(packer)
    narrowed.placements = []
    for placement in packer.placements:
        own = parts.get(id(placement.item), [])
        for row, count in zip(placement.rows, placement.counts, strict=True):
            while own and count and row >= packer.table.existing:
                bound, left = own.pop()
                some = min(count, left)
                narrowed.placements.append(Placement(bound, [row], [some]))
                count -= some
                if left > some:
                    own.append((bound, left - some))
            if count:
                narrowed.placements.append(Placement(placement.item, [row], [count]))
    return BinPackingProblem(narrowed, ()), originals


def _written(
    packer: Packer, problem: BinPackingProblem, originals: Mapping[int, Item], limits: Limits, packing: Packing
) -> Packer:
    """Write the packing down with the items that its units are of, wherever these may go."""
    for item_type in problem.item_types:
        item_type.sources = [(originals.get(id(item), item), count) for item, count in item_type.sources]
        item_type.parts = tuple(Part(originals.get(id(each.item), each.item), each.units) for each in item_type.parts)
    return Writer(packer, problem, limits).write(packing)
