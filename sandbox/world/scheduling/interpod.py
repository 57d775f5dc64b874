"""InterPodAffinity: required affinity and anti-affinity between pods, in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import AffinityTerm, PodInfo
from sandbox.world.scheduling.view import ClusterView, Rejection

Domain = tuple[str, str]
"""(topology key, value)"""


@dataclass(frozen=True, slots=True)
class Attraction:
    """Where existing pods pull and push one pod.

    `near` counts, per domain, pods that match ALL affinity terms; `away` the domains with a pod that one of the
    pod's own
    anti-affinity terms selects; `repelled` the domains whose pods' anti-affinity selects this pod.
    """

    affinity: tuple[AffinityTerm, ...]
    near: frozenset[Domain]
    away: frozenset[Domain]
    repelled: frozenset[Domain]
    first_of_its_kind: bool
    """No pod matches the affinity anywhere and the pod matches it itself: it may start a domain."""


def attraction(pod: PodInfo, view: ClusterView, repelling: Iterable[NodeInfo]) -> Attraction | None:
    """Compute once per attempt; `repelling` are the nodes that hold pods with anti-affinity. None: nothing to check."""
    repelled = _repelled(pod, view, repelling)
    if not pod.affinity and not pod.anti_affinity and not repelled:
        return None
    near: set[Domain] = set()
    away: set[Domain] = set()
    for node in view.nodes.values() if pod.affinity or pod.anti_affinity else ():
        for other in node.pods.values():
            if pod.affinity and all(term.selects(other, view.namespace_labels) for term in pod.affinity):
                near |= _domains(pod.affinity, node)
            matching = [term for term in pod.anti_affinity if term.selects(other, view.namespace_labels)]
            away |= _domains(matching, node)
    itself = all(term.selects(pod, view.namespace_labels) for term in pod.affinity)
    return Attraction(pod.affinity, frozenset(near), frozenset(away), frozenset(repelled), itself and not near)


def _domains(terms: Iterable[AffinityTerm], node: NodeInfo) -> set[Domain]:
    return {(term.topology_key, node.labels[term.topology_key]) for term in terms if term.topology_key in node.labels}


def _repelled(pod: PodInfo, view: ClusterView, repelling: Iterable[NodeInfo]) -> set[Domain]:
    found: set[Domain] = set()
    for node in repelling:
        for other in node.pods.values():
            if other.anti_affinity:
                matching = [term for term in other.anti_affinity if term.selects(pod, view.namespace_labels)]
                found |= _domains(matching, node)
    return found


def interpod_filter(pull: Attraction, node: NodeInfo) -> Rejection | None:
    """Affinity first, then the pod's own anti-affinity, then that of the pods that are there."""
    labels = node.labels
    if pull.affinity:
        if any(term.topology_key not in labels for term in pull.affinity):
            return Rejection("InterPodAffinity", ("node(s) didn't match pod affinity rules",), resolvable=False)
        here = all((term.topology_key, labels[term.topology_key]) in pull.near for term in pull.affinity)
        if not here and not pull.first_of_its_kind:
            return Rejection("InterPodAffinity", ("node(s) didn't match pod affinity rules",), resolvable=False)
    if any(labels.get(key) == value for key, value in pull.away):
        return Rejection("InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",), resolvable=True)
    if any(labels.get(key) == value for key, value in pull.repelled):
        reason = "node(s) didn't satisfy existing pods anti-affinity rules"
        return Rejection("InterPodAffinity", (reason,), resolvable=True)
    return None
