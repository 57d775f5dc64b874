"""Divide the price of each node among its pods, by what they request.

A pod's share of a node is the mean of its shares of the node's allocatable CPU and memory. DaemonSets' pods count as
any other; what no pod requests is idle, and belongs to nobody. Shares beyond the whole node are scaled down to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.cli.cluster.node_facts import Prices, price_of
from controller.cli.cluster.simulation_report import workload_of
from controller.core.api.pod import Pod
from controller.core.state.snapshot import Snapshot, StateNode

TEMPLATE_HASH = "pod-template-hash"
"""Label of a Deployment's pods: what its ReplicaSet's name ends in."""
COUNTED = ("cpu", "memory")
"""Resources whose shares make up a pod's share of its node."""


@dataclass(frozen=True, slots=True)
class Cost:
    """$ an hour of some pods, and how many there are."""

    price_per_hour: float = 0.0
    pods: int = 0

    def plus(self, price_per_hour: float) -> Cost:
        """With one pod more."""
        return Cost(self.price_per_hour + price_per_hour, self.pods + 1)


@dataclass(frozen=True, slots=True)
class Costs:
    """$ an hour: by (namespace, workload), what no pod requests, and in all; `unpriced`: nodes of unknown price."""

    workloads: Mapping[tuple[str, str], Cost]
    idle_per_hour: float
    price_per_hour: float
    unpriced: tuple[str, ...] = ()

    @property
    def namespaces(self) -> Mapping[str, Cost]:
        """The same by namespace."""
        sums: defaultdict[str, Cost] = defaultdict(Cost)
        for (namespace, _), cost in self.workloads.items():
            held = sums[namespace]
            sums[namespace] = Cost(held.price_per_hour + cost.price_per_hour, held.pods + cost.pods)
        return dict(sums)


def costs_of(snapshot: Snapshot, prices: Prices) -> Costs:
    """What the pods on all nodes cost, whoever made the nodes."""
    workloads: defaultdict[tuple[str, str], Cost] = defaultdict(Cost)
    idle = total = 0.0
    unpriced = []
    for node in snapshot.nodes.values():
        price = price_of(node, prices)
        if price is None:
            unpriced.append(node.name)
            continue
        total += price
        shares = list(_shares(node))
        scale = max(1.0, sum(share for _, share in shares))
        idle += price * max(0.0, 1.0 - sum(share for _, share in shares))
        for pod, share in shares:
            key = pod.namespace, _workload(pod)
            workloads[key] = workloads[key].plus(price * share / scale)
    return Costs(dict(workloads), idle, total, tuple(sorted(unpriced)))


def _workload(pod: Pod) -> str:
    """The name of its owner; of a Deployment's pod, the Deployment's."""
    name = workload_of(pod).partition("/")[2]
    return name.removesuffix(f"-{pod.labels.get(TEMPLATE_HASH, '')}") if pod.labels.get(TEMPLATE_HASH) else name


def _shares(node: StateNode) -> Iterable[tuple[Pod, float]]:
    """Each running pod with its share of the node."""
    room = [(name, node.allocatable.get(name, 0)) for name in COUNTED]
    for pod in node.pods:
        if not pod.terminal:
            parts = [pod.spec.requests.get(name, 0) / amount for name, amount in room if amount]
            yield pod, sum(parts) / len(parts) if parts else 0.0
