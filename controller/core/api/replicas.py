"""Group pods into replicas, so that equal pods cost the planner little more than one.

Replicas differ only in what the API server assigns (name, uid, creation time, resource version).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import overload

from controller.core.api.pod import Pod

_shared = attrgetter("spec", "labels", "owners", "namespace", "node_name", "phase", "volumes")


class Replicas:
    """Pods with the same spec, labels, owners, namespace, node and phase; `first` represents them."""

    __slots__ = ("_pods", "first")

    def __init__(self, first: Pod, pods: list[Pod]) -> None:
        self.first = first
        self._pods = pods

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def pods(self) -> list[Pod]:
        return self._pods

    @property
    def name(self) -> str:
        """The alphabetically first name."""
        return min(pod.name for pod in self._pods)

    @property
    def ages(self) -> tuple[float, float]:
        """When the oldest and the youngest were created, in Unix seconds."""
        ages = [pod.created for pod in self._pods]
        return min(ages), max(ages)


class Pods(Sequence[Pod]):
    """A sequence of pods that knows its groups of replicas; equal to any sequence of the same pods in that order."""

    def __init__(self, groups: Iterable[Replicas]) -> None:
        self.groups = tuple(groups)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Pods:
        """Group any pods. Specs, labels and owners are interned when pods are parsed, and compared by identity.

        A pod with volumes is a group of one: no other pod has its claims.
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
        grouped = cls([*(Replicas(run[0], run) for run in alike.values()), *(Replicas(pod, [pod]) for pod in apart)])
        grouped.__dict__["_every"] = every
        return grouped

    def only(self, wanted: Callable[[Pod], bool]) -> Pods:
        """Return the groups whose first pod satisfies `wanted`, which may not depend on what replicas differ in."""
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
