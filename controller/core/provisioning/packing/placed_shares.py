"""What a packing placed of each allocation, and how units of it are taken back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer, Placement
from controller.core.provisioning.topology.allocation import Allocation
from controller.core.provisioning.topology.groups import TopologyGroup


@dataclass(slots=True)
class Share:
    """The units of one allocation that were placed: `units` of the item's."""

    item: Item
    allocation: Allocation
    units: int

    def counted_by(self, group: TopologyGroup, domain: str) -> bool:
        """Return whether the units are in this domain, where the group's rule counts them without binding them."""
        joint = self.allocation.domain
        return joint is not None and any(
            rule.group is group and not rule.obeys and rule.matched > 0 and joint.values[place] == domain
            for rule, place in self.allocation.bundle.rules.positioned
        )


def shares(packer: Packer) -> Iterator[Share]:
    """Yield what was placed of each allocation, as the plan will assign it: in their order."""
    placed: dict[int, tuple[Item, int]] = {}
    for placement in packer.placements:
        _, count = placed.get(id(placement.item), (placement.item, 0))
        placed[id(placement.item)] = placement.item, count + sum(placement.counts)
    for item, left in placed.values():
        for allocation in item.allocations:
            units = min(left, allocation.count)
            left -= units
            yield Share(item, allocation, units)


class PlacedShares:
    """What a packing placed, by the rules that it obeys; valid until more is placed."""

    def __init__(self, packer: Packer) -> None:
        self.packer = packer
        self._in_domain: dict[tuple[int, str], list[Share]] = defaultdict(list)
        """By index of a group over label values, and domain."""
        self._on_hosts: dict[int, list[Share]] = defaultdict(list)
        """By index of a group over hosts."""
        for share in shares(packer):
            joint, rules = share.allocation.domain, share.allocation.bundle.rules
            for rule, place in rules.positioned:
                if rule.obeys and joint is not None:
                    self._in_domain[rule.group.index, joint.values[place]].append(share)
            for rule in rules.host:
                if rule.obeys:
                    self._on_hosts[rule.group.index].append(share)

    def last(self, group: TopologyGroup, domain: str) -> Share | None:
        """Return, of the shares with units in the domain that obey the group's rule, the one that was placed last."""
        here = self._in_domain[group.index, domain]
        while here and not here[-1].units:
            here.pop()
        return here[-1] if here else None

    def on_hosts(self, groups: Collection[int]) -> list[Share]:
        """Return the shares with units that obey a rule over hosts of these groups (by index)."""
        chosen = {id(share): share for group in sorted(groups) for share in self._on_hosts[group] if share.units}
        return list(chosen.values())

    def remove(self, share: Share, units: int) -> None:
        """Remove units of a share from the rows that were filled last; the item's other units keep their order."""
        share.units -= units
        share.allocation.count = share.units
        share.item.placed -= units
        kept: list[Placement] = []
        for placement in reversed(self.packer.placements):
            if placement.item is share.item and units:
                units = _shorten(self.packer, placement, units)
            if placement.rows:
                kept.append(placement)
        self.packer.placements = kept[::-1]


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
