"""Candidates: nodes of Provisioners that could be removed voluntarily, what they cost and what their removal disrupts.

Rules and constants are those of Karpenter v0.27 (pkg/controllers/deprovisioning: candidate construction and disruption
cost) with two exceptions: a Provisioner whose instance types cannot be listed affects its own nodes only, and a node of
unknown instance type may still expire.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, InstanceType, PricedOffering
from controller.core.decisions.fleet_cost import node_cost
from controller.core.deprovisioning.scale_in.deletion_costs import COST_ANNOTATION, written
from controller.core.provisioning.plan import NOTHING_BESIDE, Beside
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import Snapshot, StateNode

_DELETION_COST_SCALE = 2.0**27
_PRIORITY_SCALE = 2.0**25
_MOST_POD_COST = 10.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that could be removed; `pods` would have to move.

    `offering`: its own, with what the node costs beside the price and surplus CPU; None when its price is not known.
    `disruption`: disruption cost, the sum of its pods' costs times the share of its lifetime that is left.
    """

    node: StateNode
    provisioner: Provisioner
    instance_type: InstanceType | None
    offering: PricedOffering | None
    pods: tuple[Pod, ...]
    disruption: float

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def price(self) -> float | None:
        """$ an hour of the instance; None when it is not known."""
        return None if self.offering is None else self.offering.price

    @property
    def cost(self) -> float:
        """Total $ an hour, as in plans; 0 when the price is not known."""
        return 0.0 if self.offering is None else self.offering.cost


def candidates(
    snapshot: Snapshot,
    catalog: Catalog,
    now: float,
    nodes: Iterable[StateNode] | None = None,
    *,
    beside: Beside = NOTHING_BESIDE,
) -> tuple[Candidate, ...]:
    """Return those of `nodes` (None: of all) that valid Provisioners own. beside: what counts beside their prices."""
    owned = (
        (node, snapshot.provisioners.get(node.provisioner_name))
        for node in (snapshot.nodes.values() if nodes is None else nodes)
    )
    return tuple(
        _candidate(node, owner, catalog.get(owner.name, ()), now, beside)
        for node, owner in owned
        if owner is not None and owner.deleted_at is None
    )


def _candidate(
    node: StateNode, provisioner: Provisioner, types: Iterable[InstanceType], now: float, beside: Beside
) -> Candidate:
    instance_type = next((entry for entry in types if entry.name == node.node.instance_type), None)
    pods = leaving_pods(node)
    disruption = sum(map(pod_cost, pods)) * lifetime_left(node, provisioner, now)
    return Candidate(node, provisioner, instance_type, node_cost(node, instance_type, beside), pods, disruption)


def pod_cost(pod: Pod) -> float:
    """Return 1 + deletion cost / 2^27 + priority / 2^25, between -10 and 10.

    A deletion cost that is no number counts as 0, and so does one that the controller wrote: it follows from the node.
    """
    try:
        deletion_cost = 0.0 if written(pod) else float(pod.annotations.get(COST_ANNOTATION, "0"))
    except ValueError:
        deletion_cost = 0.0
    cost = 1.0 + deletion_cost / _DELETION_COST_SCALE + pod.spec.priority / _PRIORITY_SCALE
    return min(_MOST_POD_COST, max(-_MOST_POD_COST, cost))


def lifetime_left(node: StateNode, provisioner: Provisioner, now: float) -> float:
    """Return the share of its ttlSecondsUntilExpired that the node still has, 0 to 1; 1 without one."""
    ttl = provisioner.disruption.expire_after_seconds
    if ttl is None:
        return 1.0
    if ttl <= 0:
        return 0.0
    return min(1.0, max(0.0, (ttl - (now - node.node.created)) / ttl))
