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
from dataclasses import replace

from controller.core.api import labels
from controller.core.cloud import PricedOffering
from controller.core.provisioning.flexibility import runner_up, within_spread
from controller.core.provisioning.placed import workloads
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem, SolveOptions
from controller.core.provisioning.surroundings import Surroundings

Pool = tuple[str, str]
"""Instance type and zone."""
FREE_PREMIUM = 0.02
"""Spread is free where the node gets dearer by no more than this share."""


def share_pools(
    plan: SchedulingPlan, problem: SchedulingProblem, options: SolveOptions, around: Surroundings
) -> SchedulingPlan:
    """The plan with spot nodes' offerings dealt out; nodes that could only be spread at a price stay as they are."""
    if options.spot_pool_share >= 1.0:
        return plan
    sharing = _Sharing(plan.new_nodes, options)
    if not sharing.total:
        return plan
    if problem.nodes:
        sharing.count_standing(around, {around.place[node.name] for node in problem.nodes})
    return replace(plan, new_nodes=tuple(sharing.dealt(node) for node in plan.new_nodes))


class _Sharing:
    """Replicas by workload, and how many of them each pool may come to carry."""

    def __init__(self, nodes: Iterable[PlannedNode], options: SolveOptions) -> None:
        self.options = options
        self.total: Counter[str] = Counter()
        self.load: defaultdict[str, Counter[Pool]] = defaultdict(Counter)
        for node in nodes:
            for workload, count in workloads(node.pods).items():
                self.total[workload] += count

    def count_standing(self, around: Surroundings, places: AbstractSet[int]) -> None:
        """Replicas that run on these of the nodes around."""
        for workload in tuple(self.total):
            for place, count in around.replicas.get(workload, {}).items():
                if place not in places:
                    continue
                self.total[workload] += count
                own = around.nodes[place].node.labels
                if own.get(labels.CAPACITY_TYPE) == labels.SPOT:
                    pool = (own.get(labels.INSTANCE_TYPE, ""), own.get(labels.ZONE, ""))
                    self.load[workload][pool] += count

    def dealt(self, node: PlannedNode) -> PlannedNode:
        """The node with offerings that leave every pool its share, if it is a spot node and has such."""
        if node.offering.capacity_type != labels.SPOT:
            return node
        spot = [o for o in (node.offering, *node.alternatives) if o.capacity_type == labels.SPOT]
        asked = within_spread(spot, node.price_spread, node.spot_offerings)
        replicas = {w: n for w, n in workloads(node.pods).items() if self.total[w] >= 2 and n <= self._cap(w)}
        kept = self._kept(asked, replicas, node.spot_offerings) if replicas else None
        if kept is None or kept[0].price > node.offering.price * (1 + FREE_PREMIUM):
            kept = asked
        elif len(kept) < len(asked):
            node = self._changed(node, set(asked) - set(kept), kept[0])
        for workload, count in replicas.items():
            for offering in kept:
                self.load[workload][_pool(offering)] += count
        return node

    def _cap(self, workload: str) -> int:
        return math.ceil(self.options.spot_pool_share * self.total[workload])

    def _kept(
        self, asked: list[PricedOffering], replicas: Mapping[str, int], least: int
    ) -> list[PricedOffering] | None:
        """Some of the pools, dear and cheap, that still have room for the replicas; None: too few to choose from."""
        fine = [
            offering
            for offering in sorted(asked)
            if all(self.load[w][_pool(offering)] + n <= self._cap(w) for w, n in replicas.items())
        ]
        most = int(self.options.spot_pool_share * len(asked))
        if most < least or len(fine) < least:
            return None
        return fine[:: max(1, len(fine) // most)][:most]

    def _changed(self, node: PlannedNode, left_out: set[PricedOffering], first: PricedOffering) -> PlannedNode:
        others = [o for o in (node.offering, *node.alternatives) if o not in left_out and o != first]
        alternatives = tuple(sorted(others))
        reason = f"{node.reason}; {len(left_out)} spot pools are left to other nodes of the same workloads"
        return replace(
            node,
            offering=first,
            alternatives=alternatives,
            runner_up=runner_up(first, alternatives),
            reason=reason,
        )


def _pool(offering: PricedOffering) -> Pool:
    return (offering.instance_type, offering.zone)
