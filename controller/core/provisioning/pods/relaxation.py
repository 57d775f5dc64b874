"""Relaxation: treat preferences as required, and drop them one by one in the order of Karpenter v0.27.

Level 0 requires every preference. Each further level drops one: preferred pod affinity, then preferred pod
anti-affinity, then preferred node affinity, each heaviest first; then ScheduleAnyway spread; last, PreferNoSchedule
taints.
Required OR terms need no level of their own: a `Choice` holds all alternatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from controller.core.api.labels import FIELD_NAME
from controller.core.api.pod import (
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.scheduling.taints import TOLERATE_PREFERENCES

Choice = tuple[Requirements, ...]
"""Requirement sets of which a node must satisfy at least one. Empty: no node satisfies it."""


@dataclass(frozen=True, slots=True)
class RelaxationLevel:
    """Everything required of a node at one step of relaxation."""

    required: tuple[Choice, ...]
    """nodeSelector and required node affinity: what kube-scheduler's nodeAffinityPolicy looks at."""
    preferred: tuple[Requirements, ...]
    """The preferred node affinity term that is required at this level (none or one)."""
    volumes: tuple[Choice, ...]
    """Volume topology."""
    tolerations: tuple[Toleration, ...]
    spread: tuple[TopologySpreadConstraint, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    avoids_preferred_taints: bool = False

    @property
    def choices(self) -> tuple[Choice, ...]:
        """All that must hold of a node's labels, ANDed."""
        return (*self.required, *((term,) for term in self.preferred), *self.volumes)


def term_requirements(term: NodeSelectorTerm) -> Requirements:
    """Convert a node selector term. Raises ValueError for an operator, bound or field that Kubernetes does not know."""
    fields = [Requirement.of(FIELD_NAME, e.operator, e.values) for e in term.match_fields if e.key == FIELD_NAME]
    unknown = [e.key for e in term.match_fields if e.key != FIELD_NAME]
    if unknown:
        raise ValueError(f"matchFields knows metadata.name alone, not {', '.join(unknown)}")
    return Requirements((*Requirements.of(term.match_expressions).values(), *fields))


def choice(terms: Iterable[NodeSelectorTerm]) -> Choice:
    """Convert ORed terms. A term without expressions and fields matches nothing and is left out."""
    return tuple(term_requirements(term) for term in terms if term.match_expressions or term.match_fields)


def required_choices(spec: PodSpec) -> tuple[Choice, ...]:
    """Convert nodeSelector and required node affinity. Raises ValueError as `term_requirements` does."""
    choices: list[Choice] = []
    if spec.node_selector:
        choices.append((Requirements.from_labels(spec.node_selector),))
    if spec.required_node_affinity is not None:
        choices.append(choice(spec.required_node_affinity))
    return tuple(choices)


def levels(spec: PodSpec, volumes: tuple[Choice, ...], *, taints_may_be_preferences: bool) -> Iterator[RelaxationLevel]:
    """Yield the levels of a pod, strictest first; the last has only what the spec requires.

    volumes: choices of its volume topology.
    """
    affinity = _heaviest_first(spec.preferred_pod_affinity)
    anti_affinity = _heaviest_first(spec.preferred_pod_anti_affinity)
    preferred = _preferred(spec.preferred_node_affinity)
    soft_spread = [c for c in spec.topology_spread if c.when_unsatisfiable == "ScheduleAnyway"]
    hard_spread = tuple(c for c in spec.topology_spread if c.when_unsatisfiable != "ScheduleAnyway")
    required = required_choices(spec)

    def level(*, avoid: bool) -> RelaxationLevel:
        return RelaxationLevel(
            required=required,
            preferred=tuple(preferred[:1]),
            volumes=volumes,
            tolerations=spec.tolerations,
            spread=hard_spread + tuple(soft_spread),
            affinity=spec.required_pod_affinity + tuple(affinity),
            anti_affinity=spec.required_pod_anti_affinity + tuple(anti_affinity),
            avoids_preferred_taints=avoid,
        )

    yield level(avoid=taints_may_be_preferences)
    kept: list[Any]
    for kept in (affinity, anti_affinity, preferred, soft_spread):
        while kept:
            del kept[0]
            yield level(avoid=taints_may_be_preferences)
    if taints_may_be_preferences:
        yield replace(level(avoid=False), tolerations=(*spec.tolerations, TOLERATE_PREFERENCES))


def _heaviest_first(terms: tuple[WeightedPodAffinityTerm, ...]) -> list[PodAffinityTerm]:
    return [weighted.term for weighted in sorted(terms, key=lambda t: -t.weight)]


def _preferred(terms: tuple[PreferredTerm, ...]) -> list[Requirements]:
    return [
        term_requirements(preference.term)
        for preference in sorted(terms, key=lambda t: -t.weight)
        if preference.weight > 0 and (preference.term.match_expressions or preference.term.match_fields)
    ]
