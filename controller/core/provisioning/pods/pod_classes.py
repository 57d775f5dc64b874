"""Group pods that every rule treats alike into classes; the solver works on classes and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Pod, PodKey, PodSpec, Resources
from controller.core.api.replicas import Replicas
from controller.core.provisioning.pods.relaxation import Choice

SharedVolume = tuple[str, str]
"""(driver, volume) of a volume that several pods use."""


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """What a pod's volumes require of its node."""

    choices: tuple[Choice, ...] = ()
    """Volume topology: for each volume, terms of which a node must satisfy one."""
    attachments: Resources = EMPTY
    """New attachments by CSI driver, without shared volumes."""
    shared: tuple[SharedVolume, ...] = ()
    """One attachment on each node, however many of the pods are there."""
    problem: str = ""
    """Why they cannot be resolved, or empty. Such a pod is not placed."""


NO_VOLUMES = VolumeNeeds()
_age = attrgetter("created")
_name = attrgetter("name")
TURN_SECONDS = 60.0
"""Where not all pods can be placed, those that waited this much longer than others go first, so that no pod starves
while younger ones, easier to place, keep coming. Among pods of about the same age as many as possible are placed."""


@dataclass(slots=True)
class PodClass:
    """Pods with the same spec, namespace, labels (those that some selector looks at) and volume needs."""

    index: int
    spec: PodSpec
    namespace: str
    labels: FrozenMap[str, str]
    volumes: VolumeNeeds
    members: list[Replicas] = field(default_factory=list)
    """The pods as groups of replicas, in no order."""
    requests: Resources = EMPTY
    """What one pod requests, slots included."""
    waited: int = 0
    """Age of its oldest pod above that of the batch's youngest, in units of `TURN_SECONDS`, rounded down."""
    name: str = ""
    """namespace/name of the first of its pods by name."""
    of_one_workload: bool = True
    """All its pods have the same owners."""
    _size: int = 0
    _sorted: list[Pod] = field(default_factory=list)

    def add(self, replicas: Replicas) -> None:
        """Add pods to the class."""
        self.members.append(replicas)
        self._size += len(replicas)
        self.of_one_workload &= self.members[0].first.owners == replicas.first.owners

    def __len__(self) -> int:
        return self._size

    @property
    def pods(self) -> list[Pod]:
        """Its pods in the order in which they are placed: oldest first, then by name. Sorted on first use."""
        if not self._sorted:
            self._sorted = [pod for one in self.members for pod in one.pods]
            self._sorted.sort(key=_name)
            self._sorted.sort(key=_age)
        return self._sorted

    def by_workload(self) -> dict[str, PodClass]:
        """Return the pods of each workload as a class of its own, with this one's index."""
        parts: dict[str, PodClass] = {}
        for one in self.members:
            workload = workload_of(one.first)
            if workload not in parts:
                parts[workload] = replace(self, members=[], of_one_workload=True, _size=0, _sorted=[])
            parts[workload].add(one)
        return parts

    def workloads(self, first: int, count: int) -> Mapping[str, int]:
        """Count pods `first` to `first + count` by workload: the uid of their first owner."""
        owners = self.members[0].first.owners
        if self.of_one_workload:
            return {owners[0].uid: count} if owners and count else EMPTY
        return Counter(pod.owners[0].uid for pod in self.pods[first : first + count] if pod.owners)


def workload_of(pod: Pod) -> str:
    """Return the uid of its first owner, empty without owners."""
    return pod.owners[0].uid if pod.owners else ""


def classify(
    pending: Iterable[Replicas], label_keys: frozenset[str], needs: Mapping[PodKey, VolumeNeeds]
) -> list[PodClass]:
    """Classify pods; classes are sorted by namespace and first name, whatever the order of the pods.

    label_keys: label keys that some selector looks at. needs: of pods with volumes, by key.
    """
    codes: dict[int, int] = {}
    known: dict[PodSpec, int] = {}
    projected: dict[int, FrozenMap[str, str]] = {}
    groups: dict[tuple[int, str, FrozenMap[str, str], VolumeNeeds | None], PodClass] = {}
    for replicas in pending:
        first = replicas.first
        if (code := codes.get(id(first.spec))) is None:
            code = codes[id(first.spec)] = known.setdefault(first.spec, len(known))
        if (labels := projected.get(id(first.labels))) is None:
            labels = FrozenMap({key: value for key, value in first.labels.items() if key in label_keys})
            projected[id(first.labels)] = labels
        volumes = needs.get(first.key, NO_VOLUMES) if first.volumes else NO_VOLUMES
        needed = volumes if first.volumes and volumes != NO_VOLUMES else None
        key = (code, first.namespace, labels, needed)
        if (group := groups.get(key)) is None:
            group = groups[key] = PodClass(0, first.spec, first.namespace, labels, volumes)
        group.add(replicas)
    return _numbered(list(groups.values()))


def _numbered(groups: list[PodClass]) -> list[PodClass]:
    """Name the classes by their first pod, note how long they waited, sort and number them."""
    ages = [[age for one in group.members for age in one.ages] for group in groups]
    youngest = max(map(max, ages), default=0.0)
    for group, known in zip(groups, ages, strict=True):
        group.name = f"{group.namespace}/{min([one.name for one in group.members])}"
        group.waited = int((youngest - min(known)) // TURN_SECONDS)
    groups.sort(key=lambda group: group.name.split("/", 1))
    for index, group in enumerate(groups):
        group.index = index
    return groups
