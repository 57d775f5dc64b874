"""Build a SchedulingProblem from a snapshot and a catalog: pods, nodes, Provisioners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod, PodKey
from controller.core.api.provisioner import Provisioner
from controller.core.api.replicas import Pods
from controller.core.cloud import Catalog
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.state.snapshot import Snapshot, StateNode


def provisionable(pod: Pod, snapshot: Snapshot) -> bool:
    """Return whether a pod waits for capacity: unschedulable, not preempting others, not of a DaemonSet, not static.

    Unlike Karpenter v0.27, pods that are terminating or terminal do not count: kube-scheduler will not bind them.
    """
    return pod.unschedulable and not pod.node_name and reschedulable(pod) and not preempting(pod, snapshot)


def preempting(pod: Pod, snapshot: Snapshot) -> bool:
    """Return whether kube-scheduler is removing pods for this one: pods of lower priority end on its nominated node.

    Karpenter v0.27 takes every nominated pod for one, but others may nominate too (KEP 5278).
    """
    node = snapshot.nodes.get(pod.nominated_node_name) if pod.nominated_node_name else None
    return node is not None and pod.spec.may_preempt and node.lowest_ending < pod.spec.priority


def depends_on_pods(pod: Pod) -> bool:
    """Return whether the placement of the pod, or of others, depends on where other pods run."""
    spec = pod.spec
    spread = any(each.required for each in spec.topology_spread)
    return bool(spread or spec.required_pod_affinity or spec.required_pod_anti_affinity or pod.volumes)


def reschedulable(pod: Pod) -> bool:
    """Return whether a pod must be placed elsewhere when its node is removed: it stays, and is not tied to the node."""
    return not (pod.deleted_at is not None or pod.terminal or pod.tied_to_node)


def opted_out(pod: Pod) -> bool:
    """Return whether the pod opts out by `karpenter.sh/provisioner-name DoesNotExist` in every affinity term."""
    terms = pod.spec.required_node_affinity
    if not terms:
        return False
    return all(
        any(e.key == labels.PROVISIONER_NAME and e.operator == "DoesNotExist" for e in term.match_expressions)
        for term in terms
    )


def build(
    snapshot: Snapshot,
    catalog: Catalog,
    pods: Iterable[Pod] | None = None,
    without_nodes: frozenset[str] = frozenset(),
    skipped: Mapping[str, str] | None = None,
) -> SchedulingProblem:
    """Return the problem of placing `pods` (None: all that `waiting` yields).

    without_nodes: nodes treated as leaving: they take no pods, and theirs are to be placed. skipped: why Provisioners
    cannot be used, by name; those that are being deleted, invalid or without instance types are added.
    """
    reasons = dict(skipped or {})
    usable = tuple(sorted(_usable(snapshot, catalog, reasons), key=lambda p: (-p.weight, p.name)))
    wanted = pods if pods is not None else waiting(snapshot, without_nodes)
    served = Pods.of(wanted).only(lambda pod: not opted_out(pod))
    known = snapshot.nodes
    nodes = [known[name] for name in sorted(known) if name not in without_nodes and known[name].takes_pods]
    return SchedulingProblem(
        pending=served,
        nodes=tuple(nodes),
        provisioners=usable,
        catalog=FrozenMap({p.name: tuple(catalog[p.name]) for p in usable}),
        snapshot=snapshot,
        skipped=FrozenMap(dict(sorted(reasons.items()))),
        without_nodes=without_nodes,
    )


pod_key: Callable[[Pod], PodKey] = attrgetter("namespace", "name")
"""A pod's (namespace, name)."""


def _usable(snapshot: Snapshot, catalog: Catalog, reasons: dict[str, str]) -> Iterator[Provisioner]:
    for provisioner in snapshot.provisioners.values():
        name = provisioner.name
        if name in reasons:
            continue
        if provisioner.deleted_at is not None:
            reasons[name] = "it is being deleted"
        elif not catalog.get(name):
            reasons[name] = "no instance types are known for it"
        else:
            yield provisioner
    for (kind, name), invalid in snapshot.invalid.items():
        if kind == "Provisioner":
            reasons.setdefault(name, f"it is not valid: {invalid.error}")


def serves(snapshot: Snapshot, pod: Pod) -> bool:
    """Return whether a pod is of a kind that nodes are launched for:
    not of a DaemonSet, not static, not ending by itself or with its namespace."""
    return reschedulable(pod) and not _ends_with_namespace(snapshot, pod)


def _ends_with_namespace(snapshot: Snapshot, pod: Pod) -> bool:
    namespace = snapshot.namespaces.get(pod.namespace)
    return namespace is not None and namespace.terminating


def waiting(snapshot: Snapshot, without_nodes: frozenset[str] = frozenset()) -> Iterator[Pod]:
    """Yield the pods to place: provisionable ones, and those of leaving nodes and of `without_nodes`.

    Pods of terminating namespaces are left out: they are deleted with the namespace.
    """
    marked = (pod for pod in snapshot.unbound if provisionable(pod, snapshot))
    yield from (pod for pod in marked if not _ends_with_namespace(snapshot, pod))
    nodes = snapshot.nodes.values()
    going = [node for node in nodes if node.marked_for_deletion or node.node.deleted_at is not None]  # as node.leaving
    if without_nodes:
        going = [node for node in nodes if node.leaving or node.name in without_nodes]
    for node in going:
        yield from (pod for pod in leaving_pods(node) if not _ends_with_namespace(snapshot, pod))


def leaving_pods(node: StateNode) -> tuple[Pod, ...]:
    """Return the pods of a node that must be placed elsewhere when it is removed."""
    return tuple(filter(reschedulable, node.pods))


def pool_requirements(provisioner: Provisioner) -> Requirements:
    """Return the requirements of a Provisioner, its labels and its name among them (as `In` of one value)."""
    name = Requirement.of(labels.PROVISIONER_NAME, "In", (provisioner.name,))
    written = Requirements.of(provisioner.requirements).values()
    return Requirements((*written, *Requirements.from_labels(provisioner.labels).values(), name))
