"""Pods, as far as scheduling, draining and explaining need them.

A `PodSpec` holds what replicas have in common and is interned: equal specs are the same object, so that pods are
classed by identity. What differs between replicas is on the `Pod`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from controller.core.api.frozen import EMPTY, FrozenMap, made_quickly

Resources: TypeAlias = FrozenMap[str, int]
"""cpu in millicores; every other resource in whole units (bytes for memory and ephemeral-storage, counts else).

Each value was rounded up once, per pod or per node, as kube-scheduler does (`MilliValue`, `Value`)."""

PodKey: TypeAlias = tuple[str, str]
"""(namespace, name)."""


@dataclass(frozen=True, slots=True)
class SelectorRequirement:
    """One expression of a node or label selector. Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Expressions that must all hold. A term with neither expressions nor fields matches no node (Kubernetes API)."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A node selector term with a weight of 1..100."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """matchLabels are folded into In expressions, sorted by key. No expression matches everything."""

    expressions: tuple[SelectorRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """A required pod (anti-)affinity term. `label_selector` None matches no pod; `namespace_selector` None is unset."""

    topology_key: str
    label_selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightedPodAffinityTerm:
    """A preferred pod (anti-)affinity term with a weight of 1..100."""

    weight: int
    term: PodAffinityTerm


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """Defaults as the API server's: nodeAffinityPolicy Honor, nodeTaintsPolicy Ignore, minDomains unset (None)."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"

    @property
    def required(self) -> bool:
        """Whether kube-scheduler places no pod against it."""
        return self.when_unsatisfiable == "DoNotSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """operator Equal or Exists; an empty key with Exists tolerates all; an empty effect matches all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the API's own default, not an address we bind


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port claimed on the node; `ip` "0.0.0.0" or "::" claims it on every address."""

    port: int
    protocol: str = "TCP"
    ip: str = EVERY_ADDRESS


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume that a claim backs. `ephemeral` claims are named POD-VOLUME and carry their own template."""

    name: str
    claim_name: str
    ephemeral: bool = False
    storage_class_name: str | None = None
    """The template's class, of ephemeral volumes alone; None when the default class is to be used."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of devices (DRA): a ResourceClaim by name, or one made for the pod from a ResourceClaimTemplate."""

    name: str
    claim_name: str = ""
    template_name: str = ""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """The fields of spec that kube-scheduler's filters and the packer read; equal for replicas of a Deployment."""

    requests: Resources
    """Effective requests as kube-scheduler counts them: max(containers + sidecars, init), limits standing in for absent
    requests, pod-level resources, overhead, and `pods: 1`."""
    node_selector: FrozenMap[str, str] = EMPTY
    required_node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    """Terms are ORed. None: no required affinity. An empty tuple matches nothing."""
    preferred_node_affinity: tuple[PreferredTerm, ...] = ()
    required_pod_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_pod_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    required_pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_pod_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    topology_spread: tuple[TopologySpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    priority: int = 0
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduler_name: str = "default-scheduler"
    gated: bool = False
    """The pod has scheduling gates: kube-scheduler ignores it until they are removed."""
    termination_grace_period_seconds: int = 30
    malformed: tuple[str, ...] = ()
    """Fields that could not be read, with the reason: such a pod is never placed, and an event has the reason."""
    resource_claims: tuple[PodClaim, ...] = ()
    """In snapshots, their devices are among `requests` as extended resources (state/claim_resolution.py)."""
    unsupported: tuple[str, ...] = ()
    """Fields that kube-scheduler obeys and plans do not support, each with a remedy: such a pod is never placed."""

    @property
    def may_preempt(self) -> bool:
        """Whether kube-scheduler may remove pods of lower priority for the pod."""
        return self.preemption_policy != "Never"


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """The owner that controls an object."""

    api_version: str
    kind: str
    name: str
    uid: str


_TIED_TO_NODE: Final = frozenset({("DaemonSet", "apps/v1"), ("Node", "v1")})


@made_quickly
@dataclass(frozen=True, slots=True)
class Pod:
    """One pod. Times are Unix seconds."""

    namespace: str
    name: str
    uid: str
    spec: PodSpec
    labels: FrozenMap[str, str] = EMPTY
    annotations: FrozenMap[str, str] = EMPTY
    owners: tuple[OwnerReference, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    created: float = 0.0
    deleted_at: float | None = None
    """metadata.deletionTimestamp: when the pod will be gone at the latest, grace period included."""
    phase: str = "Pending"
    node_name: str = ""
    nominated_node_name: str = ""
    unschedulable: bool = False
    """A condition has type PodScheduled and reason Unschedulable."""
    ready: bool = False
    resource_version: str = field(default="", compare=False)
    evicted_for_storage: bool = False
    """Its kubelet evicted it because the node was low on ephemeral storage."""
    limits: Resources = EMPTY
    """Limits of its containers, `pods: 1` included. For display only: plans do not read them."""
    claim_names: FrozenMap[str, str] = EMPTY
    """ResourceClaims that were made for it, by the name of its claim."""

    @property
    def key(self) -> PodKey:
        """(namespace, name)."""
        return (self.namespace, self.name)

    @property
    def full_name(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"

    @property
    def terminal(self) -> bool:
        """Succeeded or Failed: it uses nothing and blocks nothing."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        return self.deleted_at is not None

    def owned_by(self, api_version: str, kind: str) -> bool:
        for owner in self.owners:  # noqa: SIM110 - `any` takes three times as long, and this is asked of every pod
            if owner.kind == kind and owner.api_version == api_version:
                return True
        return False

    @property
    def tied_to_node(self) -> bool:
        """A DaemonSet or, for a static pod, its Node owns it: it comes and goes with the node."""
        for owner in self.owners:  # noqa: SIM110 - as in `owned_by`
            if (owner.kind, owner.api_version) in _TIED_TO_NODE:
                return True
        return False

    @property
    def daemon(self) -> bool:
        return self.owned_by("apps/v1", "DaemonSet")

    @property
    def static(self) -> bool:
        """A static (mirror) pod: its Node owns it."""
        return self.owned_by("v1", "Node")
