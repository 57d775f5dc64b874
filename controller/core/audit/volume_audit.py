"""Judge volumes as kube-scheduler's volumebinding, volumezone and nodevolumelimits plugins do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from controller.core.api.labels import INSTANCE_TYPE, REGION, ZONE
from controller.core.api.pod import Pod, PodVolume
from controller.core.api.workloads import PersistentVolume, PersistentVolumeClaim, StorageClass
from controller.core.audit.matching import any_term_holds, label_of
from controller.core.provisioning.plan import SchedulingProblem

NO_PROVISIONER = "kubernetes.io/no-provisioner"

VOLUME_LABELS = {
    ZONE: ZONE,
    REGION: REGION,
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
"""Labels of a PersistentVolume that bind it to a place (volumezone); a value may list several, joined by `__`."""


class VolumeRules:
    """The rules for the claims, volumes and storage classes of one problem."""

    def __init__(self, problem: SchedulingProblem) -> None:
        snapshot = problem.snapshot
        self._claims = snapshot.claims
        self._volumes = snapshot.volumes
        self._classes = snapshot.storage_classes
        self._csi = snapshot.csi_nodes
        self._nodes = snapshot.nodes

    def refusal(self, pod: Pod, labels: Mapping[str, str], node_name: str) -> str | None:
        """Return why the pod's volumes keep it from a node of these labels, or None."""
        reasons = (self._volume_refusal(pod, volume, labels, node_name) for volume in pod.volumes)
        return next((reason for reason in reasons if reason), None)

    def _volume_refusal(self, pod: Pod, volume: PodVolume, labels: Mapping[str, str], node_name: str) -> str | None:
        claim = self._claims.get((pod.namespace, volume.claim_name))
        if claim is None:
            if not volume.ephemeral:
                return f"claim {volume.claim_name} does not exist"
            return self._class_refusal(self._class(volume.storage_class_name), volume.claim_name, labels, node_name)
        if not claim.volume_name:
            return self._unbound_refusal(claim, labels, node_name)
        bound = self._volumes.get(claim.volume_name)
        if bound is None:
            return f"volume {claim.volume_name} of claim {claim.name} does not exist"
        return None if _reachable(bound, labels, node_name) else f"volume {bound.name} is not reachable from it"

    def _unbound_refusal(self, claim: PersistentVolumeClaim, labels: Mapping[str, str], node_name: str) -> str | None:
        kind = self._class(claim.storage_class_name)
        if claim.storage_class_name == "":
            return f"claim {claim.name} has no class and is not bound"
        if kind is not None and kind.provisioner == NO_PROVISIONER and kind.binding_mode == "WaitForFirstConsumer":
            free = (v for v in self._volumes.values() if _suits(v, claim, kind))
            if not any(_reachable(v, labels, node_name) for v in free):
                return f"no free volume of class {kind.name} for claim {claim.name} is reachable from it"
            return None
        return self._class_refusal(kind, claim.name, labels, node_name)

    def _class_refusal(
        self, kind: StorageClass | None, claim: str, labels: Mapping[str, str], node_name: str
    ) -> str | None:
        if kind is None:
            return f"claim {claim} has no storage class that exists"
        if kind.binding_mode != "WaitForFirstConsumer":
            return f"claim {claim} is unbound and its class {kind.name} binds immediately"
        if kind.allowed_topologies and not any_term_holds(kind.allowed_topologies, labels, node_name):
            return f"class {kind.name} of claim {claim} does not allow its topology"
        return None

    def _class(self, name: str | None) -> StorageClass | None:
        if name is not None:
            return self._classes.get(name)
        defaults = [c for c in self._classes.values() if c.default]
        return max(defaults, key=lambda c: (c.created, c.name), default=None)

    def over_limit(self, node_name: str, standing: Iterable[Pod], pods: Iterable[Pod]) -> Iterator[str]:
        """Yield CSI attach limits that pods exceed on an existing node."""
        if (csi := self._csi.get(node_name)) is not None:
            yield from self._above(csi.limits, standing, pods)

    def over_limit_of_type(self, instance_type: str, pods: Iterable[Pod]) -> Iterator[str]:
        """Yield CSI attach limits that pods exceed on a new node; its limit is the least among nodes of its type."""
        yield from self._above(self._limits_of_type.get(instance_type, {}), (), pods)

    @cached_property
    def _limits_of_type(self) -> dict[str, dict[str, int]]:
        limits: dict[str, dict[str, int]] = defaultdict(dict)
        for name, node in self._nodes.items():
            of_type = limits[node.node.labels.get(INSTANCE_TYPE, "")]
            for driver, limit in self._csi[name].limits.items() if name in self._csi else ():
                of_type[driver] = min(limit, of_type.get(driver, limit))
        return limits

    def _above(self, limits: Mapping[str, int], standing: Iterable[Pod], pods: Iterable[Pod]) -> Iterator[str]:
        """Yield limits that the pods exceed; each claim counts once, and not if it is already attached."""
        if not limits:
            return
        before, after = self._attached(standing), self._attached(pods)
        for driver, limit in sorted(limits.items()):
            count = len(before[driver] | after[driver])
            if count > limit and after[driver] - before[driver]:
                yield f"{count} volumes of {driver}, of which it can attach {limit}"

    def _attached(self, pods: Iterable[Pod]) -> dict[str, set[tuple[str, str]]]:
        """Return the claims of pods, by driver."""
        attached: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for pod in pods:
            for volume in pod.volumes:
                attached[self._driver(pod, volume)].add((pod.namespace, volume.claim_name))
        return attached

    def _driver(self, pod: Pod, volume: PodVolume) -> str:
        claim = self._claims.get((pod.namespace, volume.claim_name))
        if claim is not None and claim.volume_name:
            held = self._volumes.get(claim.volume_name)
            return _plugin(held.driver) if held is not None else ""
        kind = self._class(claim.storage_class_name if claim is not None else volume.storage_class_name)
        return _plugin(kind.provisioner) if kind is not None else ""

    def shared_host(self, pods: Iterable[Pod]) -> Iterator[str]:
        """Yield volumes of these pods, meant for a new node, that are local to an existing host."""
        for pod in pods:
            for volume in pod.volumes:
                claim = self._claims.get((pod.namespace, volume.claim_name))
                held = self._volumes.get(claim.volume_name) if claim is not None and claim.volume_name else None
                if held is not None and held.local:
                    yield f"volume {held.name} of {pod.full_name} lives on a host that exists already"


def _plugin(name: str) -> str:
    """Return the CSI driver that does the work of an in-tree plugin of AWS (Kubernetes has migrated it since 1.25)."""
    return "ebs.csi.aws.com" if name == "kubernetes.io/aws-ebs" else name


def _reachable(volume: PersistentVolume, labels: Mapping[str, str], node_name: str) -> bool:
    if volume.node_affinity is not None and not any_term_holds(volume.node_affinity, labels, node_name):
        return False
    if all(label_of(labels, key) is None for key in (ZONE, REGION)):
        return True
    for key, node_key in VOLUME_LABELS.items():
        places = volume.labels.get(key)
        if places is not None and label_of(labels, node_key) not in places.split("__"):
            return False
    return True


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim, kind: StorageClass) -> bool:
    unclaimed = volume.claim is None or volume.claim == claim.key
    return (
        unclaimed
        and volume.phase in ("Available", "")
        and volume.storage_class_name == kind.name
        and volume.capacity_bytes >= claim.requested_bytes
        and set(claim.access_modes) <= set(volume.access_modes)
    )
