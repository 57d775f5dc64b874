"""Items: what the packer places. Shares that ask the same of a node are one item, whatever class they are of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.resource_space import Floats
from controller.core.provisioning.topology.allocation import Allocation
from controller.core.provisioning.topology.bundles import UnitRule


@dataclass(slots=True)
class Item:
    """`count` units with the same request, mask and host rules. `shares` say whose they are, in order of placement."""

    index: int
    mask: Mask
    request: Floats
    rules: tuple[UnitRule, ...]
    allocations: list[Allocation]
    count: int = 0
    """Units still to be placed."""
    placed: int = 0
    asked: list[tuple[int, float]] = field(default_factory=list)
    """The resources that the request has, by column, and how much of each."""
    size: float = 0.0
    """The largest part of the largest node that a unit takes: what items are sorted by."""
    waited: int = 0
    """How long its oldest pod has waited (`PodClass.waited`): what items for scarce room are sorted by first."""

    @property
    def existing_only(self) -> bool:
        """No node that could be launched would do: it goes first, while existing nodes have room."""
        return not self.mask.launchable


def make_items(allocations: Iterable[Allocation], scale: Floats) -> list[Item]:
    """The shares as items, those without a choice first, then the largest units.

    `scale` is one over the largest amount of each resource that a node may have.
    """
    found: dict[tuple[object, ...], Item] = {}
    sizes: dict[bytes, tuple[list[tuple[int, float]], float]] = {}
    for allocation in allocations:
        bundle = allocation.bundle
        key = (allocation.mask.index, bundle.request_key, bundle.rules.identity)
        item = found.get(key)
        if item is None:
            item = found[key] = Item(len(found), allocation.mask, bundle.request, bundle.rules.host, [])
            if bundle.request_key not in sizes:
                largest = float((bundle.request * scale).max(initial=0.0))
                asked = [(column, amount) for column, amount in enumerate(bundle.request.tolist()) if amount]
                sizes[bundle.request_key] = asked, largest
            item.asked, item.size = sizes[bundle.request_key]
        item.allocations.append(allocation)
        item.count += allocation.count
        item.waited = max(item.waited, bundle.pod_class.waited)
    for item in found.values():
        if len(item.allocations) > 1:
            item.allocations.sort(key=lambda allocation: (-allocation.bundle.pod_class.waited, allocation.bundle.name))
    ordered = sorted(found.values(), key=_turn)
    for index, item in enumerate(ordered):
        item.index = index
    return ordered


def _turn(item: Item) -> tuple[bool, int, float, str, int]:
    scarce = item.existing_only
    return (not scarce, -item.waited if scarce else 0, -item.size, item.allocations[0].bundle.name, item.mask.index)
