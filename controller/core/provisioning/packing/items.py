"""Items, what the packer places: allocations with equal requests, masks and host rules, whatever their classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.pods.pod_classes import SharedVolume
from controller.core.provisioning.resource_space import Floats
from controller.core.provisioning.topology.allocation import Allocation
from controller.core.provisioning.topology.groups import UnitRule


@dataclass(slots=True)
class Item:
    """Units of equal request (R), mask, host rules and shared volumes.

    `allocations`: where the units come from, in order of placement.
    """

    index: int
    mask: Mask
    request: Floats
    rules: tuple[UnitRule, ...]
    shared: tuple[SharedVolume, ...]
    """Volumes that the units share with each other, and maybe with others: each is attached once to a node."""
    allocations: list[Allocation]
    count: int = 0
    """Units still to place."""
    placed: int = 0
    """Units placed."""
    asked: list[tuple[int, float]] = field(default_factory=list)
    """The request's resources: column, and amount above 0."""
    size: float = 0.0
    """The largest share, of any resource, that a unit takes of the largest node; items are sorted by it."""
    waited: int = 0
    """How long its oldest pod has waited (`PodClass.waited`); items that compete for scarce room are sorted by it."""

    @property
    def existing_only(self) -> bool:
        """Whether no new node can take it; such items go first, while existing nodes have room."""
        return not self.mask.launchable


class UnitQueue:
    """The units of an item that are not taken yet, in the order in which plans assign them to its rows."""

    def __init__(self, item: Item) -> None:
        self._left = [(allocation, allocation.count) for allocation in reversed(item.allocations)]

    def take(self, count: int) -> Iterator[tuple[Allocation, int]]:
        """Take the next `count` units: yield their allocations, each with the number of its units."""
        while count:
            allocation, units = self._left.pop()
            some = min(count, units)
            if units > some:
                self._left.append((allocation, units - some))
            count -= some
            yield allocation, some


def make_items(allocations: Iterable[Allocation], scale: Floats) -> list[Item]:
    """Merge allocations into items: first those that only existing nodes can take, then the largest units.

    scale: R, one over the largest amount of each resource that any node has.
    """
    items: dict[tuple[object, ...], Item] = {}
    sizes: dict[bytes, tuple[list[tuple[int, float]], float]] = {}
    for allocation in allocations:
        bundle = allocation.bundle
        shared = bundle.shared_volumes
        key = (allocation.mask.index, bundle.request_key, bundle.rules.identity, shared)
        if (item := items.get(key)) is None:
            item = items[key] = Item(len(items), allocation.mask, bundle.request, bundle.rules.host, shared, [])
            if bundle.request_key not in sizes:
                largest = float((bundle.request * scale).max(initial=0.0))
                asked = [(column, amount) for column, amount in enumerate(bundle.request.tolist()) if amount]
                sizes[bundle.request_key] = asked, largest
            item.asked, item.size = sizes[bundle.request_key]
        item.allocations.append(allocation)
        item.count += allocation.count
        item.waited = max(item.waited, bundle.pod_class.waited)
    for item in items.values():
        if len(item.allocations) > 1:
            item.allocations.sort(key=lambda allocation: (-allocation.bundle.pod_class.waited, allocation.bundle.name))
    ordered = sorted(items.values(), key=_turn)
    for index, item in enumerate(ordered):
        item.index = index
    return ordered


def _turn(item: Item) -> tuple[bool, int, float, str, int]:
    scarce = item.existing_only
    return (not scarce, -item.waited if scarce else 0, -item.size, item.allocations[0].bundle.name, item.mask.index)
