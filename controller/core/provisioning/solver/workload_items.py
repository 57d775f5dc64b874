"""Split items by workload, so that an exchange between nodes tells whose replica it moves."""

from __future__ import annotations

from collections import Counter, defaultdict
from copy import copy
from dataclasses import replace

from controller.core.provisioning.packing.items import Item, UnitQueue
from controller.core.provisioning.packing.packer import Packer, Placement
from controller.core.provisioning.pods.pod_classes import PodClass, workload_of
from controller.core.provisioning.topology.allocation import Allocation
from controller.core.provisioning.topology.bundles import Bundle, BundleMember

ItemKey = tuple[int, int, str | None]
"""Id of the item, id of the allocation, and the workload's uid; None: units that are not told apart by workload."""


def by_workload(packer: Packer) -> Packer:
    """Return a copy of the packer with the same units on the same rows, in items of one allocation and workload each.

    Units of several pods stay as they are, whosever their pods are.
    """
    bundles = [each.bundle for placement in packer.placements for each in placement.item.allocations]
    together = {member.pod_class.index for each in bundles if not _single(each) for member in each.members}
    split = _Split(together)
    apart = copy(packer)
    apart.placements = [part for placement in packer.placements for part in split.parts(placement)]
    return apart


class _Split:
    """Takes pods of classes in the order in which an `Assembler` assigns them."""

    def __init__(self, together: set[int]) -> None:
        """together: indices of classes that have pods in units of several pods."""
        self._together = together
        self._left: dict[int, UnitQueue] = {}
        """By id of the item."""
        self._taken: Counter[int] = Counter()
        """Pods taken, by class index."""
        self._items: dict[ItemKey, Item] = {}
        self._classes: dict[int, dict[str, PodClass]] = {}
        """By class index, its parts."""

    def parts(self, placement: Placement) -> list[Placement]:
        """Return the placement of the item's parts."""
        item = placement.item
        left = self._left.setdefault(id(item), UnitQueue(item))
        placed: defaultdict[int, Placement] = defaultdict(lambda: Placement(item, [], []))
        for row, count in zip(placement.rows, placement.counts, strict=True):
            for allocation, units in left.take(count):
                for part, number in self._of_workloads(item, allocation, units):
                    own = placed[id(part)]
                    own.item = part
                    own.rows.append(row)
                    own.counts.append(number)
        return list(placed.values())

    def _of_workloads(self, item: Item, allocation: Allocation, units: int) -> list[tuple[Item, int]]:
        """Take the next units of an allocation, by the part of the item that they belong to."""
        pod_class, counts = allocation.bundle.pod_class, Counter[str | None]({None: units})
        if not pod_class.of_one_workload and pod_class.index not in self._together:
            first = self._taken[pod_class.index]
            counts = Counter(workload_of(pod) for pod in pod_class.pods[first : first + units])
        for member in allocation.bundle.members:
            self._taken[member.pod_class.index] += member.pods * units
        parts = []
        for workload, count in counts.items():
            key = (id(item), id(allocation), workload)
            if key not in self._items:
                self._items[key] = self._part(item, allocation, workload)
            self._items[key].allocations[0].count += count
            parts.append((self._items[key], count))
        return parts

    def _part(self, item: Item, allocation: Allocation, workload: str | None) -> Item:
        """Return the item of a workload, of no units yet."""
        bundle = allocation.bundle if workload is None else self._bundle(allocation.bundle, workload)
        return replace(item, allocations=[replace(allocation, bundle=bundle, count=0)])

    def _bundle(self, bundle: Bundle, workload: str) -> Bundle:
        (member,), index = bundle.members, bundle.pod_class.index
        if index not in self._classes:
            self._classes[index] = bundle.pod_class.by_workload()
        return replace(bundle, members=(BundleMember(self._classes[index][workload], 1, member.number),))


def _single(bundle: Bundle) -> bool:
    """Return whether a unit is one pod."""
    return len(bundle.members) == 1 and bundle.members[0].pods == 1
