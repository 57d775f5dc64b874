"""Take units back from a finished packing: those in domains where their own spread does not hold in the end."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer, Placement
from controller.core.provisioning.topology.allocation import Allocation
from controller.core.provisioning.topology.groups import TopologyGroup


@dataclass(frozen=True, slots=True)
class Share:
    """The units of one allocation that were placed: `units` of the item's."""

    item: Item
    allocation: Allocation
    units: int


def shares(packer: Packer) -> Iterator[Share]:
    """Yield what was placed of each allocation, as the plan will assign it:
    the item's units in the order of allocations."""
    items = {id(placement.item): placement.item for placement in packer.placements}
    for item in items.values():
        left = item.placed
        for allocation in item.allocations:
            placed = min(left, allocation.count)
            left -= placed
            yield Share(item, allocation, placed)


def in_domain(share: Share, group: TopologyGroup, domain: str, *, obeys: bool) -> bool:
    """Return whether the units are in this domain and obey the group's rule, or are only counted by it."""
    joint = share.allocation.domain
    return joint is not None and any(
        rule.group is group
        and rule.obeys is obeys
        and bool(rule.matched or rule.obeys)
        and joint.values[place] == domain
        for rule, place in share.allocation.bundle.rules.positioned
    )


def follows(share: Share, groups: Collection[int]) -> bool:
    """Return whether the units obey an affinity over hosts of these groups (by index)."""
    return any(rule.obeys and rule.group.index in groups for rule in share.allocation.bundle.rules.host)


def remove(packer: Packer, share: Share, units: int) -> None:
    """Remove units of a share from the rows that were filled last; the item's other units keep their order."""
    share.allocation.count = share.units - units
    share.item.placed -= units
    kept: list[Placement] = []
    for placement in reversed(packer.placements):
        if placement.item is share.item and units:
            units = _shorten(packer, placement, units)
        if placement.rows:
            kept.append(placement)
    packer.placements = kept[::-1]


def _shorten(packer: Packer, placement: Placement, units: int) -> int:
    """Remove up to so many units of a placement; how many are still to remove."""
    while units and placement.rows:
        taken = min(units, placement.counts[-1])
        packer.unplace(placement.item, placement.rows[-1], taken)
        placement.counts[-1] -= taken
        units -= taken
        if not placement.counts[-1]:
            placement.rows.pop()
            placement.counts.pop()
    return units
