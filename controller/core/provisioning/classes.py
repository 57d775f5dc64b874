"""Pods that are alike to every rule form one class with a count; all else works on classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
TURN_SECONDS = 60.0
"""Pods that wait this much longer than others are served before them where not all can be: no pod starves because
younger ones, that are easier to place, keep coming. Pods of about the same age are served so that most find a place."""


@dataclass(slots=True)
class PodClass:
    """Pods with the same spec, namespace, labels (those that some selector looks at) and volume needs.

    `pods` are in the order in which they get places: oldest first.
    """

    index: int
    spec: PodSpec
    namespace: str
    labels: FrozenMap[str, str]
    volumes: VolumeNeeds
    pods: list[Pod]
    requests: Resources = EMPTY
    """Of one pod, slots included."""
    waited: int = 0
    """How many times `TURN_SECONDS` its oldest pod is older than the batch's youngest."""

    name: str = ""
    """The first pod's namespace/name, to call the class by."""


class Classifier:
    """Groups pods. `label_keys` are the label keys that selectors look at; None: all."""

    def __init__(self, label_keys: frozenset[str] | None = None) -> None:
        self._label_keys = label_keys
        self._specs: dict[int, int] = {}
        self._known_specs: dict[PodSpec, int] = {}
        self._labels: dict[int, FrozenMap[str, str]] = {}
        self._held: list[object] = []

    def classes(self, pods: Iterable[Pod], needs: dict[PodKey, VolumeNeeds]) -> list[PodClass]:
        """The classes of `pods`, in the order of their first pod; `needs` has the pods with volumes, by key.

        Pods come by namespace and name. Specs and labels are interned, so most replicas are told by identity alone.
        """
        groups: dict[tuple[int, str, FrozenMap[str, str], VolumeNeeds], PodClass] = {}
        alike: dict[tuple[int, str, int], PodClass] = {}
        for pod in pods:
            replica = (id(pod.spec), pod.namespace, id(pod.labels))
            group = None if pod.volumes else alike.get(replica)
            if group is not None:
                group.pods.append(pod)
                continue
            projected = self._project(pod)
            volumes = needs.get(pod.key, NO_VOLUMES) if pod.volumes else NO_VOLUMES
            key = (self._spec(pod.spec), pod.namespace, projected, volumes)
            group = groups.get(key)
            if group is None:
                group = groups[key] = PodClass(len(groups), pod.spec, pod.namespace, projected, volumes, [])
            group.pods.append(pod)
            if not pod.volumes:
                alike[replica] = group
        for group in groups.values():
            group.pods.sort(key=_age)
            group.name = f"{group.namespace}/{group.pods[0].name}"
        youngest = max((group.pods[-1].created for group in groups.values()), default=0.0)
        for group in groups.values():
            group.waited = int((youngest - group.pods[0].created) // TURN_SECONDS)
        return list(groups.values())

    def _spec(self, spec: PodSpec) -> int:
        code = self._specs.get(id(spec))
        if code is None:
            code = self._known_specs.setdefault(spec, len(self._known_specs))
            self._specs[id(spec)] = code
            self._held.append(spec)
        return code

    def _project(self, pod: Pod) -> FrozenMap[str, str]:
        projected = self._labels.get(id(pod.labels))
        if projected is None:
            keys = self._label_keys
            projected = pod.labels if keys is None else FrozenMap({k: v for k, v in pod.labels.items() if k in keys})
            self._labels[id(pod.labels)] = projected
            self._held.append(pod.labels)
        return projected
