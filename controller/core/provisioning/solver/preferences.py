"""Ignore preferences that would cost more than `SolveOptions.preference_premium`, before anything is packed.

Each is judged by itself: by the least that a pod's share of a new node costs with it and without it. Spread and
anti-affinity over hosts limit how many pods share a node; over other labels they cost the mean over the label's values.
Preferred pod affinity keeps no pods apart and is always kept. A preference that no new node can honour costs nothing
here: an existing node may honour it, or relaxation gives it up (`levels`). See ADR 23.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import (
    LabelSelector,
    Pod,
    PodSpec,
    PreferredTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from controller.core.api.provisioner import Provisioner
from controller.core.provisioning.offerings.mask_compiler import MaskCompiler
from controller.core.provisioning.offerings.option_table import OFFERING_LABELS
from controller.core.provisioning.plan import SolveOptions
from controller.core.provisioning.pods.pod_classes import PodClass
from controller.core.provisioning.pods.relaxation import RelaxationLevel, required_choices, term_requirements
from controller.core.provisioning.pods.selector_index import SelectorIndex, with_label_keys
from controller.core.provisioning.resource_space import Floats
from controller.core.scheduling.label_selectors import matches
from controller.core.scheduling.requirements import Requirement, Requirements

T = TypeVar("T")
UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True)
class _Case:
    """A class without its preferences."""

    pod_class: PodClass
    required: RelaxationLevel
    request: Floats
    """R: what one pod requests."""
    cost: float
    """$/hour of one pod."""


class Preferences:
    """Judges the preferences of classes against `options.preference_premium`. Costs are $/hour of one pod."""

    def __init__(
        self, masks: MaskCompiler, options: SolveOptions, namespaces: Mapping[str, FrozenMap[str, str]]
    ) -> None:
        self.masks = masks
        self.catalog = masks.catalog
        self.options = options
        self._index = SelectorIndex(namespaces)
        self.dear: dict[int, list[tuple[str, float]]] = defaultdict(list)
        """By class index, the preferences ignored for their price, and the premium of each."""

    def weighed(self, pod_class: PodClass, *, taints: bool) -> tuple[PodSpec, bool]:
        """Return the class's spec without preferences that are too dear,
        and whether PreferNoSchedule taints are avoided.

        taints: whether there are such taints. Raises ValueError for a node affinity that cannot be read.
        """
        spec, premium = pod_class.spec, self.options.preference_premium
        if premium is None or not (taints or wishes(spec)):
            return spec, taints
        required = RelaxationLevel(required_choices(spec), (), pod_class.volumes.choices, spec.tolerations)
        request = self.catalog.space.vector(pod_class.requests)
        case = _Case(pod_class, required, request, self._cost(required, request))
        if not np.isfinite(case.cost):
            return spec, taints
        most = (1.0 + premium) * case.cost
        kept = replace(
            spec,
            preferred_node_affinity=self._affordable(case, spec.preferred_node_affinity, self._of_nodes, most),
            preferred_pod_anti_affinity=self._affordable(
                case, spec.preferred_pod_anti_affinity, self._of_anti_affinity, most
            ),
            topology_spread=self._affordable(case, spec.topology_spread, self._of_spread, most),
        )
        avoiding = self._cost(replace(required, avoids_preferred_taints=True), request)
        if taints and _dear(avoiding, most):
            self._note(case, "nodes without PreferNoSchedule taints", avoiding)
            return kept, False
        return kept, taints

    def _affordable(
        self, case: _Case, preferences: Iterable[T], costing: Callable[[_Case, T], float], most: float
    ) -> tuple[T, ...]:
        """Return the preferences that cost at most `most`; the others are noted."""
        kept = []
        for preference in preferences:
            cost = costing(case, preference)
            if _dear(cost, most):
                self._note(case, _description(preference), cost)
            else:
                kept.append(preference)
        return tuple(kept)

    def _note(self, case: _Case, preference: str, cost: float) -> None:
        self.dear[case.pod_class.index].append((preference, cost / case.cost - 1.0))

    def _of_nodes(self, case: _Case, preference: PreferredTerm) -> float:
        term = preference.term
        if preference.weight <= 0 or not (term.match_expressions or term.match_fields):
            return case.cost
        return self._cost(replace(case.required, preferred=(term_requirements(term),)), case.request)

    def _of_anti_affinity(self, case: _Case, preference: WeightedPodAffinityTerm) -> float:
        term, own = preference.term, case.pod_class
        selector = with_label_keys(term.label_selector, own.labels, term.match_label_keys, term.mismatch_label_keys)
        spaces = self._index.namespaces(term, own.namespace)
        if not (spaces is None or own.namespace in spaces):
            return case.cost
        return self._apart(case, selector, term.topology_key, 1)

    def _of_spread(self, case: _Case, rule: TopologySpreadConstraint) -> float:
        if rule.when_unsatisfiable != "ScheduleAnyway":
            return case.cost
        selector = with_label_keys(rule.label_selector, case.pod_class.labels, rule.match_label_keys)
        return self._apart(case, selector, rule.topology_key, rule.max_skew)

    def _apart(self, case: _Case, selector: LabelSelector | None, key: str, together: int) -> float:
        """Return the cost if at most `together` pods that match the selector share a domain of `key`."""
        own = case.pod_class
        if len(own) < 2 or not matches(selector, own.labels):
            return case.cost
        if key == labels.HOSTNAME:
            return self._cost(case.required, case.request, most=together)
        if key not in OFFERING_LABELS:
            return case.cost
        part = 0 if key == labels.ZONE else 1
        values = sorted({offering_key[part] for offering_key in self.catalog.offering_keys})
        costs = [
            self._cost(case.required, case.request, Requirements((Requirement.of(key, "In", (value,)),)))
            for value in values
        ]
        return float(np.mean([cost for cost in costs if np.isfinite(cost)] or [np.inf]))

    def _cost(
        self, level: RelaxationLevel, request: Floats, pins: Requirements | None = None, most: float = UNLIMITED
    ) -> float:
        """Return the least that a pod of the level pays of a new node, with at most `most` such on a node."""
        masks = (self.masks.mask(level, each, pins) for each in self.masks.variants(level))
        return min((self.masks.least_cost(mask, request, most) for mask in masks), default=np.inf)


def hindering(pods: Iterable[Pod], provisioners: Iterable[Provisioner]) -> list[Pod]:
    """Return the pods whose preferred anti-affinity may prevent consolidation of their nodes;
    none if nothing consolidates.

    Simulations of removals honour an affordable preference too, and so keep apart pods that would fit on one node.
    """
    if not any(provisioner.disruption.consolidation for provisioner in provisioners):
        return []
    return [pod for pod in pods if pod.spec.preferred_pod_anti_affinity]


def wishes(spec: PodSpec) -> bool:
    """Return whether the pods have preferences that may cost something."""
    soft = any(rule.when_unsatisfiable == "ScheduleAnyway" for rule in spec.topology_spread)
    return soft or bool(spec.preferred_node_affinity or spec.preferred_pod_anti_affinity)


def _dear(cost: float, most: float) -> bool:
    return bool(np.isfinite(cost)) and cost > most


def _description(preference: object) -> str:
    """Return a preference in words that lead to its place in the pod's spec."""
    match preference:
        case PreferredTerm():
            return f"node affinity to {term_requirements(preference.term)}"
        case WeightedPodAffinityTerm():
            return f"pod anti-affinity over {preference.term.topology_key}"
        case TopologySpreadConstraint():
            return f"topology spread over {preference.topology_key}"
    raise TypeError(f"no preference: {preference!r}")
