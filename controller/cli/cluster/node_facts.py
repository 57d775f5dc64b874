"""Type, price, use and owner of a node, whoever made it: a Provisioner, a node group, Fargate, another autoscaler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.core.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from controller.core.api.pod import Pod, Resources
from controller.core.state.snapshot import StateNode

Prices = Mapping[tuple[str, str, str], float]
"""$/hour by (instance type, zone, capacity type)."""

EKS_CAPACITY_TYPE = "eks.amazonaws.com/capacityType"
NODE_POOL = "karpenter.sh/nodepool"
EKS_NODE_GROUP = "eks.amazonaws.com/nodegroup"
EKSCTL_NODE_GROUP = "alpha.eksctl.io/nodegroup-name"
COMPUTE_TYPE = "eks.amazonaws.com/compute-type"
FARGATE = "fargate"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. `requested` sums its pods' requests; price in $/hour, None when unknown."""

    name: str
    instance_type: str
    zone: str
    capacity_type: str
    owner: str
    """Provisioner, NodePool or node group; fargate; or empty."""
    state: str
    age_seconds: float
    price_per_hour: float | None
    pods: int
    allocatable: Resources
    requested: Mapping[str, int]
    labels: Mapping[str, str]

    def use(self, resource: str) -> float:
        """Return requested over allocatable; 0 where there is none of it."""
        have = self.allocatable.get(resource, 0)
        return self.requested.get(resource, 0) / have if have else 0.0


def node_facts(node: StateNode, prices: Prices, now: float) -> NodeFacts:
    """Return the facts of a node; `now` in Unix seconds."""
    labels = node.node.labels
    kind, zone, capacity = offering_of(node)
    return NodeFacts(
        name=node.name,
        instance_type=kind or ("fargate" if capacity == FARGATE else "?"),
        zone=zone,
        capacity_type=capacity,
        owner=owner(labels),
        state=state(node),
        age_seconds=now - node.node.created if node.node.created else 0.0,
        price_per_hour=price_of(node, prices),
        pods=len(node.pods),
        allocatable=node.allocatable,
        requested=requested(node.pods),
        labels=labels,
    )


def offering_of(node: StateNode) -> tuple[str, str, str]:
    """Return (instance type, zone, capacity type) by the node's labels: its key in Prices."""
    labels = node.node.labels
    return labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, ""), capacity_type(labels)


def price_of(node: StateNode, prices: Prices) -> float | None:
    """Return the $/hour of a node; None when unknown."""
    return prices.get(offering_of(node))


def capacity_type(labels: Mapping[str, str]) -> str:
    """Return spot, on-demand or fargate: by Karpenter's label, else EKS's, else on-demand."""
    if labels.get(COMPUTE_TYPE) == FARGATE:
        return FARGATE
    known = labels.get(CAPACITY_TYPE) or labels.get(EKS_CAPACITY_TYPE, "")
    return known.lower().replace("_", "-") or "on-demand"


def owner(labels: Mapping[str, str]) -> str:
    """Return the Provisioner, NodePool, node group or `fargate` named by the labels; empty when unknown."""
    keys = ("karpenter.sh/provisioner-name", NODE_POOL, EKS_NODE_GROUP, EKSCTL_NODE_GROUP, COMPUTE_TYPE)
    return next((labels[key] for key in keys if labels.get(key)), "")


def state(node: StateNode) -> str:
    if node.leaving:
        return "leaving"
    if not node.node.ready:
        return "starting" if node.provisioner_name and not node.initialized else "NotReady"
    if node.node.unschedulable:
        return "cordoned"
    return "starting" if node.provisioner_name and not node.initialized else "Ready"


def requested(pods: Iterable[Pod]) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.spec.requests.items():
            total[name] = total.get(name, 0) + amount
    return total
