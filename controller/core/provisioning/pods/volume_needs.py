"""Resolve what a pod's volumes require of its node: topology and attachments.

Rules as in kube-scheduler's filters VolumeBinding, VolumeZone and NodeVolumeLimits. Karpenter v0.27 differs: it reads
only the first term of a volume's affinity, ignores the binding mode, and places pods whose claims cannot be resolved.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import FIELD_NAME
from controller.core.api.pod import Pod, PodKey, PodVolume
from controller.core.api.workloads import PersistentVolume, PersistentVolumeClaim, StorageClass
from controller.core.provisioning.pods.pod_classes import SharedVolume, VolumeNeeds
from controller.core.provisioning.pods.relaxation import Choice, choice, required_choices
from controller.core.provisioning.problem import pool_requirements
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.state.snapshot import Snapshot, StateNode

NO_PROVISIONER = "kubernetes.io/no-provisioner"
MIGRATED = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}
"""In-tree plugins whose volumes a CSI driver attaches (Kubernetes 1.27: the migration cannot be turned off)."""
ZONE_LABELS = frozenset({labels.ZONE, labels.REGION, *(k for k, v in labels.NORMALIZED.items() if v == labels.ZONE)})


class UnresolvedVolumeError(ValueError):
    """A volume that cannot be placed: which, why, and what would help. Caught in `Volumes.needs`."""


class Volumes:
    """Resolves the volumes of a batch against the cluster's claims, volumes and classes."""

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod]) -> None:
        self._snapshot = snapshot
        self._pods = [pod for pod in pods if pod.volumes]
        self._uses = Counter(key for pod in self._pods for key in {self._key(pod, v) for v in pod.volumes})
        if self._pods:
            self._uses.update(self._running_claims())

    def _running_claims(self) -> Iterable[PodKey]:
        for node in self._snapshot.nodes.values():
            for pod in node.pods:
                yield from (self._key(pod, volume) for volume in pod.volumes)

    def _key(self, pod: Pod, volume: PodVolume) -> PodKey:
        return (pod.namespace, volume.claim_name)

    @cached_property
    def _default_class(self) -> StorageClass | None:
        """The newest default class (the API server's own rule for several)."""
        defaults = [c for c in self._snapshot.storage_classes.values() if c.default]
        return max(defaults, key=lambda c: (c.created, c.name), default=None)

    def needs(self) -> dict[PodKey, VolumeNeeds]:
        """Return the needs of every pod that has volumes."""
        needs = {}
        for pod in self._pods:
            try:
                needs[pod.key] = self._of(pod)
            except ValueError as problem:
                needs[pod.key] = VolumeNeeds(problem=str(problem))
        return needs

    def _of(self, pod: Pod) -> VolumeNeeds:
        """Return the needs of one pod."""
        choices: list[Choice] = []
        attachments: dict[str, int] = defaultdict(int)
        shared_volumes = []
        for key, volume in sorted({self._key(pod, v): v for v in pod.volumes}.items()):
            reached, driver = self._resolve(key, volume)
            choices.extend(reached)
            if not driver or not self._limited(driver):
                continue
            if self._uses[key] > 1:
                shared_volumes.append((driver, "/".join(key)))
            else:
                attachments[driver] += 1
        return VolumeNeeds(tuple(dict.fromkeys(choices)), FrozenMap(attachments), tuple(shared_volumes))

    def _limited(self, driver: str) -> bool:
        return any(driver in node.limits for node in self._snapshot.csi_nodes.values())

    def _resolve(self, key: PodKey, volume: PodVolume) -> tuple[list[Choice], str]:
        """Return the volume's topology, and the driver that attaches it (empty: none). Raises UnresolvedVolumeError."""
        claim = self._snapshot.claims.get(key)
        if claim is None and not volume.ephemeral:
            raise UnresolvedVolumeError(f"its PersistentVolumeClaim {'/'.join(key)} does not exist; create it")
        if claim is not None and claim.volume_name:
            return self._bound(claim)
        wanted = claim.storage_class_name if claim is not None else volume.storage_class_name
        storage_class = self._storage_class(wanted)
        if storage_class is None and wanted:
            raise UnresolvedVolumeError(
                f"the StorageClass {wanted} of its claim {'/'.join(key)} does not exist; create it, or name another"
            )
        if storage_class is None or storage_class.binding_mode != "WaitForFirstConsumer":
            raise UnresolvedVolumeError(
                f"its PersistentVolumeClaim {'/'.join(key)} is not bound yet, and binds without waiting for the pod; "
                "it will be placed where the volume is, once there is one"
            )
        if claim is not None and claim.selected_node in self._snapshot.nodes:
            return [_named(claim.selected_node)], driver_name(storage_class.provisioner)
        if storage_class.provisioner == NO_PROVISIONER:
            return self._reach(self._static_volume(key, storage_class)), ""
        topologies = storage_class.allowed_topologies
        return ([] if topologies is None else [choice(topologies)]), driver_name(storage_class.provisioner)

    def _storage_class(self, name: str | None) -> StorageClass | None:
        """Return the StorageClass that a claim names: None names the default class, and "" none at all."""
        return self._default_class if name is None else self._snapshot.storage_classes.get(name)

    def _bound(self, claim: PersistentVolumeClaim) -> tuple[list[Choice], str]:
        volume = self._snapshot.volumes.get(claim.volume_name)
        if volume is None:
            raise UnresolvedVolumeError(
                f"the PersistentVolume {claim.volume_name} of its claim {claim.namespace}/{claim.name} does not exist"
            )
        return self._reach(volume), driver_name(volume.driver)

    def _reach(self, volume: PersistentVolume) -> list[Choice]:
        """Return the volume's node affinity (any term), and its labels' zones ("a__b": either, as in VolumeZone)."""
        choices = [] if volume.node_affinity is None else [choice(volume.node_affinity)]
        for key, value in sorted(volume.labels.items()):
            if key in ZONE_LABELS:
                choices.append((Requirements((Requirement.of(key, "In", value.split("__")),)),))
        return choices

    def _static_volume(self, key: PodKey, storage_class: StorageClass) -> PersistentVolume:
        name = self._static.get(key)
        if name is None:
            raise UnresolvedVolumeError(
                f"no PersistentVolume of class {storage_class.name} that its pod could reach is free for its claim "
                f"{'/'.join(key)}; make one"
            )
        return self._snapshot.volumes[name]

    @cached_property
    def _static(self) -> dict[PodKey, str]:
        """The statically provisioned volume for each claim: the smallest suitable one, each assigned once."""
        pools = [pool_requirements(provisioner) for provisioner in self._snapshot.provisioners.values()]
        suitable: dict[PodKey, list[str]] = {}
        for pod in self._pods:
            for volume in pod.volumes:
                key = self._key(pod, volume)
                candidates = self._candidates(pod, key, volume, pools)
                suitable[key] = [name for name in suitable.get(key, candidates) if name in candidates]
        return matched(suitable)

    def _candidates(self, pod: Pod, key: PodKey, mount: PodVolume, pools: Sequence[Requirements]) -> list[str]:
        """Return the free static volumes that suit the claim and the pod's node affinity, best first."""
        claim = self._snapshot.claims.get(key)
        wanted = claim.storage_class_name if claim is not None else mount.storage_class_name
        storage_class = self._storage_class(wanted)
        if storage_class is None or storage_class.provisioner != NO_PROVISIONER or (claim and claim.volume_name):
            return []
        size, modes = (claim.requested_bytes, set(claim.access_modes)) if claim else (0, set[str]())
        demanded = required_choices(pod.spec)
        suitable = [
            volume
            for volume in self._snapshot.volumes.values()
            if volume.storage_class_name == storage_class.name
            and (volume.claim == key or (volume.claim is None and volume.phase in ("", "Available")))
            and volume.capacity_bytes >= size
            and modes <= set(volume.access_modes)
            and compatible(demanded, self._reach(volume))
        ]
        far = {v.name for v in suitable if not within_reach(self._reach(v), self._snapshot, pools)}
        suitable.sort(key=lambda v: (v.claim != key, v.name in far, v.capacity_bytes, v.name))
        return [volume.name for volume in suitable]

    def attached(self, node: StateNode, driver: str) -> int:
        """Count the attachments of a driver on a node, each volume once."""
        held = {self._key(pod, volume) for pod in node.pods for volume in pod.volumes}
        return sum(self._driver(key) == driver for key in held)

    def attached_shared(self, nodes: Iterable[StateNode], shared: Collection[SharedVolume]) -> dict[str, list[int]]:
        """Return, by shared volume, the places of the nodes that have it attached."""
        volumes = {volume for _, volume in shared}
        attached: dict[str, list[int]] = defaultdict(list)
        for place, node in enumerate(nodes) if volumes else ():
            held = {"/".join(self._key(pod, volume)) for pod in node.pods for volume in pod.volumes}
            for volume in sorted(held & volumes):
                attached[volume].append(place)
        return attached

    def _driver(self, key: PodKey) -> str:
        claim = self._snapshot.claims.get(key)
        if claim is None:
            return ""
        if claim.volume_name:
            volume = self._snapshot.volumes.get(claim.volume_name)
            return driver_name(volume.driver) if volume else ""
        storage_class = self._storage_class(claim.storage_class_name)
        return driver_name(storage_class.provisioner) if storage_class else ""


def driver_name(name: str) -> str:
    """Return the CSI driver that attaches volumes of a plugin."""
    return MIGRATED.get(name, name)


def _named(node: str) -> Choice:
    return (Requirements((Requirement.of(FIELD_NAME, "In", (node,)),)),)


def matched(suitable: Mapping[PodKey, Sequence[str]]) -> dict[PodKey, str]:
    """Find a maximum bipartite matching of unbound claims to statically provisioned volumes, by augmenting paths.

    kube-scheduler looks for a free volume pod by pod, on the node that it considers. suitable: per claim, its
    suitable volumes, best first. An earlier claim may change its volume for a later one, but never loses it.
    """
    holder: dict[str, PodKey] = {}
    held: dict[PodKey, str] = {}
    lost: set[str] = set()
    """Volumes from which no augmenting path leads to a free one."""
    for claim in suitable:
        asked_by: dict[str, PodKey] = {}
        waiting = deque([claim])
        free: str | None = None
        while waiting and free is None:
            asking = waiting.popleft()
            fresh = [volume for volume in suitable[asking] if volume not in asked_by and volume not in lost]
            asked_by.update(dict.fromkeys(fresh, asking))
            free = next((volume for volume in fresh if volume not in holder), None)
            waiting.extend(holder[volume] for volume in fresh if volume in holder)
        if free is None:
            lost.update(asked_by)
        while free is not None:
            asking = asked_by[free]
            given_up = held.get(asking)
            holder[free], held[asking] = asking, free
            free = given_up
    return held


def compatible(these: Iterable[Choice], those: Iterable[Choice]) -> bool:
    """Return whether some node may satisfy both, judged key by key."""
    others = tuple(those)
    return all(any(not x.conflicts(y) for x in one for y in other) for one in these for other in others)


def within_reach(reach: Iterable[Choice], snapshot: Snapshot, pools: Sequence[Requirements]) -> bool:
    """Return whether an existing node, or a new one by its Provisioner's requirements, can be where the volume is."""
    wanted = tuple(reach)
    nodes = (each.node.labels for each in snapshot.nodes.values() if not each.leaving)
    if any(all(any(term.accept(held) for term in terms) for terms in wanted) for held in nodes):
        return True
    bound_to_host = any(labels.HOSTNAME in term for terms in wanted for term in terms)
    return not bound_to_host and any(compatible(((pool,),), wanted) for pool in pools)
