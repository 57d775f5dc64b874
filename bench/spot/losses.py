"""Simulate correlated losses of spot capacity.

EC2 picks one of the offerings that a node names first, and reclaims a pool (a type in a zone), a family or a zone, each
as likely as any other with spot nodes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from controller.core.api import labels
from controller.core.provisioning import SchedulingPlan
from controller.core.provisioning.placed_pods import workloads
from controller.core.provisioning.solver.pool_sharing import Domain, domains_of

LOSSES = 1_000
LEAST_REPLICAS = 4
SHARE = 0.5
"""A workload that loses more of its replicas at once has failed."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Of a plan's workloads: how many have LEAST_REPLICAS or more, and which of these lost over SHARE in some loss.

    failed: by name, the kinds of loss that took that much: "pool", "family", "zone".
    """

    workloads: int
    failed: Mapping[str, frozenset[str]]


def losses(plan: SchedulingPlan, seed: int = 1, count: int = LOSSES) -> Losses:
    """Simulate so many losses."""
    chance = random.Random(seed)
    carried = [workloads(node.pods) for node in plan.new_nodes]
    total: Counter[str] = Counter()
    for own in carried:
        total.update(own)
    large = {name for name, replicas in total.items() if replicas >= LEAST_REPLICAS}
    spot = [(n, own) for n, own in zip(plan.new_nodes, carried, strict=True) if n.offering.capacity_type == labels.SPOT]
    failed: dict[str, frozenset[str]] = {}
    for _ in range(count if spot else 0):
        picked = [(chance.choice(node.named), own) for node, own in spot]
        domains = sorted({domain for o, _ in picked for domain in domains_of(o.instance_type, o.zone)})
        lost = chance.choice(domains)
        gone: Counter[str] = Counter()
        for offering, own in picked:
            if lost in domains_of(offering.instance_type, offering.zone):
                gone.update(own)
        for name in large:
            if gone[name] > SHARE * total[name]:
                failed[name] = failed.get(name, frozenset()) | {_kind(lost)}
    return Losses(len(large), failed)


def _kind(domain: Domain) -> str:
    name, zone = domain
    return "pool" if name and zone else "zone" if zone else "family"
