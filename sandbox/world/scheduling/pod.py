"""A pod as the scheduler sees it: everything that a filter or a score asks, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from sandbox.world.resources import Obj, controller_of
from sandbox.world.scheduling.requests import pod_requests
from sandbox.world.scheduling.selectors import LabelSelector, NodeSelector, NodeTerm, Requirement, node_term
from sandbox.world.scheduling.taints import Toleration

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 a value to compare with, nothing binds to it
HostPort = tuple[str, str, int]
"""(protocol, host IP, port)"""


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A required pod (anti-)affinity term. Empty `namespaces` with no `namespace_selector` never occurs: own
    namespace."""

    selector: LabelSelector | None
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None

    def selects(self, pod: PodInfo, namespace_labels: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether `pod` is one that this term speaks about."""
        if pod.namespace not in self.namespaces:
            if self.namespace_selector is None:
                return False
            if not self.namespace_selector.matches(namespace_labels.get(pod.namespace, {})):
                return False
        return self.selector is not None and self.selector.matches(pod.labels)


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topologySpreadConstraint; `hard` for DoNotSchedule."""

    topology_key: str
    max_skew: int
    hard: bool
    selector: LabelSelector | None
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


@dataclass(frozen=True)
class PodInfo:
    """Read-only view of a pod. Equality is identity of the pod object, not of its contents."""

    obj: Obj = field(compare=False)

    @cached_property
    def uid(self) -> str:
        return str(self.obj["metadata"]["uid"])

    @cached_property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @cached_property
    def namespace(self) -> str:
        return str(self.obj["metadata"].get("namespace", "default"))

    @cached_property
    def labels(self) -> dict[str, str]:
        return self.obj["metadata"].get("labels") or {}

    @cached_property
    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.obj["spec"]
        return found

    @cached_property
    def terminating(self) -> bool:
        return bool(self.obj["metadata"].get("deletionTimestamp"))

    @cached_property
    def node_name(self) -> str:
        return self.spec.get("nodeName") or ""

    @cached_property
    def priority(self) -> int:
        return int(self.spec.get("priority") or 0)

    @cached_property
    def requests(self) -> dict[str, int]:
        return pod_requests(self.spec)

    @cached_property
    def tolerations(self) -> tuple[Toleration, ...]:
        return Toleration.parse_all(self.spec)

    @cached_property
    def node_selector(self) -> tuple[Requirement, ...]:
        return tuple(Requirement(key, "In", (value,)) for key, value in (self.spec.get("nodeSelector") or {}).items())

    @cached_property
    def required_nodes(self) -> NodeSelector | None:
        return NodeSelector.parse(self._affinity("nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution"))

    @cached_property
    def preferred_nodes(self) -> tuple[tuple[int, NodeTerm], ...]:
        terms = self._affinity("nodeAffinity").get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        return tuple((int(term["weight"]), node_term(term["preference"])) for term in terms)

    @cached_property
    def affinity(self) -> tuple[AffinityTerm, ...]:
        return self._required_terms("podAffinity")

    @cached_property
    def anti_affinity(self) -> tuple[AffinityTerm, ...]:
        return self._required_terms("podAntiAffinity")

    @cached_property
    def spread(self) -> tuple[SpreadConstraint, ...]:
        return tuple(self._spread(constraint) for constraint in self.spec.get("topologySpreadConstraints") or ())

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        containers = list(self.spec.get("containers") or ())
        containers += [c for c in self.spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
        found = []
        for container in containers:
            for port in container.get("ports") or ():
                number = port.get("hostPort") or (port["containerPort"] if self.spec.get("hostNetwork") else 0)
                if number:
                    found.append((port.get("protocol") or "TCP", port.get("hostIP") or EVERY_ADDRESS, int(number)))
        return tuple(found)

    @cached_property
    def claim_names(self) -> tuple[str, ...]:
        """PersistentVolumeClaims by name, including those that ephemeral volumes make."""
        found = []
        for volume in self.spec.get("volumes") or ():
            if claim := volume.get("persistentVolumeClaim"):
                found.append(claim["claimName"])
            elif "ephemeral" in volume:
                found.append(f"{self.name}-{volume['name']}")
        return tuple(found)

    @cached_property
    def signature(self) -> bytes:
        """Pods with equal signatures get equal verdicts from every filter at the same cluster state."""
        ignored = {
            "containers",
            "initContainers",
            "volumes",
            "nodeName",
            "hostname",
            "serviceAccountName",
            "serviceAccount",
        }
        spec = {key: value for key, value in self.spec.items() if key not in ignored}
        owner = controller_of(self.obj) or {}
        identity = [self.namespace, self.labels, spec, self.requests, self.host_ports, self.claim_names]
        return orjson.dumps([*identity, owner.get("uid")], option=orjson.OPT_SORT_KEYS)

    def _affinity(self, kind: str) -> dict[str, Any]:
        return (self.spec.get("affinity") or {}).get(kind) or {}

    def _required_terms(self, kind: str) -> tuple[AffinityTerm, ...]:
        terms = self._affinity(kind).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        return tuple(affinity_term(term, self) for term in terms)

    def _spread(self, constraint: Mapping[str, Any]) -> SpreadConstraint:
        return SpreadConstraint(
            topology_key=constraint["topologyKey"],
            max_skew=int(constraint["maxSkew"]),
            hard=constraint["whenUnsatisfiable"] == "DoNotSchedule",
            selector=_narrowed(LabelSelector.parse(constraint.get("labelSelector")), constraint, self.labels),
            min_domains=int(constraint.get("minDomains") or 1),
            honor_affinity=(constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
            honor_taints=(constraint.get("nodeTaintsPolicy") or "Ignore") == "Honor",
        )


def affinity_term(term: Mapping[str, Any], pod: PodInfo) -> AffinityTerm:
    """A podAffinityTerm of `pod`; without namespaces and namespaceSelector it speaks of the pod's own namespace."""
    namespaces = frozenset(term.get("namespaces") or ())
    selector = term.get("namespaceSelector")
    if not namespaces and selector is None:
        namespaces = frozenset({pod.namespace})
    return AffinityTerm(
        selector=_narrowed(LabelSelector.parse(term.get("labelSelector")), term, pod.labels),
        topology_key=term["topologyKey"],
        namespaces=namespaces,
        namespace_selector=LabelSelector.parse(selector),
    )


def _narrowed(
    selector: LabelSelector | None, term: Mapping[str, Any], labels: Mapping[str, str]
) -> LabelSelector | None:
    """matchLabelKeys and mismatchLabelKeys, for API servers that do not merge them into the selector themselves."""
    if selector is None:
        return None
    same = [Requirement(key, "In", (labels[key],)) for key in term.get("matchLabelKeys") or () if key in labels]
    other = [Requirement(key, "NotIn", (labels[key],)) for key in term.get("mismatchLabelKeys") or () if key in labels]
    return selector.narrowed(*same, *other)
