"""Spread a workload's spot nodes over spot pools where that costs next to nothing.

EC2 reclaims capacity by pool (an instance type in a zone, as spot): all nodes of a pool are warned together. So nodes
that carry replicas of one workload request different pools, if each has enough pools of about the same price. Then no
pool carries more than `SolveOptions.spot_pool_share` of the replicas, whichever pools EC2 picks.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from controller.core.api import labels
from controller.core.cloud import PricedOffering
from controller.core.provisioning.flexibility import Flexibility
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem, SolveOptions

FREE_PREMIUM = 0.02
"""Spreading is free if it makes the node dearer by at most this share of its price."""


def share_pools(
    plan: SchedulingPlan, problem: SchedulingProblem, options: SolveOptions, snapshot_index: SnapshotIndex
) -> SchedulingPlan:
    """The plan with some spot pools taken from nodes; a node that could be spread only at a price keeps all of its."""
    if options.spot_pool_share >= 1.0:
        return plan
    carried = [workloads(node.pods) for node in plan.new_nodes]
    sharing = _Sharing(carried, options.spot_pool_share)
    if not sharing.total:
        return plan
    if problem.nodes:
        sharing.count_existing(snapshot_index, {snapshot_index.place[node.name] for node in problem.nodes})
    return replace(plan, new_nodes=tuple(map(sharing.shared, plan.new_nodes, carried)))


@dataclass(frozen=True, slots=True)
class _Selection:
    """A node's offerings once it requests only some of its spot pools."""

    pools: list[int]
    offering: PricedOffering
    alternatives: tuple[PricedOffering, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """The offerings that equal nodes choose from.

    offerings: all of a node's, the planned one first. requested: its spot offerings that the first fleet request names,
    cheapest first. pools: their pool numbers. selections: results of `select` by the positions kept.
    """

    offerings: tuple[PricedOffering, ...]
    requested: list[PricedOffering]
    pools: list[int]
    selections: dict[tuple[int, ...], _Selection | None]

    def select(self, kept: tuple[int, ...]) -> _Selection | None:
        """Request only these positions of `requested`; None if the cheapest of them costs too much."""
        if kept not in self.selections:
            first = self.requested[kept[0]]
            left_out = set(self.requested) - {self.requested[position] for position in kept}
            others = tuple(sorted(o for o in self.offerings if o not in left_out and o != first))
            self.selections[kept] = (
                _Selection([self.pools[position] for position in kept], first, others, len(left_out))
                if first.cost <= self.offerings[0].cost * (1 + FREE_PREMIUM)
                else None
            )
        return self.selections[kept]


class _Sharing:
    """Replicas by workload, and how many of them each spot pool may carry at most.

    total: all replicas by workload. load: by workload and pool number, replicas on nodes that may be of the pool.
    """

    def __init__(self, carried: Iterable[Mapping[str, int]], share: float) -> None:
        self.share = share
        self.total: Counter[str] = Counter()
        self.load: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._pool_numbers: dict[tuple[str, str], int] = {}
        self._choices: dict[tuple[PricedOffering, int, Flexibility], _Choice] = {}
        for replicas in carried:
            self.total.update(replicas)

    def count_existing(self, snapshot_index: SnapshotIndex, places: AbstractSet[int]) -> None:
        """Count the replicas that run on these nodes (their places in `snapshot_index.nodes`)."""
        for workload in tuple(self.total):
            for place, count in snapshot_index.replicas.get(workload, {}).items():
                if place not in places:
                    continue
                self.total[workload] += count
                node_labels = snapshot_index.nodes[place].node.labels
                if node_labels.get(labels.CAPACITY_TYPE) == labels.SPOT:
                    pool = self._number(node_labels.get(labels.INSTANCE_TYPE, ""), node_labels.get(labels.ZONE, ""))
                    self.load[workload][pool] = self.load[workload].get(pool, 0) + count

    def shared(self, node: PlannedNode, carried: Mapping[str, int]) -> PlannedNode:
        """The node without pools that would carry too much of its workloads, if it is spot and enough others remain."""
        if node.offering.capacity_type != labels.SPOT:
            return node
        # Per workload on the node: its load by pool, its replicas here, and the load at which a pool still takes these.
        # Workloads with one replica, or with more on this node than a pool may carry, cannot be spread.
        replicas = [
            (self.load[workload], count, self._most(workload) - count)
            for workload, count in carried.items()
            if self.total[workload] >= 2 and count <= self._most(workload)
        ]
        if not replicas:
            return node
        choice = self._choice(node)
        kept = self._with_room(choice.pools, replicas, node.flexibility.spot_offerings)
        selection = choice.select(kept) if kept else None
        for load, count, _ in replicas:
            for pool in choice.pools if selection is None else selection.pools:
                load[pool] = load.get(pool, 0) + count
        if selection is None or not selection.left_out:
            return node
        reason = f"{node.reason}; {selection.left_out} spot pools are left to other nodes of the same workloads"
        return replace(node, offering=selection.offering, alternatives=selection.alternatives, reason=reason)

    def _most(self, workload: str) -> int:
        return math.ceil(self.share * self.total[workload])

    def _choice(self, node: PlannedNode) -> _Choice:
        """Cached by the identity of the alternatives, which equal nodes share and the plan keeps alive."""
        key = (node.offering, id(node.alternatives), node.flexibility)
        choice = self._choices.get(key)
        if choice is None:
            offerings = (node.offering, *node.alternatives)
            spot = [offering for offering in offerings if offering.capacity_type == labels.SPOT]
            requested = sorted(node.flexibility.named(spot))
            pools = [self._number(offering.instance_type, offering.zone) for offering in requested]
            choice = self._choices[key] = _Choice(offerings, requested, pools, {})
        return choice

    def _number(self, instance_type: str, zone: str) -> int:
        return self._pool_numbers.setdefault((instance_type, zone), len(self._pool_numbers))

    def _with_room(
        self, pools: list[int], replicas: list[tuple[dict[int, int], int, int]], least: int
    ) -> tuple[int, ...]:
        """Positions of the `pools` to keep, dear and cheap ones, all with room; empty if fewer than `least` remain."""
        most = int(self.share * len(pools))
        if most < least:
            return ()
        positions = list(range(len(pools)))
        for load, _, room in replicas:
            positions = [position for position in positions if load.get(pools[position], 0) <= room]
        if len(positions) < least:
            return ()
        return tuple(positions[:: max(1, len(positions) // most)][:most])
