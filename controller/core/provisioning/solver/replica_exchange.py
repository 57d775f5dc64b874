"""Exchange pods between new nodes, so that no spot node carries more than its share of a workload's replicas.

No choice of offerings spreads replicas that are on one node (`pool_sharing`). A linear program fills the same nodes
with the same units, as divisible, such that what spot nodes carry beyond their shares is least. Whole units of that
stay; the rest goes where there is room, and what has none to a few more nodes, if these cost little. Equal pods are
then dealt out workload by workload over all nodes that carry some.

EC2 reclaims families, too. Where one carries more than the share of all spot nodes, some of its nodes are first
replaced by one or two of another family that hold about as much and cost about the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from controller.core.api import labels
from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.optimize.bin_packing_problem import BinPackingProblem
from controller.core.provisioning.optimize.build import Bin, Packing, first_packing
from controller.core.provisioning.optimize.fill import SLACK
from controller.core.provisioning.optimize.linear_program import INFINITY, LinearProgram
from controller.core.provisioning.optimize.patterns import within_limits
from controller.core.provisioning.optimize.writer import Writer
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.plan import PlannedNode
from controller.core.provisioning.resource_space import Bools, Floats, Ints

MOST_PREMIUM = 0.02
"""What more nodes may add to the cost of the plan's new nodes, as a share of it."""
LEAST_REPLICAS = 4
"""Replicas from which on a workload is kept from being mostly on one node."""
PIECES = (1, 2)
"""Nodes of another family that may replace one."""
NEARLY = 0.98
"""Part of what a node's pods request that those in its place must hold: other nodes may have room for the rest."""
MISSING = 100.0
"""What a unit that is left out weighs beside one beyond a workload's share."""
MOST_PAIRS = 4_000
"""Pairs of node and workload up to which the linear program is solved."""


def over_share(nodes: Sequence[PlannedNode], running: Mapping[str, int], share: float) -> bool:
    """Whether a spot node carries more than this share of a workload's replicas, `running` ones counted in."""
    carried = [workloads(node.pods) for node in nodes]
    total = Counter(running)
    for own in carried:
        total.update(own)
    return any(
        count > share * total[name] and total[name] >= LEAST_REPLICAS
        for node, own in zip(nodes, carried, strict=True)
        if node.offering.capacity_type == labels.SPOT
        for name, count in own.items()
    )


def exchange_pods(packer: Packer, limits: Limits, running: Mapping[str, int], share: float) -> Packer | None:
    """The packing with units exchanged between its new nodes, if that gains anything for the money, else the same.

    None: it is not a packing of bin types.

    limits: of the pools before anything was planned. running: replicas that stand, by workload.
    """
    problem = BinPackingProblem(packer, ())
    packing = first_packing(problem)
    if packing.left.any():
        return None
    exchanged = _Exchange(problem, packing, running, share).packing()
    if exchanged is None or not within_limits(problem, exchanged):
        exchanged = packing
    return Writer(packer, problem, limits, dealt=True).write(exchanged)


class _Exchange:
    """B new bins, D item types, W workloads. units: B x D, as planned. replicas: D x W, of a unit on the mean.

    numbers: B, bin types. counts: D, units of all bins. most: W, replicas that a spot node or family may carry.
    """

    def __init__(self, problem: BinPackingProblem, packing: Packing, running: Mapping[str, int], share: float) -> None:
        self.problem = problem
        self.existing = [one for one in packing.bins if one.existing]
        self.numbers = np.array([one.number for one in packing.bins if not one.existing], dtype=np.int64)
        self.units: Floats = np.array([one.units for one in packing.bins if not one.existing])
        self.counts: Floats = self.units.sum(axis=0)
        catalog, bin_types = problem.catalog, problem.bin_types
        spot = [capacity_type == labels.SPOT for _, capacity_type in catalog.offering_keys]
        self.sold_as_spot: Bools = np.array(spot)[bin_types.offering_key]
        names = [each.name.partition(".")[0] for each in catalog.types]
        self.families: Ints = np.unique(names, return_inverse=True)[1][bin_types.option]
        """Of each bin type, as `sold_as_spot`."""
        self.share = share
        owned = [_workloads(problem, number) for number in range(len(problem.item_types))]
        self.names = sorted({name for each in owned for name in each})
        counts: Floats = np.array([[each.get(name, 0.0) for name in self.names] for each in owned])
        self.replicas: Floats = counts / np.maximum(problem.counts, 1.0)[:, None]
        total = counts.sum(axis=0) + np.array([running.get(name, 0) for name in self.names])
        self.most: Floats = np.where(total >= LEAST_REPLICAS, np.floor(share * total), np.inf)

    def packing(self) -> Packing | None:
        """The same bins with units exchanged, and bins for those that whole units leave no room for."""
        if len(self.numbers) * len(self.names) > MOST_PAIRS or not len(self.numbers):
            return None
        before = self._over(self.units)
        if not before:
            return None
        paid = float(self.problem.price[self.numbers].sum())
        self._diversify()
        units = np.floor(self._divisible() + SLACK)
        rest = self._topped_up(units, self.counts - units.sum(axis=0))
        extra = self._bins_for(rest)
        price = self.problem.price
        added = np.inf if extra is None else sum(float(price[one.number]) for one in extra)
        added += float(price[self.numbers].sum()) - paid
        if extra is None or added > MOST_PREMIUM * paid or self._over(units) >= before:
            return None
        own = [Bin(False, int(number), row) for number, row in zip(self.numbers, units, strict=True) if row.any()]
        return Packing([*self.existing, *own, *extra], np.zeros(units.shape[1]))

    def _over(self, units: Floats) -> int:
        """Workloads of which some spot node with these units (B x D) carries too many."""
        carried = np.ceil(units[self.sold_as_spot[self.numbers]] @ self.replicas - SLACK)
        return int((carried > self.most).any(axis=0).sum())

    def _diversify(self) -> None:
        """Replace nodes of families that cost more than the share of all spot nodes, the dearest first."""
        problem, dense = self.problem, self.problem.dense
        price, spot = problem.price, self.sold_as_spot
        held = np.array([not item_type.sources for item_type in problem.item_types], dtype=np.bool_)
        by_family = np.bincount(self.families[self.numbers], price[self.numbers] * spot[self.numbers])
        by_family = np.append(by_family, np.zeros(int(self.families.max(initial=0)) + 1 - len(by_family)))
        most = self.share * float(by_family.sum())
        left = MOST_PREMIUM * float(price[self.numbers].sum())
        numbers, units = [self.numbers], [self.units]
        kept = np.ones(len(self.numbers), dtype=np.bool_)
        for place in np.argsort(-price[self.numbers], kind="stable").tolist():
            number, own = int(self.numbers[place]), self.units[place]
            family = int(self.families[number])
            if not spot[number] or by_family[family] <= most or own[held].any():
                continue
            asked = NEARLY * (own @ problem.requests)[:dense]
            fine = spot & problem.allowed[:, own > 0].all(axis=1)
            cost = np.full((len(PIECES), len(price)), np.inf)
            for row, count in enumerate(PIECES):
                fits = fine & (count * problem.capacity[:, :dense] >= asked).all(axis=1)
                fits &= by_family[self.families] + count * price <= most
                cost[row, fits] = count * price[fits]
            row, best = divmod(int(np.argmin(cost)), len(price))
            added = float(cost[row, best] - price[number])
            if added <= left:
                left -= max(0.0, added)
                kept[place] = False
                numbers.append(np.full(PIECES[row], best))
                units.append(np.zeros((PIECES[row], len(own))))
                by_family[family] -= price[number]
                by_family[self.families[best]] += cost[row, best]
        self.numbers = np.concatenate([numbers[0][kept], *numbers[1:]])
        self.units = np.concatenate([units[0][kept], *units[1:]])

    def _divisible(self) -> Floats:
        """B x D: divisible units in the same bins, so that spot bins carry least beyond their shares of workloads."""
        problem, program = self.problem, LinearProgram()
        allowed = problem.allowed[self.numbers]
        held = np.array([not item_type.sources for item_type in problem.item_types], dtype=np.bool_)
        allowed = np.where(held, self.units > 0, allowed)
        place, item = np.nonzero(allowed)
        most = np.where(held[item], self.units[place, item], problem.counts[item])
        placed = program.columns(np.zeros(len(place)), most)
        cover = program.rows(self.counts, self.counts)
        program.entries(cover[item], placed, 1.0)
        program.entries(cover, program.columns(np.full(len(cover), MISSING)), 1.0)
        program.keep_within(placed, place, item, problem.requests, problem.capacity[self.numbers] + SLACK)
        families, own = np.unique(self.families[self.numbers], return_inverse=True)
        spot = self.sold_as_spot[self.numbers][place]
        for number in np.flatnonzero(np.isfinite(self.most)).tolist():
            some = np.flatnonzero((self.replicas[item, number] > 0) & spot)
            for group, groups in ((place[some], len(self.numbers)), (own[place[some]], len(families))):
                rows = program.rows(np.full(groups, -INFINITY), np.full(groups, self.most[number]))
                over = program.columns(np.full(groups, 1.0 / (1.0 + self.most[number])))
                program.entries(rows, over, -1.0)
                program.entries(rows[group], placed[some], self.replicas[item[some], number])
        units = np.zeros_like(self.units)
        units[place, item] = program.solve().values[placed]
        return units

    def _topped_up(self, units: Floats, rest: Floats) -> Floats:
        """Put the rest (D), largest first, into bins with room (units: B x D, changed); return what has none."""
        problem, rest = self.problem, rest.copy()
        free = problem.capacity[self.numbers] - units @ problem.requests + SLACK
        for item in np.argsort(-problem.sizes, kind="stable").tolist():
            while rest[item] > 0:
                fits = problem.allowed[self.numbers, item] & (free >= problem.requests[item]).all(axis=1)
                if not fits.any():
                    break
                carried = (units @ self.replicas + self.replicas[item] > self.most).sum(axis=1) * self.sold_as_spot[
                    self.numbers
                ]
                best = int(np.argmin(np.where(fits, carried + units[:, item] / (1.0 + problem.counts[item]), np.inf)))
                units[best, item] += 1.0
                free[best] -= problem.requests[item]
                rest[item] -= 1.0
        return rest

    def _bins_for(self, rest: Floats) -> list[Bin] | None:
        """Bins of the cheapest types for what is left (D): one for all that the same bins let in."""
        problem, bins = self.problem, list[Bin]()
        for kind in np.unique(problem.kinds[rest > 0]).tolist():
            units = np.where(problem.kinds == kind, rest, 0.0)
            fits = (problem.capacity >= units @ problem.requests - SLACK).all(axis=1)
            fits &= problem.allowed[:, units > 0].all(axis=1)
            if not fits.any():
                return None
            bins.append(Bin(False, int(np.argmin(np.where(fits, problem.price, np.inf))), units))
        return bins


def _workloads(problem: BinPackingProblem, number: int) -> dict[str, float]:
    """Replicas of an item type's units, by workload; none of units of several pods, which stay together."""
    counts: dict[str, float] = defaultdict(float)
    for item, units in problem.item_types[number].sources:
        share = units / max(1, sum(allocation.count for allocation in item.allocations))
        for allocation in item.allocations:
            for member in allocation.bundle.members:
                pods = allocation.count * member.pods
                own = member.pod_class.workloads(0, len(member.pod_class))
                for name, count in own.items():
                    counts[name] += share * pods * count / len(member.pod_class)
    return counts
