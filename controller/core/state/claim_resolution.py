"""Turn pods with claims of devices (DRA) into pods that request an extended resource, the only form that plans know.

The extended resource of a DeviceClass is a setting; what cannot be counted by it is refused with the reason. Devices
count once for each claim, even if pods share it: with its *bearer*, a pod that has the claim, or on the node where the
claim is allocated while no pod with it is bound there. A pending pod goes where its claim is allocated. The other pods
of a claim go where its bearer does: it gets a label, and they a required affinity to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from controller.core.api.devices import ClaimSpec, DeviceRequest, ResourceClaim, ResourceClaimTemplate
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import HOSTNAME
from controller.core.api.pod import (
    LabelSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodClaim,
    PodKey,
    PodSpec,
    Resources,
    SelectorRequirement,
)
from controller.core.api.podspec import CLAIMS_NOT_READ, interned

SHARED_LABEL: Final = "claim.resource.k8s.io/"
"""Prefix of the label that the bearer of a shared claim has in snapshots alone: no object of the cluster gets it."""


class _RefusedError(Exception):
    """A claim whose devices cannot be planned for; the message has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """`pods`: those with claims, as plans see them. `held`: by node, devices of claims that no pod there bears."""

    pods: Mapping[PodKey, Pod] = field(default_factory=lambda: EMPTY)
    held: Mapping[str, Resources] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class _Effect:
    """What its claims add to a pod's spec."""

    requests: tuple[tuple[str, int], ...]
    refusals: tuple[str, ...]
    nodes: tuple[tuple[NodeSelectorTerm, ...], ...]
    """Node selectors of allocated claims; one term of each must match."""
    borne: tuple[str, ...]
    """Names of the claims that it bears for other pods too."""
    followed: tuple[str, ...]
    """Names of the claims that another pod bears."""


def resolve(
    pods: Mapping[PodKey, Pod],
    claims: Mapping[PodKey, ResourceClaim],
    templates: Mapping[PodKey, ResourceClaimTemplate],
    resources: Mapping[str, str],
    before: Resolution,
) -> Resolution:
    """Resolve `pods`, which have claims. `resources`: the extended resource of each DeviceClass.

    A pod that comes out as in `before` is the same object.
    """
    resolver = _Resolver(pods, claims, templates, resources)
    resolved = {key: _kept(resolver.resolved(pods[key]), before.pods.get(key)) for key in sorted(pods)}
    return Resolution(FrozenMap(resolved), resolver.held())


def _kept(pod: Pod, before: Pod | None) -> Pod:
    same = pod == before and before is not None and pod.resource_version == before.resource_version
    return before if same and before is not None else pod


@dataclass
class _Resolver:
    pods: Mapping[PodKey, Pod]
    claims: Mapping[PodKey, ResourceClaim]
    templates: Mapping[PodKey, ResourceClaimTemplate]
    resources: Mapping[str, str]

    def __post_init__(self) -> None:
        users: dict[PodKey, list[Pod]] = {}
        for pod in self.pods.values():
            if not pod.terminal and (pod.node_name or not pod.terminating):
                for reference in pod.spec.resource_claims:
                    if name := _claim_name(pod, reference):
                        users.setdefault((pod.namespace, name), []).append(pod)
        self._users = {key: sorted(theirs, key=_bearing) for key, theirs in users.items()}
        """By claim, the bearer first."""
        self._specs: dict[tuple[int, _Effect], PodSpec] = {}

    def held(self) -> Mapping[str, Resources]:
        """Return, by node, devices of allocated claims without a bound pod."""
        held: dict[str, Counter[str]] = {}
        for key, claim in self.claims.items():
            node = claim.allocation.node_name if claim.allocation is not None else ""
            users = self._users.get(key, ())
            if node and not (users and users[0].node_name):
                held.setdefault(node, Counter()).update(self._allocated(claim))
        return FrozenMap({node: FrozenMap(amounts) for node, amounts in held.items() if amounts})

    def resolved(self, pod: Pod) -> Pod:
        """Return the pod with its claims as requests."""
        if pod.terminal:
            return pod
        effect = self._effect(pod)
        known = (id(pod.spec), effect)
        if known not in self._specs:
            self._specs[known] = interned(_changed(pod.spec, effect))
        labels = {f"{SHARED_LABEL}{name}": "" for name in effect.borne}
        return replace(
            pod, spec=self._specs[known], labels=FrozenMap({**pod.labels, **labels}) if labels else pod.labels
        )

    def _effect(self, pod: Pod) -> _Effect:
        added: Counter[str] = Counter()
        refusals: list[str] = []
        nodes: list[tuple[NodeSelectorTerm, ...]] = []
        borne: list[str] = []
        followed: list[str] = []
        for reference in pod.spec.resource_claims:
            name = _claim_name(pod, reference)
            claim = self.claims.get((pod.namespace, name))
            users = self._users.get((pod.namespace, name), ())
            bears = not users or users[0] is pod
            allocation = claim.allocation if claim is not None else None
            if not bears and (pod.node_name or allocation is None):
                followed.append(name)
            elif bears and len(users) > 1:
                borne.append(name)
            try:
                if claim is not None and allocation is not None:
                    if not pod.node_name:
                        nodes += [] if allocation.node_terms is None else [allocation.node_terms]
                        continue
                    added.update(self._allocated(claim) if bears else {})
                    self._counted(*self._spec_of(pod, reference, claim))
                else:
                    wanted = self._counted(*self._spec_of(pod, reference, claim))
                    added.update(wanted if bears else {})
            except _RefusedError as error:
                refusals.append(f"spec.resourceClaims[{reference.name}]: {error}")
        return _Effect(tuple(sorted(added.items())), tuple(refusals), tuple(nodes), tuple(borne), tuple(followed))

    def _spec_of(self, pod: Pod, reference: PodClaim, claim: ResourceClaim | None) -> tuple[ClaimSpec, str]:
        """Return what the claim asks for, and by which object; for a bound pod, what its next claim will ask for."""
        template = self.templates.get((pod.namespace, reference.template_name))
        if claim is not None and (template is None or not pod.node_name):
            return claim.spec, f"ResourceClaim {claim.namespace}/{claim.name}"
        named = reference.template_name or reference.claim_name
        if not named:
            raise _RefusedError("its claim is not known here (a dump has no claims)")
        of = f"ResourceClaim{'Template' if reference.template_name else ''} {pod.namespace}/{named}"
        if template is None:
            raise _RefusedError(
                f"{of} is not known: create it (kinds of resource.k8s.io are read if the API server serves them when "
                "the controller starts)"
            )
        return template.spec, of

    def _counted(self, spec: ClaimSpec, of: str) -> Counter[str]:
        """Extended resources that a claim amounts to. Raises _RefusedError."""
        wanted: Counter[str] = Counter()
        for alternatives in spec.requests:
            chosen = next((each for each in alternatives if self._known(each)), None)
            if chosen is None:
                raise _RefusedError("; ".join(self._refusal(each, of) for each in alternatives))
            wanted[self.resources[chosen.device_class]] += chosen.count
        if spec.constrained and wanted.total() > 1:
            raise _RefusedError(f"{of} has constraints between its devices, which only their driver knows")
        return wanted

    def _known(self, request: DeviceRequest) -> bool:
        return not request.uncountable and request.device_class in self.resources

    def _refusal(self, request: DeviceRequest, of: str) -> str:
        if request.uncountable:
            return (
                f"request {request.name} of {of} has {request.uncountable}: which devices these are is known only "
                "where they run: ask for a number of devices of a DeviceClass, or run the pod on other nodes"
            )
        return (
            f"DeviceClass {request.device_class} (request {request.name} of {of}) is not in the setting deviceClasses: "
            "add it with the extended resource that its devices are on instance types, such as nvidia.com/gpu, or run "
            "the pod on other nodes"
        )

    def _allocated(self, claim: ResourceClaim) -> Counter[str]:
        """Extended resources that an allocated claim has; devices of other DeviceClasses are left out."""
        classes = {each.name: each.device_class for alternatives in claim.spec.requests for each in alternatives}
        given = claim.allocation.requests if claim.allocation is not None else ()
        named = (self.resources.get(classes.get(request, "")) for request in given)
        return Counter(filter(None, named))


def _bearing(pod: Pod) -> tuple[bool, bool, PodKey]:
    """Sort the pods of a claim: bound ones first, then those that kube-scheduler has marked."""
    return (not pod.node_name, not pod.unschedulable, pod.key)


def _claim_name(pod: Pod, reference: PodClaim) -> str:
    """Return the claim's name; empty while none was made of the template."""
    return reference.claim_name or pod.claim_names.get(reference.name, "")


def _changed(spec: PodSpec, effect: _Effect) -> PodSpec:
    requests = Counter(spec.requests)
    requests.update(dict(effect.requests))
    refusals = (*(each for each in spec.unsupported if each != CLAIMS_NOT_READ), *effect.refusals)
    affinity = spec.required_node_affinity
    for terms in effect.nodes:
        affinity = terms if affinity is None else tuple(_both(affinity, terms))
    together = tuple(
        PodAffinityTerm(HOSTNAME, LabelSelector((SelectorRequirement(f"{SHARED_LABEL}{name}", "Exists"),)))
        for name in effect.followed
    )
    return replace(
        spec,
        requests=FrozenMap(requests),
        unsupported=refusals,
        required_node_affinity=affinity,
        required_pod_affinity=(*spec.required_pod_affinity, *together),
    )


def _both(some: Iterable[NodeSelectorTerm], others: Iterable[NodeSelectorTerm]) -> Iterator[NodeSelectorTerm]:
    """Yield terms that match where one of `some` and one of `others` do."""
    for a, b in product(some, others):
        if (a.match_expressions or a.match_fields) and (b.match_expressions or b.match_fields):
            expressions = (*a.match_expressions, *b.match_expressions)
            yield NodeSelectorTerm(expressions, (*a.match_fields, *b.match_fields))
