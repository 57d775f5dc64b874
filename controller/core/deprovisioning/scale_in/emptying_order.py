"""The order in which a scale-in should empty the nodes that consolidation may take.

Consolidation prefers nodes that waste much for what their removal disrupts. When ReplicaSets are scaled in, the pods
that they delete disrupt nothing more; what is left on a node has to be evicted. So the next node is the one that is
empty soonest: of its pods, how large a share of their ReplicaSets has to go until they go, on the mean, if all pods of
the nodes before it go first. Pods that no ReplicaSet of several replicas owns count as the last of one. The node's used
share (of cpu or memory, whichever is larger) is a factor: what is half empty would be consolidated first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.consolidation_search import consolidatable, used_share
from controller.core.deprovisioning.gate import Gate
from controller.core.provisioning.resource_space import Floats, Ints

MOST_RANKED = 1_000
"""Nodes that are put in order; the others count as last."""
_PASSING = ("pdb", "nominated")
"""Refusals of the gate that do not count: pods that their ReplicaSet deletes are not evicted."""


def emptying_order(candidates: Iterable[Candidate], gate: Gate) -> list[Candidate]:
    """Return the nodes that consolidation may empty, the first to be emptied first; at most MOST_RANKED."""
    nodes = [each for each in candidates if each.pods and each.price is not None and _may_go(each, gate)]
    nodes.sort(key=lambda each: (-each.cost, each.name))
    return [nodes[number] for number in _greedy(nodes)]


def _may_go(candidate: Candidate, gate: Gate) -> bool:
    refusal = gate.refusal(candidate)
    return consolidatable(candidate) and (refusal is None or refusal.kind in _PASSING)


def _greedy(nodes: Sequence[Candidate]) -> list[int]:
    """Return numbers of the nodes in order.

    late: nodes; the sum over a node's pods of the share of their ReplicaSet that goes until they go.
    """
    replicas = _replicas(nodes)
    late, weight = np.zeros(len(nodes)), np.array([used_share(each) / len(each.pods) for each in nodes])
    owned = np.zeros(len(nodes))
    for places, counts in replicas:
        late[places] += counts * counts / counts.sum()
        owned[places] += counts
    late += np.array([len(each.pods) for each in nodes]) - owned
    of_node: dict[int, list[tuple[Ints, Floats, float]]] = defaultdict(list)
    for places, counts in replicas:
        for place, count in zip(places.tolist(), counts.tolist(), strict=True):
            of_node[place].append((places, counts, count / float(counts.sum())))
    order: list[int] = []
    left = np.ones(len(nodes), dtype=np.bool_)
    while left.any() and len(order) < MOST_RANKED:
        chosen = int(np.argmin(np.where(left, late * weight, np.inf)))
        left[chosen] = False
        order.append(chosen)
        for places, counts, share in of_node[chosen]:
            late[places] += counts * share
    return order


def _replicas(nodes: Sequence[Candidate]) -> list[tuple[Ints, Floats]]:
    """Return, for each ReplicaSet of several replicas, the numbers of its nodes, and how many pods each has."""
    counts: dict[str, dict[int, int]] = defaultdict(dict)
    for number, node in enumerate(nodes):
        for pod in node.pods:
            if pod.owned_by("apps/v1", "ReplicaSet"):
                own = counts[pod.owners[0].uid]
                own[number] = own.get(number, 0) + 1
    several = (own for own in counts.values() if sum(own.values()) > 1)
    return [(np.array(list(own), dtype=np.int64), np.array(list(own.values()), dtype=np.float64)) for own in several]
