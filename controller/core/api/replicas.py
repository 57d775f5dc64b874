"""Replicas: pods that one template made, kept together, so that a thousand cost little more than one.

They differ in what the API server gives each of them: name, uid, creation time, resource version. All else is read from
the first. A `Pod` of its own is made of each only when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import overload

from controller.core.api.pod import Pod, PodKey

_name = attrgetter("name")
_age = attrgetter("created")
_key = attrgetter("namespace", "name")
_shared = attrgetter("spec", "labels", "owners", "namespace", "node_name", "phase", "volumes")
_PLACE = {each.name: place for place, each in enumerate(fields(Pod))}
_NAME, _UID, _CREATED, _VERSION = (_PLACE[name] for name in ("name", "uid", "created", "resource_version"))


@dataclass(slots=True)
class Columns:
    """What tells replicas apart, one entry each: names, uids, creation times (Unix seconds; none: all unknown),
    resource versions. `least` is the first name by the alphabet."""

    names: list[str] = field(default_factory=list)
    uids: list[str] = field(default_factory=list)
    created: list[float] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    least: str = ""


class Replicas:
    """Pods with the same spec, labels, owners, namespace, node and phase: as pods, or the first of them and columns."""

    __slots__ = ("_columns", "_pods", "first")

    def __init__(self, first: Pod, pods: list[Pod], columns: Columns | None = None) -> None:
        """`pods` may be empty where there are `columns`: they are made of these, like the first."""
        self.first = first
        self._pods = pods
        self._columns = columns

    def __len__(self) -> int:
        return len(self._pods if self._columns is None else self._columns.names)

    @property
    def pods(self) -> list[Pod]:
        """Each by itself, in the order in which they came; made when first asked for."""
        if not self._pods and self._columns is not None:
            self._pods = list(self._made(self._columns))
        return self._pods

    def _made(self, own: Columns) -> Iterator[Pod]:
        values = [getattr(self.first, each.name) for each in fields(Pod)]
        created = own.created or [self.first.created] * len(own.names)
        rows = zip(own.names, own.uids, created, own.versions, strict=True)
        for values[_NAME], values[_UID], values[_CREATED], values[_VERSION] in rows:
            yield Pod(*values)

    @property
    def name(self) -> str:
        """The first of their names by the alphabet."""
        return min(map(_name, self._pods)) if self._columns is None else self._columns.least

    @property
    def ages(self) -> tuple[float, float]:
        """When the oldest and the youngest were created, in Unix seconds."""
        ages = list(map(_age, self._pods)) if self._columns is None else self._columns.created
        return (min(ages), max(ages)) if ages else (self.first.created, self.first.created)


class Pods(Sequence[Pod]):
    """Pods, and the groups of replicas that they are: equal to any sequence of the same pods in the same order."""

    def __init__(self, groups: Iterable[Replicas]) -> None:
        self.groups = tuple(groups)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Pods:
        """Any pods, grouped. Specs, labels and owners are interned where pods are read: replicas are told by identity.

        A pod with volumes is a group by itself: they are its own.
        """
        if isinstance(pods, Pods):
            return pods
        alike: dict[tuple[int, int, int, str, str, str], list[Pod]] = {}
        apart: list[Pod] = []
        every = pods if isinstance(pods, Sequence) else list(pods)
        for (spec, labels, owners, *places, volumes), run in groupby(every, _shared):
            if volumes:
                apart.extend(run)
                continue
            key = (id(spec), id(labels), id(owners), *places)
            if key in alike:
                alike[key].extend(run)
            else:
                alike[key] = list(run)
        found = cls([*(Replicas(run[0], run) for run in alike.values()), *(Replicas(pod, [pod]) for pod in apart)])
        found.__dict__["_every"] = every
        return found

    def only(self, wanted: Callable[[Pod], bool]) -> Pods:
        """Those wanted. `wanted` is asked of the first of each group: it looks at nothing that replicas differ in."""
        kept = [group for group in self.groups if wanted(group.first)]
        return self if len(kept) == len(self.groups) else Pods(kept)

    @cached_property
    def _every(self) -> Sequence[Pod]:
        return [pod for group in self.groups for pod in group.pods]

    def __len__(self) -> int:
        return sum(map(len, self.groups))

    @overload
    def __getitem__(self, index: int) -> Pod: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pod]: ...
    def __getitem__(self, index: int | slice) -> Pod | Sequence[Pod]:
        return self._every[index]

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._every)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self._every))

    def __repr__(self) -> str:
        return f"Pods({self._every!r})"


class PodsByKey(Mapping[PodKey, Pod]):
    """Pods by (namespace, name), in the order of their keys; found when first asked for."""

    def __init__(self, pods: Pods) -> None:
        self.every = pods

    @cached_property
    def _found(self) -> dict[PodKey, Pod]:
        return {(pod.namespace, pod.name): pod for pod in sorted(self.every, key=_key)}

    def __getitem__(self, key: PodKey) -> Pod:
        return self._found[key]

    def __iter__(self) -> Iterator[PodKey]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._found == dict(other)

    def __hash__(self) -> int:
        return hash(frozenset(self._found.items()))
