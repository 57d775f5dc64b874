"""The filters that look at one node at a time, in kube-scheduler's order; the first plugin that refuses gives the
reasons."""

from __future__ import annotations

from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import EVERY_ADDRESS, HostPort, PodInfo
from sandbox.world.scheduling.taints import Taint, first_untolerated
from sandbox.world.scheduling.view import Rejection

UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def node_unschedulable(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """A cordoned node takes only pods that tolerate `node.kubernetes.io/unschedulable`."""
    if node.unschedulable and first_untolerated((UNSCHEDULABLE_TAINT,), pod.tolerations):
        return Rejection("NodeUnschedulable", ("node(s) were unschedulable",), resolvable=False)
    return None


def node_name(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """spec.nodeName fixes the node."""
    if pod.node_name and pod.node_name != node.name:
        return Rejection("NodeName", ("node(s) didn't match the requested node name",), resolvable=False)
    return None


def taint_toleration(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """Every NoSchedule and NoExecute taint must be tolerated."""
    if first_untolerated(node.taints, pod.tolerations):
        return Rejection("TaintToleration", ("node(s) had untolerated taint(s)",), resolvable=False)
    return None


def matches_node(pod: PodInfo, node: NodeInfo) -> bool:
    """nodeSelector and required node affinity together (also what spread's nodeAffinityPolicy asks)."""
    if not all(requirement.matches(node.labels) for requirement in pod.node_selector):
        return False
    return pod.required_nodes is None or pod.required_nodes.matches(node.name, node.labels)


def named_nodes(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """Affinity terms that all fix metadata.name restrict which nodes are looked at, before any other filter."""
    if pod.required_nodes is not None:
        names = pod.required_nodes.node_names()
        if names is not None and node.name not in names:
            return Rejection("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), resolvable=False)
    return None


def node_affinity(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """nodeSelector and required node affinity."""
    if not matches_node(pod, node):
        return Rejection("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), resolvable=False)
    return None


def node_ports(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """A host port can be held once per protocol and address; 0.0.0.0 is every address."""
    if pod.host_ports:
        used = node.used_ports()
        if any(ports_conflict(wanted, held) for wanted in pod.host_ports for held in used):
            reason = "node(s) didn't have free ports for the requested pod ports"
            return Rejection("NodePorts", (reason,), resolvable=True)
    return None


def ports_conflict(one: HostPort, other: HostPort) -> bool:
    """Same protocol and port, and addresses that overlap."""
    if one[0] != other[0] or one[2] != other[2]:
        return False
    return one[1] == other[1] or EVERY_ADDRESS in (one[1], other[1])


def node_resources(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """Requests must fit into allocatable less what is requested; every lacking resource is named."""
    reasons = []
    resolvable = True
    allocatable, requested = node.allocatable, node.requested
    if len(node.pods) + 1 > allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for name, quantity in pod.requests.items():
        limit = allocatable.get(name, 0)
        if quantity > 0 and quantity > limit - requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and quantity <= limit
    if reasons:
        return Rejection("NodeResourcesFit", tuple(reasons), resolvable=resolvable)
    return None


NODE_FILTERS = (
    named_nodes,
    node_unschedulable,
    node_name,
    taint_toleration,
    node_affinity,
    node_ports,
    node_resources,
)


def first_rejection(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """The answer of the first filter of `NODE_FILTERS` that refuses."""
    for check in NODE_FILTERS:
        rejection = check(pod, node)
        if rejection is not None:
            return rejection
    return None
