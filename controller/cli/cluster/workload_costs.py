"""Divide the price of each node among its pods, by what they request.

A pod's share of a node is the mean of its shares of the node's allocatable CPU and memory. DaemonSets' pods count as
any other; what no pod requests is idle, and charged to no workload. Shares beyond the whole node are scaled down to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.cli.cluster.node_facts import Prices, price_of
from controller.cli.cluster.simulation import Simulation
from controller.core.api.frozen import EMPTY
from controller.core.api.pod import Pod, Resources
from controller.core.provisioning import PlannedNode
from controller.core.state.snapshot import StateNode

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
        """Return the cost with one pod more."""
        return Cost(self.price_per_hour + price_per_hour, self.pods + 1)


@dataclass(frozen=True, slots=True)
class Costs:
    """$ an hour: by (namespace, workload), of DaemonSets where a plan counts them, what no pod requests, and in all."""

    workloads: Mapping[tuple[str, str], Cost]
    idle_per_hour: float
    price_per_hour: float
    unpriced: tuple[str, ...] = ()
    """Names of nodes of unknown price, which are left out."""
    daemons_per_hour: float = 0.0
    """Of the DaemonSets on planned nodes; those on existing nodes are workloads as any other."""

    @property
    def namespaces(self) -> Mapping[str, Cost]:
        sums: defaultdict[str, Cost] = defaultdict(Cost)
        for (namespace, _), cost in self.workloads.items():
            held = sums[namespace]
            sums[namespace] = Cost(held.price_per_hour + cost.price_per_hour, held.pods + cost.pods)
        return dict(sums)


def costs_of(nodes: Iterable[StateNode], prices: Prices) -> Costs:
    """Return what the running pods on these nodes cost, whoever made the nodes."""
    sums = _Sums()
    for node in nodes:
        price = price_of(node, prices)
        if price is None:
            sums.unpriced.append(node.name)
        else:
            sums.divide(price, node.allocatable, (pod for pod in node.pods if not pod.terminal))
    return sums.costs()


def planned_costs(simulation: Simulation) -> Costs:
    """Return what the pods on the new nodes of a plan cost. Pods on existing nodes cost nothing more."""
    sums = _Sums()
    for node in simulation.plan.new_nodes:
        pods = [simulation.pods[key] for key in node.pods if key in simulation.pods]
        sums.divide(node.offering.price, simulation.allocatable(node), pods, _daemons(node, pods))
    return sums.costs()


@dataclass(slots=True)
class _Sums:
    workloads: defaultdict[tuple[str, str], Cost] = field(default_factory=lambda: defaultdict(Cost))
    unpriced: list[str] = field(default_factory=list)
    idle: float = 0.0
    total: float = 0.0
    daemons: float = 0.0

    def divide(self, price: float, room: Resources, pods: Iterable[Pod], daemons: Mapping[str, int] = EMPTY) -> None:
        """Divide a node's $/hour; `daemons`: what DaemonSets request beside the pods."""
        counted = [(name, room.get(name, 0)) for name in COUNTED if room.get(name, 0)]
        shares = [(pod, _share(pod.spec.requests, counted)) for pod in pods]
        beside = _share(daemons, counted)
        taken = beside + sum(share for _, share in shares)
        scale = price / max(1.0, taken)
        self.total += price
        self.idle += price * max(0.0, 1.0 - taken)
        self.daemons += scale * beside
        for pod, share in shares:
            key = pod.namespace, _workload(pod)
            self.workloads[key] = self.workloads[key].plus(scale * share)

    def costs(self) -> Costs:
        return Costs(dict(self.workloads), self.idle, self.total, tuple(sorted(self.unpriced)), self.daemons)


def _share(requests: Mapping[str, int], room: Sequence[tuple[str, int]]) -> float:
    return sum(requests.get(name, 0) / amount for name, amount in room) / len(room) if room else 0.0


def _daemons(node: PlannedNode, pods: Iterable[Pod]) -> Mapping[str, int]:
    """Return what a planned node's DaemonSets request: all its requests without its pods'."""
    left = dict(node.requests)
    for pod in pods:
        for name in COUNTED:
            left[name] = left.get(name, 0) - pod.spec.requests.get(name, 0)
    return {name: max(0, left.get(name, 0)) for name in COUNTED}


def workload_of(pod: Pod) -> str:
    """Return NAMESPACE/OWNER, or NAMESPACE/POD without an owner."""
    owner = next(iter(pod.owners), None)
    return f"{pod.namespace}/{owner.name}" if owner else f"{pod.namespace}/{pod.name}"


def _workload(pod: Pod) -> str:
    """Return the name of its owner; of a Deployment's pod, the Deployment's."""
    name = workload_of(pod).partition("/")[2]
    return name.removesuffix(f"-{pod.labels.get(TEMPLATE_HASH, '')}") if pod.labels.get(TEMPLATE_HASH) else name
