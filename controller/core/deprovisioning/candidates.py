"""Candidates: nodes of ours that could be removed of our own will, with what they cost and what removing them costs.

Rules and constants are the peer's (v0.27, deprovisioning: candidate construction and disruption cost), but for two: a
Provisioner whose instance types cannot be listed holds back its own nodes alone, and a node whose type is unknown may
still expire.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.core.api.labels import CAPACITY_TYPE, INSTANCE_TYPE
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, InstanceType
from controller.core.decisions.fleet_cost import node_price
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import Snapshot, StateNode

POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_DELETION_COST_SCALE = 2.0**27
_PRIORITY_SCALE = 2.0**25
_MOST_POD_COST = 10.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that could go. `price` in $/hour, None when nobody knows it; `pods` are those that need another place.

    `cost` is what its removal disrupts: the sum over its pods, less the nearer the node is to its expiry.
    """

    node: StateNode
    provisioner: Provisioner
    instance_type: InstanceType | None
    price: float | None
    pods: tuple[Pod, ...]
    cost: float

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def capacity_type(self) -> str:
        """spot or on-demand."""
        return self.node.node.labels.get(CAPACITY_TYPE, "")


def candidates(
    snapshot: Snapshot, catalog: Catalog, now: float, nodes: Iterable[StateNode] | None = None
) -> tuple[Candidate, ...]:
    """Those of `nodes` (None: of all) that usable Provisioners own. Whether each may go is the gate's to say."""
    found = []
    for node in snapshot.nodes.values() if nodes is None else nodes:
        provisioner = snapshot.provisioners.get(node.provisioner_name)
        if provisioner is not None and provisioner.deleted_at is None:
            found.append(_candidate(node, provisioner, catalog.get(provisioner.name, ()), now))
    return tuple(found)


def _candidate(node: StateNode, provisioner: Provisioner, types: Iterable[InstanceType], now: float) -> Candidate:
    name = node.node.labels.get(INSTANCE_TYPE, "")
    instance_type = next((entry for entry in types if entry.name == name), None)
    pods = leaving_pods(node)
    cost = sum(map(pod_cost, pods)) * lifetime_left(node, provisioner, now)
    return Candidate(node, provisioner, instance_type, node_price(node, instance_type), pods, cost)


def pod_cost(pod: Pod) -> float:
    """clamp(-10, 1 + deletion cost / 2^27 + priority / 2^25, 10); a deletion cost that is no number counts as 0."""
    try:
        deletion_cost = float(pod.annotations.get(POD_DELETION_COST, "0"))
    except ValueError:
        deletion_cost = 0.0
    cost = 1.0 + deletion_cost / _DELETION_COST_SCALE + pod.spec.priority / _PRIORITY_SCALE
    return cost if abs(cost) <= _MOST_POD_COST else (_MOST_POD_COST if cost > 0 else -_MOST_POD_COST)


def lifetime_left(node: StateNode, provisioner: Provisioner, now: float) -> float:
    """The share of its ttlSecondsUntilExpired that the node still has, 0 to 1; 1 without one."""
    ttl = provisioner.ttl_seconds_until_expired
    if ttl is None:
        return 1.0
    if ttl <= 0:
        return 0.0
    return min(1.0, max(0.0, (ttl - (now - node.node.created)) / ttl))
