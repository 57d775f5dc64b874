"""Judge spread and pod (anti-)affinity pod by pod, as kube-scheduler's filters would.

`Board` holds the pods placed so far; `refusal` says why one more pod may not be placed on a node. Sources:
kube-scheduler's podtopologyspread and interpodaffinity plugins. Both depend on the order in which pods arrive, so the
auditor adds a plan's pods in any order that works, and reports those that no order could place.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from controller.core.api.node import Taint
from controller.core.api.pod import (
    LabelSelector,
    Pod,
    PodAffinityTerm,
    PodSpec,
    SelectorRequirement,
    TopologySpreadConstraint,
)
from controller.core.api.workloads import Namespace
from controller.core.audit.matching import label_of, node_accepted, required_labels, selector_matches, untolerated


@dataclass(slots=True)
class Place:
    """A node, real or planned, under audit."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    pods: list[Pod] = field(default_factory=list)

    def domain(self, key: str) -> str | None:
        """Return the node's value of a topology key."""
        return label_of(self.labels, key)


@dataclass(frozen=True, slots=True)
class _Term:
    """An affinity term with its namespaces and label keys resolved for the pod that carries it."""

    key: str
    selector: LabelSelector | None
    namespaces: frozenset[str] | None
    """None: every namespace."""

    def matches(self, pod: Pod) -> bool:
        inside = self.namespaces is None or pod.namespace in self.namespaces
        return inside and selector_matches(self.selector, pod.labels)


Where = Callable[[Pod, Place], str | None]
"""The domain in which a pod on a place counts; None: it does not count."""
Label = tuple[str, str]
ANY: Label = ("", "")
"""Index key for selectors that require no particular label; every pod is indexed under it too."""


def _labels_for(selector: LabelSelector | None) -> tuple[Label, ...]:
    return required_labels(selector) or (ANY,)


def _labels_of(pod: Pod) -> tuple[Label, ...]:
    return (*pod.labels.items(), ANY)


def _with_label_keys(
    selector: LabelSelector | None, labels: Mapping[str, str], same: Iterable[str], different: Iterable[str] = ()
) -> LabelSelector | None:
    """Add matchLabelKeys and mismatchLabelKeys to the selector, as expressions on the carrier's own values."""
    if selector is None:
        return None
    added = [SelectorRequirement(key, "In", (labels[key],)) for key in same if key in labels]
    added += [SelectorRequirement(key, "NotIn", (labels[key],)) for key in different if key in labels]
    return LabelSelector((*selector.expressions, *added)) if added else selector


class TooMuchWorkError(Exception):
    """Judging took more work units than allowed."""


class Board:
    """Places and the pods on them.

    Rules and counts are indexed by a label that their selector requires, so that the time for a plan of many workloads
    with different rules grows with the number of pods, not with the number of (pod, rule) pairs.
    """

    def __init__(
        self, places: Iterable[Place], namespaces: Mapping[str, Namespace], most_work: float = math.inf
    ) -> None:
        """`most_work`: so many pods, rules, places and domains may be examined before TooMuchWorkError is raised."""
        self._work_left = most_work
        self._places = tuple(places)
        self._namespaces = namespaces
        self._repelling: dict[Label, dict[_Term, Counter[str]]] = defaultdict(dict)
        """Required anti-affinity terms of the pods placed, by a label that the term requires: carriers per domain."""
        self._standing: dict[Label, list[tuple[Pod, Place]]] = defaultdict(list)
        """Pods placed, by each of their labels and by ANY."""
        self._counts: dict[tuple[object, ...], Counter[str]] = {}
        self._counting: dict[Label, list[tuple[Counter[str], Where]]] = defaultdict(list)
        """Counts to update when a pod is added, by a label that the counted pods have."""
        self._eligible: dict[tuple[object, ...], frozenset[str]] = {}
        self._interned: dict[frozenset[str], frozenset[str]] = {}
        self._domains: dict[tuple[object, ...], frozenset[str]] = {}
        for place in self._places:
            for pod in place.pods:
                self._stand(pod, place)

    def add(self, pod: Pod, place: Place) -> None:
        """Put a pod on a place."""
        place.pods.append(pod)
        self._stand(pod, place)

    def _work(self, units: int) -> None:
        self._work_left -= units
        if self._work_left < 0:
            raise TooMuchWorkError

    def _stand(self, pod: Pod, place: Place) -> None:
        for label in _labels_of(pod):
            self._standing[label].append((pod, place))
        self._count_pod(pod, place, 1)

    def _count_pod(self, pod: Pod, place: Place, by: int) -> None:
        for term in self._terms(pod, pod.spec.required_pod_anti_affinity):
            domain = place.domain(term.key)
            if domain is not None:
                for label in _labels_for(term.selector):
                    self._repelling[label].setdefault(term, Counter())[domain] += by
        for label in _labels_of(pod):
            counting = self._counting.get(label, ())
            self._work(1 + len(counting))
            for counts, where in counting:
                if (domain := where(pod, place)) is not None:
                    counts[domain] += by

    def uneven(self, pod: Pod, place: Place) -> str | None:
        """Return why a pod placed here breaks its own spread, with all pods placed so far; None if it does not."""
        self._refused_by_spread(pod, place)  # so that its counts are kept, with the pod itself in them
        self._count_pod(pod, place, -1)
        reason = self._refused_by_spread(pod, place)
        self._count_pod(pod, place, 1)
        return reason

    def _terms(self, pod: Pod, terms: Iterable[PodAffinityTerm]) -> list[_Term]:
        return [
            _Term(
                term.topology_key,
                _with_label_keys(term.label_selector, pod.labels, term.match_label_keys, term.mismatch_label_keys),
                self._term_namespaces(pod, term),
            )
            for term in terms
        ]

    def _term_namespaces(self, pod: Pod, term: PodAffinityTerm) -> frozenset[str] | None:
        chosen = term.namespace_selector
        if chosen is None:
            return frozenset(term.namespaces or (pod.namespace,))
        if not chosen.expressions:
            return None
        selected = (n.name for n in self._namespaces.values() if selector_matches(chosen, n.labels))
        return frozenset((*term.namespaces, *selected))

    def _count(self, key: tuple[object, ...], selector: LabelSelector | None, where: Where) -> Counter[str]:
        """Return the placed pods by domain, kept up to date. `where` counts only what `selector` matches."""
        if key not in self._counts:
            counts: Counter[str] = Counter()
            for label in _labels_for(selector):
                standing = self._standing.get(label, ())
                self._work(1 + len(standing))
                domains = (where(pod, place) for pod, place in standing)
                counts.update(domain for domain in domains if domain is not None)
                self._counting[label].append((counts, where))
            self._counts[key] = counts
        return self._counts[key]

    def refusal(self, pod: Pod, place: Place) -> str | None:
        """Return why kube-scheduler would refuse this pod here, or None."""
        return self.refusal_but_for_spread(pod, place) or self._refused_by_spread(pod, place)

    def refusal_but_for_spread(self, pod: Pod, place: Place) -> str | None:
        """Return why pod affinity or anti-affinity, the pod's own or others', keeps it from here, or None."""
        return (
            self._refused_by_others(pod, place)
            or self._refused_by_own_anti_affinity(pod, place)
            or self._refused_by_affinity(pod, place)
        )

    def _refused_by_others(self, pod: Pod, place: Place) -> str | None:
        for label in _labels_of(pod):
            repelling = self._repelling.get(label, {})
            self._work(1 + len(repelling))
            for term, counts in repelling.items():
                domain = place.domain(term.key)
                if domain is not None and counts[domain] > 0 and term.matches(pod):
                    return f"a pod in {term.key}={domain} has required anti-affinity to it"
        return None

    def _refused_by_own_anti_affinity(self, pod: Pod, place: Place) -> str | None:
        for term in self._terms(pod, pod.spec.required_pod_anti_affinity):
            domain = place.domain(term.key)
            if domain is not None and self._matching(term, (term,))[domain] > 0:
                return f"its required anti-affinity over {term.key} meets a pod in {domain}"
        return None

    def _matching(self, term: _Term, all_terms: tuple[_Term, ...]) -> Counter[str]:
        """Return pods that match every one of `all_terms`, by the domain of `term`."""

        def where(pod: Pod, place: Place) -> str | None:
            return place.domain(term.key) if all(t.matches(pod) for t in all_terms) else None

        return self._count(("affinity", term, all_terms), term.selector, where)

    def _refused_by_affinity(self, pod: Pod, place: Place) -> str | None:
        terms = tuple(self._terms(pod, pod.spec.required_pod_affinity))
        missing = None
        for term in terms:
            domain = place.domain(term.key)
            if domain is None:
                return f"its pod affinity needs the node label {term.key}"
            if self._matching(term, terms)[domain] == 0:
                missing = missing or f"its pod affinity finds no pod in {term.key}={domain}"
        if missing is None:
            return None
        nobody = not any(+self._matching(term, terms) for term in terms)
        bootstrap = nobody and all(term.matches(pod) for term in terms)
        return None if bootstrap else missing

    def _refused_by_spread(self, pod: Pod, place: Place) -> str | None:
        hard = tuple(c for c in pod.spec.topology_spread if c.when_unsatisfiable == "DoNotSchedule")
        for constraint in hard:
            domain = place.domain(constraint.topology_key)
            if domain is None:
                return f"its spread needs the node label {constraint.topology_key}"
            selector = _with_label_keys(constraint.label_selector, pod.labels, constraint.match_label_keys)
            eligible = self._eligible_places(pod.spec, constraint, hard)
            counts = self._spread_counts(pod.namespace, selector, constraint.topology_key, eligible)
            domains = self._eligible_domains(constraint.topology_key, eligible)
            self._work(len(domains))
            least = min((counts[d] for d in domains), default=0)
            if constraint.min_domains is not None and len(domains) < constraint.min_domains:
                least = 0
            here = counts[domain] + (1 if selector_matches(selector, pod.labels) else 0)
            if here - least > constraint.max_skew:
                return (
                    f"its spread over {constraint.topology_key} would have {here} in {domain} and {least} in the least"
                )
        return None

    def _eligible_places(
        self, spec: PodSpec, constraint: TopologySpreadConstraint, hard: tuple[TopologySpreadConstraint, ...]
    ) -> frozenset[str]:
        """Return names of the places that count for this constraint: with all keys, and matching its two policies."""
        key = (
            frozenset(spec.node_selector.items()),
            spec.required_node_affinity,
            spec.tolerations if constraint.node_taints_policy == "Honor" else (),
            frozenset(each.topology_key for each in hard),
            constraint.node_affinity_policy,
            constraint.node_taints_policy,
        )
        if key not in self._eligible:
            self._work(len(self._places))
            names = frozenset(p.name for p in self._places if _counts_for(p, spec, constraint, hard))
            self._eligible[key] = self._interned.setdefault(names, names)
        return self._eligible[key]

    def _eligible_domains(self, topology_key: str, eligible: frozenset[str]) -> frozenset[str]:
        key = (topology_key, eligible)
        if key not in self._domains:
            domains = (p.domain(topology_key) for p in self._places if p.name in eligible)
            self._domains[key] = frozenset(d for d in domains if d is not None)
        return self._domains[key]

    def _spread_counts(
        self, namespace: str, selector: LabelSelector | None, topology_key: str, eligible: frozenset[str]
    ) -> Counter[str]:
        def where(pod: Pod, place: Place) -> str | None:
            if pod.namespace != namespace or pod.terminating or place.name not in eligible:
                return None
            return place.domain(topology_key) if selector_matches(selector, pod.labels) else None

        return self._count(("spread", namespace, selector, topology_key, eligible), selector, where)


def _counts_for(
    place: Place, spec: PodSpec, constraint: TopologySpreadConstraint, hard: tuple[TopologySpreadConstraint, ...]
) -> bool:
    if any(place.domain(c.topology_key) is None for c in hard):
        return False
    if constraint.node_affinity_policy == "Honor" and not node_accepted(spec, place.labels, place.name):
        return False
    return constraint.node_taints_policy != "Honor" or untolerated(place.taints, spec.tolerations) is None
