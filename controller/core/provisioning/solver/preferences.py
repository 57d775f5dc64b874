"""Preferences weighed: one that would cost more than it may is given up before anything is packed.

Each is weighed by itself, by the least that a pod's share of a new node costs with it and without it. Spread and
anti-affinity over hosts hold back how many share a node; those over other labels cost what their domains cost on
average. Preferred pod affinity parts nobody, and is kept. What no new node can honour costs nothing here: nodes that
stand may have it, or relaxation gives it up (`levels`).
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
from controller.core.provisioning.offerings.mask_compiler import Mask, MaskCompiler
from controller.core.provisioning.offerings.option_table import OFFERING_LABELS
from controller.core.provisioning.plan import SolveOptions
from controller.core.provisioning.pods.pod_classes import PodClass
from controller.core.provisioning.pods.relaxation import RelaxationLevel, required_choices, term_requirements
from controller.core.provisioning.pods.selector_index import SelectorIndex, with_label_keys
from controller.core.provisioning.resource_space import Floats
from controller.core.scheduling.label_selectors import matches
from controller.core.scheduling.requirements import Requirement, Requirements

T = TypeVar("T")
Pins = Requirements | None
ANY_NUMBER = float("inf")


@dataclass(frozen=True, slots=True)
class _Case:
    """A class without its preferences, and what one of its pods costs so."""

    pod_class: PodClass
    required: RelaxationLevel
    request: Floats
    cost: float


class Preferences:
    """Weighs the preferences of classes against `options.preference_premium`."""

    def __init__(
        self, masks: MaskCompiler, options: SolveOptions, namespaces: Mapping[str, FrozenMap[str, str]]
    ) -> None:
        self.masks = masks
        self.catalog = masks.catalog
        self.options = options
        self._index = SelectorIndex(namespaces)
        self._costs: dict[tuple[int, bytes, float], float] = {}
        self._taken: dict[bytes, Floats] = {}
        self.dear: dict[int, list[tuple[str, float]]] = defaultdict(list)
        """By class, what was given up for its price: which, and its premium."""

    def weighed(self, pod_class: PodClass, *, taints: bool) -> tuple[PodSpec, bool]:
        """The class's spec without preferences that are too dear, and whether PreferNoSchedule taints are avoided.

        `taints`: whether any are to be avoided. Raises ValueError for a node affinity that cannot be read.
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
            preferred_node_affinity=self._paid(case, spec.preferred_node_affinity, self._of_nodes, most),
            preferred_pod_anti_affinity=self._paid(
                case, spec.preferred_pod_anti_affinity, self._of_anti_affinity, most
            ),
            topology_spread=self._paid(case, spec.topology_spread, self._of_spread, most),
        )
        avoiding = self._cost(replace(required, avoids_preferred_taints=True), request)
        if taints and _dear(avoiding, most):
            self._note(case, "nodes without PreferNoSchedule taints", avoiding)
            return kept, False
        return kept, taints

    def _paid(
        self, case: _Case, wishes: Iterable[T], costing: Callable[[_Case, T], float], most: float
    ) -> tuple[T, ...]:
        """The wishes that cost what they may; the others are noted."""
        kept = []
        for wish in wishes:
            cost = costing(case, wish)
            if _dear(cost, most):
                self._note(case, _named(wish), cost)
            else:
                kept.append(wish)
        return tuple(kept)

    def _note(self, case: _Case, preference: str, cost: float) -> None:
        self.dear[case.pod_class.index].append((preference, cost / case.cost - 1.0))

    def _of_nodes(self, case: _Case, wish: PreferredTerm) -> float:
        term = wish.term
        if wish.weight <= 0 or not (term.match_expressions or term.match_fields):
            return case.cost
        return self._cost(replace(case.required, preferred=(term_requirements(term),)), case.request)

    def _of_anti_affinity(self, case: _Case, wish: WeightedPodAffinityTerm) -> float:
        term, own = wish.term, case.pod_class
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
        """What pods cost that match the selector themselves, and of which `together` may share a domain of `key`."""
        own = case.pod_class
        if len(own) < 2 or not matches(selector, own.labels):
            return case.cost
        if key == labels.HOSTNAME:
            return self._cost(case.required, case.request, most=together)
        if key not in OFFERING_LABELS:
            return case.cost
        place = 0 if key == labels.ZONE else 1
        values = sorted({offering_key[place] for offering_key in self.catalog.offering_keys})
        costs = [
            self._cost(case.required, case.request, Requirements((Requirement.of(key, "In", (value,)),)))
            for value in values
        ]
        return float(np.mean([cost for cost in costs if np.isfinite(cost)] or [ANY_NUMBER]))

    def _cost(self, level: RelaxationLevel, request: Floats, pins: Pins = None, most: float = ANY_NUMBER) -> float:
        """The least share of a new node's price that a pod of the level pays, `most` of its kind on a node at most."""
        variants = self.masks.variants(level)
        return min(
            (self._launch(self.masks.mask(level, each, pins), request, most) for each in variants), default=np.inf
        )

    def _launch(self, mask: Mask, request: Floats, most: float) -> float:
        key = (mask.index, request.tobytes(), most)
        found = self._costs.get(key)
        if found is None:
            shares = np.maximum(self._shares(request), 1.0 / most)
            prices = self.masks.prices(mask) + self.options.node_cost_per_hour
            found = self._costs[key] = float((prices * shares).min(initial=ANY_NUMBER))
        return found

    def _shares(self, request: Floats) -> Floats:
        """Per node option, the part of an empty node that a pod takes; infinite where it does not fit."""
        key = request.tobytes()
        found = self._taken.get(key)
        if found is None:
            asked = request > 0
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = (request[asked][:, None] / self.catalog.allocatable[asked]).max(axis=0, initial=0.0)
            fits = (self.catalog.allocatable[asked] >= request[asked][:, None]).all(axis=0)
            found = self._taken[key] = np.where(fits, shares, ANY_NUMBER)
        return found


def hindering(pods: Iterable[Pod], provisioners: Iterable[Provisioner]) -> list[Pod]:
    """Pods whose preferred anti-affinity may keep consolidation from removing their nodes: it is weighed there too, and
    what it is worth holds pods apart that one node could take. None where no Provisioner consolidates."""
    if not any(provisioner.disruption.consolidation for provisioner in provisioners):
        return []
    return [pod for pod in pods if pod.spec.preferred_pod_anti_affinity]


def wishes(spec: PodSpec) -> bool:
    """Whether the pods prefer something that has to be weighed."""
    soft = any(rule.when_unsatisfiable == "ScheduleAnyway" for rule in spec.topology_spread)
    return soft or bool(spec.preferred_node_affinity or spec.preferred_pod_anti_affinity)


def _dear(cost: float, most: float) -> bool:
    return bool(np.isfinite(cost)) and cost > most


def _named(wish: object) -> str:
    """A preference as its pod's author would find it again."""
    match wish:
        case PreferredTerm():
            return f"node affinity to {term_requirements(wish.term)}"
        case WeightedPodAffinityTerm():
            return f"pod anti-affinity over {wish.term.topology_key}"
        case TopologySpreadConstraint():
            return f"topology spread over {wish.topology_key}"
    raise TypeError(f"no preference: {wish!r}")
