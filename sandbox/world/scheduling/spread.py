"""PodTopologySpread: the skew that a pod may cause between domains (topology spread constraints page)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.world.scheduling.filters import matches_node
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo, SpreadConstraint
from sandbox.world.scheduling.taints import first_untolerated
from sandbox.world.scheduling.view import Rejection

TOO_SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """For one constraint: matching pods per domain (`counts`), the least of them, and whether the pod counts itself."""

    constraint: SpreadConstraint
    counts: dict[str, int]
    least: int
    counts_itself: int

    def skew_at(self, domain: str) -> int:
        """The skew if the pod landed in `domain`."""
        return self.counts.get(domain, 0) + self.counts_itself - self.least


def hard_spread(pod: PodInfo, nodes: Iterable[NodeInfo]) -> tuple[DomainCounts, ...]:
    """Counts for each DoNotSchedule constraint; only nodes that have every constraint's label take part."""
    constraints = [constraint for constraint in pod.spread if constraint.hard]
    if not constraints:
        return ()
    keys = [constraint.topology_key for constraint in constraints]
    eligible = [node for node in nodes if all(key in node.labels for key in keys)]
    return tuple(count_domains(pod, constraint, eligible) for constraint in constraints)


def count_domains(pod: PodInfo, constraint: SpreadConstraint, nodes: Iterable[NodeInfo]) -> DomainCounts:
    """Matching, not terminating pods of the pod's namespace per domain, over the nodes that the policies admit."""
    counts: dict[str, int] = {}
    selector = constraint.selector
    for node in nodes:
        if constraint.topology_key not in node.labels or not _takes_part(pod, constraint, node):
            continue
        found = 0
        if selector is not None:
            for other in node.pods.values():
                if other.namespace == pod.namespace and not other.terminating and selector.matches(other.labels):
                    found += 1
        domain = node.labels[constraint.topology_key]
        counts[domain] = counts.get(domain, 0) + found
    least = min(counts.values(), default=0) if len(counts) >= constraint.min_domains else 0
    itself = int(selector is not None and selector.matches(pod.labels))
    return DomainCounts(constraint, counts, least, itself)


def _takes_part(pod: PodInfo, constraint: SpreadConstraint, node: NodeInfo) -> bool:
    if constraint.honor_affinity and not matches_node(pod, node):
        return False
    return not (constraint.honor_taints and first_untolerated(node.taints, pod.tolerations))


def spread_filter(domains: tuple[DomainCounts, ...], node: NodeInfo) -> Rejection | None:
    """Refuse a node without the label, or one whose domain would exceed maxSkew."""
    for domain in domains:
        value = node.labels.get(domain.constraint.topology_key)
        if value is None:
            return Rejection("PodTopologySpread", (NO_LABEL,), resolvable=False)
        if domain.skew_at(value) > domain.constraint.max_skew:
            return Rejection("PodTopologySpread", (TOO_SKEWED,), resolvable=True)
    return None
