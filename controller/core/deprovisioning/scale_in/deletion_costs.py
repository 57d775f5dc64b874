"""Pod deletion costs: which pods their ReplicaSets should delete first when they are scaled in.

A ReplicaSet that is scaled in deletes pods of the lowest `controller.kubernetes.io/pod-deletion-cost` first (after pods
that do not run or are not ready: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost).
Pods on the nodes that consolidation would empty first get the lowest, so that a scale-in empties these nodes without an
eviction. The cost depends on the node's rank alone: -SCALE on the first node, near 0 on the last. Pods on nodes that
consolidation must leave alone have none, which counts as 0.

A node keeps its cost until its rank has moved by more than TOLERANCE of all ranks. What was written is known by a
second annotation on the pod with the same value; where the two differ, a user or another controller sets the cost. A
ReplicaSet with such a pod is left alone: our costs would change the order that was asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.core.api.labels import COST_ANNOTATION as COST_ANNOTATION
from controller.core.api.labels import WRITTEN_ANNOTATION as WRITTEN_ANNOTATION
from controller.core.api.pod import Pod
from controller.core.state.snapshot import Snapshot

SCALE: Final = 10_000
TOLERANCE: Final = 0.15
"""Share of all ranks by which a node's rank may differ from the one that its cost was written for."""
SETTLED_SECONDS: Final = 30.0
"""Younger pods get no cost: they may be of a rollout or a Job's burst, and gone soon."""


@dataclass(frozen=True, slots=True)
class CostChange:
    """A cost to write on a pod; None: take ours off."""

    pod: Pod
    cost: int | None

    @property
    def annotations(self) -> dict[str, str | None]:
        """Both annotations as they should be; None removes one. A cost that is not ours stays."""
        if self.cost is not None:
            return dict.fromkeys((COST_ANNOTATION, WRITTEN_ANNOTATION), str(self.cost))
        return dict.fromkeys((COST_ANNOTATION, WRITTEN_ANNOTATION) if written(self.pod) else (WRITTEN_ANNOTATION,))


def written(pod: Pod) -> bool:
    """Return whether the pod's cost is the one that we wrote."""
    cost = pod.annotations.get(COST_ANNOTATION)
    return cost is not None and cost == pod.annotations.get(WRITTEN_ANNOTATION)


def removals(snapshot: Snapshot) -> list[CostChange]:
    """Take every cost off that we wrote."""
    written_on = (pod for pod in snapshot.pods.values() if WRITTEN_ANNOTATION in pod.annotations)
    return [CostChange(pod, None) for pod in written_on if not pod.terminating]


def changes(snapshot: Snapshot, ranking: Sequence[str], now: float) -> list[CostChange]:
    """Return what to write, the most important first: costs of the first nodes in the ranking; costs to remove last.

    Where somebody has removed a cost, the annotation beside it stays: by that it is known that none is wanted.
    ranking: names of the nodes that consolidation may empty, in the order in which it would. now: Unix seconds.
    """
    wanted: dict[str, list[Pod]] = defaultdict(list)
    for pods in _scalable_replicas(snapshot):
        for pod in pods:
            wanted[pod.node_name].append(pod)
    ranks = {name: rank for rank, name in enumerate(ranking)}
    costs = _node_costs(ranks, wanted)
    writes = [
        CostChange(pod, costs[name])
        for name in ranking
        for pod in wanted.get(name, ())
        if _written_cost(pod) != costs[name] and (written(pod) or now - pod.created >= SETTLED_SECONDS)
    ]
    kept = {pod.key for name in ranking for pod in wanted.get(name, ())}
    unwanted = (change for change in removals(snapshot) if COST_ANNOTATION in change.pod.annotations)
    return writes + [change for change in unwanted if change.pod.key not in kept]


def _scalable_replicas(snapshot: Snapshot) -> Iterable[list[Pod]]:
    """Yield the bound pods of each ReplicaSet that has several, unless another writer sets their costs."""
    replicas: dict[str, list[Pod]] = defaultdict(list)
    for pod in snapshot.pods.values():
        if pod.owned_by("apps/v1", "ReplicaSet") and not pod.terminal and not pod.terminating and pod.node_name:
            replicas[pod.owners[0].uid].append(pod)
    for pods in replicas.values():
        if len({pod.node_name for pod in pods}) > 1 and not any(map(_others_decide, pods)):
            yield pods


def _others_decide(pod: Pod) -> bool:
    """Return whether another writer set, changed or removed the cost."""
    return (COST_ANNOTATION in pod.annotations or WRITTEN_ANNOTATION in pod.annotations) and not written(pod)


def _node_costs(ranks: Mapping[str, int], pods: Mapping[str, Sequence[Pod]]) -> dict[str, int]:
    """Return the cost of each ranked node: the one that most of its pods have, where its rank still allows it."""
    costs: dict[str, int] = {}
    for name, rank in ranks.items():
        cost = -SCALE + SCALE * rank // len(ranks)
        current = Counter(filter(None, map(_written_cost, pods.get(name, ()))))
        near = [known for known, _ in current.most_common() if abs(known - cost) <= TOLERANCE * SCALE]
        costs[name] = near[0] if near else cost
    return costs


def _written_cost(pod: Pod) -> int | None:
    """Return the cost that the controller wrote on the pod; None without one, or if it is no number."""
    if not written(pod):
        return None
    try:
        return int(pod.annotations[COST_ANNOTATION])
    except ValueError:
        return None
