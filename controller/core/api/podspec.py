"""Parse pod specs, interned: replicas of one workload share a single PodSpec object.

The fields that scheduling reads are serialised into a cache key, and the PodSpec is built from that key alone: a field
that is missing from the key cannot influence the result, and a spec seen before costs one look-up.
"""

from __future__ import annotations

import marshal
from typing import Final

from controller.core.api.document import (
    Document,
    items,
    label_selector,
    mapping,
    node_selector_term,
    node_selector_terms,
    objects,
    optional_whole,
    string_map,
    text,
    texts,
    whole,
)
from controller.core.api.frozen import cached_by_bytes
from controller.core.api.pod import (
    EVERY_ADDRESS,
    HostPort,
    PodAffinityTerm,
    PodClaim,
    PodSpec,
    PreferredTerm,
    Resources,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from controller.core.api.requests import pod_limits, pod_requests

# Version 4 is a third faster than 2. It marks values that are referenced more than once, so that equal specs may get
# different keys: that costs a cache entry, and `interned` still makes them one object.
_MARSHAL_VERSION: Final = 4

_KEPT: Final = (
    "affinity", "nodeSelector", "tolerations", "topologySpreadConstraints", "overhead", "resources", "priority",
    "priorityClassName", "preemptionPolicy", "schedulerName", "schedulingGates", "terminationGracePeriodSeconds",
    "resourceClaims", "schedulingGroup", "workloadRef",
)  # fmt: skip
_GROUP: Final = "pods of a scheduling group start together or not at all, which plans do not support: take it out"
CLAIMS_NOT_READ: Final = (
    "spec.resourceClaims: which nodes can serve a claim of dynamic resource allocation (DRA) is not known before "
    "they run: request the device as an extended resource, such as nvidia.com/gpu, or run the pod on other nodes"
)
"""Until the cluster state has resolved the claims (state/claim_resolution.py)."""
_UNSUPPORTED: Final = {
    "resourceClaims": CLAIMS_NOT_READ,
    "schedulingGroup": f"spec.schedulingGroup: {_GROUP}, or run the pod on other nodes",
    "workloadRef": f"spec.workloadRef: {_GROUP}, or run the pod on other nodes",
}
"""Fields of a pod that plans do not support, with the remedy (KEP-4381; KEP-4671, first called workloadRef)."""

Parsed = tuple[PodSpec, Resources]
"""A spec and the pod's limits, which are no part of it: pods that differ in them are scheduled alike."""


def pod_spec(spec: Document) -> PodSpec:
    """Parse a spec, without the pod's limits; see `spec_and_limits`."""
    return spec_and_limits(spec)[0]


def spec_and_limits(spec: Document) -> Parsed:
    """Parse a spec. Equal specs give the same object, as long as the bounded caches hold it.

    Never raises: what cannot be read is listed in `malformed`.
    """
    get = spec.get
    try:
        key = marshal.dumps(
            (_containers(get("containers")), _containers(get("initContainers")), list(map(get, _KEPT))),
            _MARSHAL_VERSION,
        )
    except ValueError:
        return _both(spec)
    return _from_key(key)


def _containers(value: object) -> list[object] | None:
    """Return the fields of containers that scheduling reads; others (images, environment, mounts) are left out."""
    if not isinstance(value, list):
        return None
    return [
        (each.get("resources"), each.get("ports"), each.get("restartPolicy")) if isinstance(each, dict) else None
        for each in value
    ]


@cached_by_bytes(len)
def _from_key(key: bytes) -> Parsed:
    containers, init_containers, kept = marshal.loads(key)  # noqa: S302 - our own bytes, written above
    spec = dict(zip(_KEPT, kept, strict=True))
    names = ("resources", "ports", "restartPolicy")
    for field, parts in (("containers", containers), ("initContainers", init_containers)):
        if parts is not None:
            spec[field] = [{} if part is None else dict(zip(names, part, strict=True)) for part in parts]
    return _both(spec)


def _both(spec: Document) -> Parsed:
    return interned(_parse(spec)), pod_limits(spec)


@cached_by_bytes(lambda spec: len(repr(spec)))
def interned(spec: PodSpec) -> PodSpec:
    """Return the first equal spec seen, as long as the bounded cache holds it.

    Documents that differ in the order of keys or in units share one object too.
    """
    return spec


def _parse(spec: Document) -> PodSpec:
    malformed: list[str] = []
    affinity = mapping(spec.get("affinity"))
    node = mapping(affinity.get("nodeAffinity"))
    near = mapping(affinity.get("podAffinity"))
    far = mapping(affinity.get("podAntiAffinity"))
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    return PodSpec(
        requests=pod_requests(spec, malformed.append),
        node_selector=string_map(spec.get("nodeSelector")),
        required_node_affinity=node_selector_terms(required) if isinstance(required, dict) else None,
        preferred_node_affinity=_preferred_terms(node.get("preferredDuringSchedulingIgnoredDuringExecution")),
        required_pod_affinity=_pod_terms(near.get("requiredDuringSchedulingIgnoredDuringExecution")),
        preferred_pod_affinity=_weighted(near.get("preferredDuringSchedulingIgnoredDuringExecution")),
        required_pod_anti_affinity=_pod_terms(far.get("requiredDuringSchedulingIgnoredDuringExecution")),
        preferred_pod_anti_affinity=_weighted(far.get("preferredDuringSchedulingIgnoredDuringExecution")),
        topology_spread=tuple(_spread(each) for each in objects(spec.get("topologySpreadConstraints"))),
        tolerations=tuple(_toleration(each) for each in objects(spec.get("tolerations"))),
        host_ports=_host_ports(spec),
        priority=whole(spec.get("priority")),
        priority_class_name=text(spec.get("priorityClassName")),
        preemption_policy=text(spec.get("preemptionPolicy")),
        scheduler_name=text(spec.get("schedulerName")) or "default-scheduler",
        gated=bool(items(spec.get("schedulingGates"))),
        termination_grace_period_seconds=whole(spec.get("terminationGracePeriodSeconds"), 30),
        malformed=tuple(malformed),
        resource_claims=tuple(_claim(each) for each in objects(spec.get("resourceClaims"))),
        unsupported=tuple(reason for field, reason in _UNSUPPORTED.items() if spec.get(field)),
    )


def _claim(value: Document) -> PodClaim:
    source = mapping(value.get("source")) or value  # `source` until Kubernetes 1.30
    return PodClaim(
        text(value.get("name")), text(source.get("resourceClaimName")), text(source.get("resourceClaimTemplateName"))
    )


def _preferred_terms(value: object) -> tuple[PreferredTerm, ...]:
    return tuple(
        PreferredTerm(whole(each.get("weight")), node_selector_term(mapping(each.get("preference"))))
        for each in objects(value)
    )


def _pod_terms(value: object) -> tuple[PodAffinityTerm, ...]:
    return tuple(_pod_term(each) for each in objects(value))


def _weighted(value: object) -> tuple[WeightedPodAffinityTerm, ...]:
    return tuple(
        WeightedPodAffinityTerm(whole(each.get("weight")), _pod_term(mapping(each.get("podAffinityTerm"))))
        for each in objects(value)
    )


def _pod_term(term: Document) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=text(term.get("topologyKey")),
        label_selector=label_selector(term.get("labelSelector")),
        namespaces=texts(term.get("namespaces")),
        namespace_selector=label_selector(term.get("namespaceSelector")),
        match_label_keys=texts(term.get("matchLabelKeys")),
        mismatch_label_keys=texts(term.get("mismatchLabelKeys")),
    )


def _spread(constraint: Document) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=whole(constraint.get("maxSkew"), 1),
        topology_key=text(constraint.get("topologyKey")),
        when_unsatisfiable=text(constraint.get("whenUnsatisfiable")) or "DoNotSchedule",
        label_selector=label_selector(constraint.get("labelSelector")),
        min_domains=optional_whole(constraint.get("minDomains")),
        match_label_keys=texts(constraint.get("matchLabelKeys")),
        node_affinity_policy=text(constraint.get("nodeAffinityPolicy")) or "Honor",
        node_taints_policy=text(constraint.get("nodeTaintsPolicy")) or "Ignore",
    )


def _toleration(toleration: Document) -> Toleration:
    return Toleration(
        key=text(toleration.get("key")),
        operator=text(toleration.get("operator")) or "Equal",
        value=text(toleration.get("value")),
        effect=text(toleration.get("effect")),
    )


def _host_ports(spec: Document) -> tuple[HostPort, ...]:
    """Return the ports that containers and sidecars claim on the node, each once; init containers claim none."""
    ports: dict[HostPort, None] = {}
    sidecars = [c for c in objects(spec.get("initContainers")) if c.get("restartPolicy") == "Always"]
    for container in (*objects(spec.get("containers")), *sidecars):
        for port in objects(container.get("ports")):
            number = whole(port.get("hostPort"))
            if number > 0:
                protocol, address = text(port.get("protocol")) or "TCP", text(port.get("hostIP")) or EVERY_ADDRESS
                ports[HostPort(number, protocol, address)] = None
    return tuple(ports)
