"""The pods that a plan places on one node, as slices of classes; their keys are computed on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

from controller.core.api.frozen import EMPTY
from controller.core.api.pod import PodKey
from controller.core.provisioning.pods.pod_classes import PodClass
from controller.core.provisioning.problem import pod_key


@dataclass(slots=True)
class PodSlice:
    """`PodClass.pods[first : first + count]`."""

    pod_class: PodClass
    first: int
    count: int


class PlacedPods(Sequence[PodKey]):
    """Sorted pod keys. Equal to a tuple of the same keys, and with the same hash."""

    def __init__(self, parts: Sequence[PodSlice]) -> None:
        self.parts = parts

    @cached_property
    def keys(self) -> tuple[PodKey, ...]:
        """The keys, sorted."""
        pods = [pod for each in self.parts for pod in each.pod_class.pods[each.first : each.first + each.count]]
        return tuple(sorted(map(pod_key, pods)))

    @property
    def turn(self) -> tuple[int, int]:
        """Sort key of nodes: the index of the first class, and the position of its first pod here."""
        return min([(each.pod_class.index, each.first) for each in self.parts])

    def workloads(self) -> dict[str, int]:
        """Return the number of pods per workload, by the uid of the first owner; pods without owners are left out."""
        counts: Counter[str] = Counter()
        for each in self.parts:
            counts.update(each.pod_class.workloads(each.first, each.count))
        return counts

    def __len__(self) -> int:
        return sum([each.count for each in self.parts])

    @overload
    def __getitem__(self, index: int) -> PodKey: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[PodKey, ...]: ...
    def __getitem__(self, index: int | slice) -> PodKey | tuple[PodKey, ...]:
        return self.keys[index]

    def __iter__(self) -> Iterator[PodKey]:
        return iter(self.keys)

    def __contains__(self, key: object) -> bool:
        return key in self.keys

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PlacedPods):
            return self.keys == other.keys
        return self.keys == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return repr(self.keys)


def workloads(pods: Sequence[PodKey]) -> Mapping[str, int]:
    """Return the number of planned pods per workload; empty for plain keys, which do not tell workloads."""
    return pods.workloads() if isinstance(pods, PlacedPods) else EMPTY
