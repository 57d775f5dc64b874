"""Pods that are alike to every rule form one class with a count; all else works on classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Pod, PodKey, PodSpec, Resources
from controller.core.provisioning.levels import Choice


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """What a pod's volumes demand. Equal needs make pods alike."""

    choices: tuple[Choice, ...] = ()
    """Where they can be reached: for each volume, terms of which a node must satisfy one."""
    attachments: Resources = EMPTY
    """New attachments by CSI driver, volumes that others share left out."""
    shared: tuple[tuple[str, str], ...] = ()
    """(driver, volume) of volumes that several pods use: attached once a node."""
    problem: str = ""
    """Why they cannot be resolved: such a pod is not placed."""


NO_VOLUMES = VolumeNeeds()
_age = attrgetter("created")
_name = attrgetter("name")
_template = attrgetter("labels", "namespace", "volumes", "owners", "spec")
TURN_SECONDS = 60.0
"""Pods that wait this much longer than others are served before them where not all can be: no pod starves because
younger ones, that are easier to place, keep coming. Pods of about the same age are served so that most find a place."""


@dataclass(slots=True)
class PodClass:
    """Pods with the same spec, namespace, labels (those that some selector looks at) and volume needs."""

    index: int
    spec: PodSpec
    namespace: str
    labels: FrozenMap[str, str]
    volumes: VolumeNeeds
    members: list[Pod] = field(default_factory=list)
    """In no order, until `pods` is asked for."""
    requests: Resources = EMPTY
    """Of one pod, slots included."""
    waited: int = 0
    """How many times `TURN_SECONDS` its oldest pod is older than the batch's youngest."""
    name: str = ""
    """namespace/name of the first of its pods by name, to call the class by."""
    _sorted: bool = False
    of_one_workload: bool = True
    """All its pods have the same owners."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def pods(self) -> list[Pod]:
        """Its pods in the order in which they get places: oldest first, then by name. Sorted when first asked for."""
        if not self._sorted:
            self.members.sort(key=_name)
            self.members.sort(key=_age)
            self._sorted = True
        return self.members

    def workloads(self, first: int, count: int) -> Mapping[str, int]:
        """How many of the pods from `first` on each workload has, by the uid of the pods' first owner."""
        owners = self.members[0].owners
        if self.of_one_workload:
            return {owners[0].uid: count} if owners else {}
        return Counter(pod.owners[0].uid for pod in self.pods[first : first + count] if pod.owners)


@dataclass(frozen=True, slots=True)
class Template:
    """Pods that share their very spec, labels, owners and namespace, as replicas do: in no order. With volumes, it is
    one pod."""

    spec: PodSpec
    labels: FrozenMap[str, str]
    namespace: str
    pods: list[Pod]


def templates(pods: Iterable[Pod]) -> list[Template]:
    """The pods by template. Specs and labels are interned, so replicas are told by identity alone."""
    alike: dict[tuple[int, int, int, str], Template] = {}
    apart: list[Template] = []
    for (labels, namespace, volumes, owners, spec), run in groupby(pods, _template):
        members = list(run)
        if volumes:
            apart += [Template(spec, labels, namespace, [pod]) for pod in members]
            continue
        key = (id(spec), id(labels), id(owners), namespace)
        found = alike.get(key)
        if found is None:
            alike[key] = Template(spec, labels, namespace, members)
        else:
            found.pods.extend(members)
    return [*alike.values(), *apart]


def classify(
    found: Iterable[Template], label_keys: frozenset[str], needs: Mapping[PodKey, VolumeNeeds]
) -> list[PodClass]:
    """The classes of all templates' pods, by namespace and the first name, whatever order the pods came in.

    `label_keys` are the label keys that selectors look at; `needs` has the pods with volumes, by key.
    """
    codes: dict[int, int] = {}
    known: dict[PodSpec, int] = {}
    projected: dict[int, FrozenMap[str, str]] = {}
    groups: dict[tuple[int, str, FrozenMap[str, str], VolumeNeeds], PodClass] = {}
    for one in found:
        code = codes.get(id(one.spec))
        if code is None:
            code = codes[id(one.spec)] = known.setdefault(one.spec, len(known))
        labels = projected.get(id(one.labels))
        if labels is None:
            labels = FrozenMap({key: value for key, value in one.labels.items() if key in label_keys})
            projected[id(one.labels)] = labels
        volumes = needs.get(one.pods[0].key, NO_VOLUMES) if one.pods[0].volumes else NO_VOLUMES
        key = (code, one.namespace, labels, volumes)
        group = groups.get(key)
        if group is None:
            groups[key] = PodClass(0, one.spec, one.namespace, labels, volumes, one.pods)
        else:
            group.of_one_workload &= group.members[0].owners == one.pods[0].owners
            group.members.extend(one.pods)
    return _numbered(list(groups.values()))


def _numbered(groups: list[PodClass]) -> list[PodClass]:
    ages = [pod.created for group in groups for pod in group.members]
    youngest, oldest = max(ages, default=0.0), min(ages, default=0.0)
    for group in groups:
        group.name = f"{group.namespace}/{min(map(_name, group.members))}"
        if youngest - oldest >= TURN_SECONDS:
            group.waited = int((youngest - min(map(_age, group.members))) // TURN_SECONDS)
    groups.sort(key=lambda group: group.name.split("/", 1))
    for index, group in enumerate(groups):
        group.index = index
    return groups
