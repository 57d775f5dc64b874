"""No spot pool carries too much of one workload, where it costs next to nothing to spread.

A pool (an instance type in a zone, as spot) is taken back as a whole: all nodes in it get their warning together. So
the nodes that carry a workload's replicas ask for different pools, where each has many that cost about the same.
Whichever of them EC2 then picks, no pool has more than its share.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from controller.core.api import labels
from controller.core.cloud import PricedOffering
from controller.core.provisioning.flexibility import runner_up, within_spread
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem, SolveOptions

Pool = tuple[str, str]
"""Instance type and zone."""
FREE_PREMIUM = 0.02
"""Spread is free where the node gets dearer by no more than this share."""


def share_pools(
    plan: SchedulingPlan, problem: SchedulingProblem, options: SolveOptions, snapshot_index: SnapshotIndex
) -> SchedulingPlan:
    """The plan with spot nodes' offerings dealt out; nodes that could only be spread at a price stay as they are."""
    if options.spot_pool_share >= 1.0:
        return plan
    carried = [workloads(node.pods) for node in plan.new_nodes]
    sharing = _Sharing(carried, options.spot_pool_share)
    if not sharing.total:
        return plan
    if problem.nodes:
        sharing.count_existing(snapshot_index, {snapshot_index.place[node.name] for node in problem.nodes})
    sharing.settle()
    return replace(plan, new_nodes=tuple(map(sharing.dealt, plan.new_nodes, carried)))


@dataclass(frozen=True, slots=True)
class _Deal:
    """Some of the pools for a node, dear and cheap, and what it is to be launched as then."""

    pools: list[int]
    offering: PricedOffering
    alternatives: tuple[PricedOffering, ...]
    runner_up: PricedOffering | None
    left_out: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """What nodes of the same offerings ask for, cheapest first; the pools by number; deals so far, by the places kept
    (None: it would cost too much)."""

    every: tuple[PricedOffering, ...]
    asked: list[PricedOffering]
    pools: list[int]
    deals: dict[tuple[int, ...], _Deal | None]

    def deal(self, kept: tuple[int, ...]) -> _Deal | None:
        """These of `asked` alone; None where the cheapest of them is too dear."""
        if kept not in self.deals:
            self.deals[kept] = self._made(kept)
        return self.deals[kept]

    def _made(self, kept: tuple[int, ...]) -> _Deal | None:
        first, chosen = self.asked[kept[0]], {self.asked[place] for place in kept}
        if first.price > self.every[0].price * (1 + FREE_PREMIUM):
            return None
        left_out = set(self.asked) - chosen
        others = tuple(sorted(o for o in self.every if o not in left_out and o != first))
        return _Deal([self.pools[place] for place in kept], first, others, runner_up(first, others), len(left_out))


class _Sharing:
    """Replicas by workload, and how many of them each pool may come to carry."""

    def __init__(self, carried: Iterable[Mapping[str, int]], share: float) -> None:
        self.share = share
        self.total: Counter[str] = Counter()
        self.load: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._most: dict[str, int] = {}
        self._numbers: dict[Pool, int] = {}
        self._choices: dict[tuple[PricedOffering, int, float, int], _Choice] = {}
        for own in carried:
            for workload, count in own.items():
                self.total[workload] += count

    def count_existing(self, snapshot_index: SnapshotIndex, places: AbstractSet[int]) -> None:
        """Replicas that run on these of the nodes around."""
        for workload in tuple(self.total):
            for place, count in snapshot_index.replicas.get(workload, {}).items():
                if place not in places:
                    continue
                self.total[workload] += count
                own = snapshot_index.nodes[place].node.labels
                if own.get(labels.CAPACITY_TYPE) == labels.SPOT:
                    pool = self._number(own.get(labels.INSTANCE_TYPE, ""), own.get(labels.ZONE, ""))
                    self.load[workload][pool] = self.load[workload].get(pool, 0) + count

    def settle(self) -> None:
        """All replicas are counted: how many of each workload a pool may carry follows. One alone cannot be spread."""
        self._most = {w: math.ceil(self.share * total) for w, total in self.total.items() if total >= 2}

    def dealt(self, node: PlannedNode, carried: Mapping[str, int]) -> PlannedNode:
        """The node with offerings that leave every pool its share, if it is a spot node and has such."""
        if node.offering.capacity_type != labels.SPOT:
            return node
        replicas = [(self.load[w], n, self._most[w] - n) for w, n in carried.items() if n <= self._most.get(w, 0)]
        if not replicas:
            return node
        choice = self._choice(node)
        kept = self._kept(choice.pools, replicas, node.spot_offerings)
        deal = choice.deal(kept) if kept else None
        pools = choice.pools if deal is None else deal.pools
        for load, count, _ in replicas:
            for pool in pools:
                load[pool] = load.get(pool, 0) + count
        return node if deal is None or not deal.left_out else _changed(node, deal)

    def _choice(self, node: PlannedNode) -> _Choice:
        """By the identity of its alternatives, which nodes that are alike have in common: the plan holds on to them."""
        key = (node.offering, id(node.alternatives), node.price_spread, node.spot_offerings)
        found = self._choices.get(key)
        if found is None:
            every = (node.offering, *node.alternatives)
            spot = [offering for offering in every if offering.capacity_type == labels.SPOT]
            asked = sorted(within_spread(spot, node.price_spread, node.spot_offerings))
            pools = [self._number(offering.instance_type, offering.zone) for offering in asked]
            found = self._choices[key] = _Choice(every, asked, pools, {})
        return found

    def _number(self, instance_type: str, zone: str) -> int:
        return self._numbers.setdefault((instance_type, zone), len(self._numbers))

    def _kept(self, pools: list[int], replicas: list[tuple[dict[int, int], int, int]], least: int) -> tuple[int, ...]:
        """The places of some of the pools, dear and cheap, that still have room; none: too few to choose from."""
        most = int(self.share * len(pools))
        if most < least:
            return ()
        fine = list(range(len(pools)))
        for load, _, room in replicas:
            fine = [place for place in fine if load.get(pools[place], 0) <= room]
        if len(fine) < least:
            return ()
        return tuple(fine[:: max(1, len(fine) // most)][:most])


def _changed(node: PlannedNode, deal: _Deal) -> PlannedNode:
    return PlannedNode(
        node.provisioner,
        deal.offering,
        deal.alternatives,
        node.requirements,
        node.labels,
        node.taints,
        node.startup_taints,
        node.pods,
        node.requests,
        f"{node.reason}; {deal.left_out} spot pools are left to other nodes of the same workloads",
        deal.runner_up,
        node.price_spread,
        node.spot_offerings,
    )
