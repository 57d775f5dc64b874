"""From a snapshot and a catalog to the problem that a solver gets: which pods, which nodes, which Provisioners."""

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


def provisionable(pod: Pod) -> bool:
    """Whether a pod waits for capacity (the peer's predicate, provisioning sheet 1.1).

    Unlike the peer, pods that are being deleted or have ended are left alone: kube-scheduler will not bind them.
    """
    return (
        pod.unschedulable
        and not pod.node_name
        and not pod.nominated_node_name
        and not pod.terminating
        and not pod.terminal
        and not pod.daemon
        and not pod.static
    )


def reschedulable(pod: Pod) -> bool:
    """Whether a bound pod will need a new place when its node goes."""
    return not (pod.daemon or pod.static or pod.terminal or pod.terminating)


def opted_out(pod: Pod) -> bool:
    """Whether the pod asks not to be served: `karpenter.sh/provisioner-name DoesNotExist` in every affinity term."""
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
    """The problem of placing `pods` (None: every provisionable pod, and those of nodes that leave).

    `without_nodes` are treated as leaving: they take no pods, and theirs are to be placed. `skipped` names Provisioners
    that cannot be used, and why; those absent from the catalog join them.
    """
    reasons = dict(skipped or {})
    usable = tuple(sorted(_usable(snapshot, catalog, reasons), key=lambda p: (-p.weight, p.name)))
    wanted = pods if pods is not None else waiting(snapshot, without_nodes)
    served = Pods.of(wanted).only(lambda pod: not opted_out(pod))
    known = snapshot.nodes
    nodes = [known[name] for name in sorted(known) if name not in without_nodes and not known[name].leaving]
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


def waiting(snapshot: Snapshot, without_nodes: frozenset[str] = frozenset()) -> Iterator[Pod]:
    """The pods that need a place: pending ones, and those of nodes that leave or are thought away.

    Those of a namespace that is being deleted go with it, though the API server takes some seconds to say so of each.
    """
    ending = {name for name, namespace in snapshot.namespaces.items() if namespace.terminating}
    yield from (pod for pod in snapshot.pods.values() if provisionable(pod) and pod.namespace not in ending)
    for node in snapshot.nodes.values():
        if node.leaving or node.name in without_nodes:
            yield from (pod for pod in leaving_pods(node) if pod.namespace not in ending)


def leaving_pods(node: StateNode) -> tuple[Pod, ...]:
    """The pods of a node that must find another place when it goes."""
    return tuple(filter(reschedulable, node.pods))


def pool_requirements(provisioner: Provisioner) -> Requirements:
    """The requirements of a Provisioner: as written, with its labels and its name as In of one value."""
    name = Requirement.of(labels.PROVISIONER_NAME, "In", (provisioner.name,))
    written = Requirements.of(provisioner.requirements).values()
    return Requirements((*written, *Requirements.from_labels(provisioner.labels).values(), name))
