"""Homes for a workload's replicas, so that no zone and no family carries more than its share of them on spot.

A home is a zone and a group of families. The families are put into three groups: two in which most units cost little,
and the rest. Half of a workload's replicas has its home in one zone and the first group, half in another zone and the
second; an odd one in a third zone and group. On demand they may be anywhere. Pods that are bound to a zone stay there.

Letters in shapes: T node options, K offering keys, F families, Z zones, G groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from controller.core.api import labels
from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.offerings.option_table import unpacked
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.resource_space import Bits, Floats, Ints
from controller.core.provisioning.solver.pool_sharing import Domain

GROUPS = 3
LEAST_SAVING = 0.01
"""Part of what all units cost that a family must save in one of the first two groups to be put there."""
ABSENT = 4.0
"""Times its least cost that a unit is taken to cost in a group that cannot take it, while groups are made."""

Home = tuple[int, int]
"""A zone and a group, by their numbers."""
ON_DEMAND = (-1, -1)
"""The home of pods on demand, where none is lost."""


@dataclass(slots=True)
class Workload:
    """A workload's units on new nodes, and how many replicas a zone or family may carry of it.

    items: by id, with the number of units. standing: replicas on spot nodes that stay, by domain.
    """

    name: str
    most: int = 0
    items: dict[int, tuple[Item, int]] = field(default_factory=dict)
    standing: Counter[Domain] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """Its units on new nodes."""
        return sum(units for _, units in self.items.values())


class Homes:
    """The zones and groups of families of a catalog, and which units may go where.

    family: T, the number of each option's. group: F, the group that the family is in.
    """

    def __init__(self, catalog: CompiledCatalog, items: Iterable[tuple[Item, int]]) -> None:
        """items: those to be divided, with their numbers of units."""
        self.catalog = catalog
        names = [each.name.partition(".")[0] for each in catalog.types]
        self.names, self.family = np.unique(names, return_inverse=True)
        spot = [(key, zone) for key, (zone, kind) in enumerate(catalog.offering_keys) if kind == labels.SPOT]
        self.zones = sorted({zone for _, zone in spot})
        self._keys = [next(key for key, zone in spot if zone == each) for each in self.zones]
        on_demand = sum(1 << key for key, (_, kind) in enumerate(catalog.offering_keys) if kind != labels.SPOT)
        self._masks: dict[tuple[int, Home], Mask] = {}
        """Of pods bound to a home, by the index of their own; with indices below 0."""
        kinds: dict[tuple[bytes, int], tuple[Item, int]] = {}
        for item, count in items:
            key = (item.request.tobytes(), item.mask.index)
            kinds[key] = item, kinds.get(key, (item, 0))[1] + count
        costs = np.array([self._cost(item) for item, _ in kinds.values()])
        self.group: Ints = _grouped(costs, np.array([count for _, count in kinds.values()]))
        self._bits = {
            (zone, group): self._bits_of(zone, group) for zone in range(len(self.zones)) for group in range(GROUPS)
        }
        self._bits[ON_DEMAND] = np.full(len(self.family), on_demand, dtype=np.uint64)
        self.every: tuple[Home, ...] = tuple(self._bits)

    def _bits_of(self, zone: int, group: int) -> Bits:
        """Return the offerings of a home (T)."""
        own = np.uint64(1 << self._keys[zone])
        return np.asarray(np.where(self.group[self.family] == group, own, np.uint64(0)))

    def _cost(self, item: Item) -> Floats:
        """Return a unit's share of the best spot node of each family (F, $/hour)."""
        catalog = self.catalog
        asked = item.request > 0
        room = np.maximum(catalog.allocatable[asked], 1e-9)
        share = (item.request[asked, None] / room).max(axis=0, initial=0.0)
        allowed = unpacked(item.mask.bits[None, :], len(catalog.offering_keys))[0] & (share <= 1.0)[:, None]
        cost = np.where(allowed, catalog.cost, np.inf)[:, self._keys].min(axis=1, initial=np.inf) * share
        by_family = np.full(len(self.names), np.inf)
        np.minimum.at(by_family, self.family, cost)
        return by_family

    def narrowed(self, item: Item, home: Home) -> Item:
        """Return the item for new nodes of a home alone."""
        key = (item.mask.index, home)
        if key not in self._masks:
            bits, none = item.mask.bits & self._bits[home], np.zeros_like(item.mask.existing)
            self._masks[key] = replace(item.mask, index=-1 - len(self._masks), bits=bits, existing=none)
        return replace(item, mask=self._masks[key])

    def carried(self, standing: Mapping[Domain, int]) -> tuple[Counter[int], Counter[int]]:
        """Return the replicas that stay on spot nodes, by zone and by group."""
        zones, groups = Counter[int](), Counter[int]()
        for (name, zone), count in standing.items():
            if not name and zone in self.zones:
                zones[self.zones.index(zone)] += count
            elif not zone and name in self.names:
                groups[int(self.group[self.names == name][0])] += count
        return zones, groups


def _grouped(costs: Floats, counts: Floats) -> Ints:
    """Return the group of each family (F). costs: D x F, $/hour of a unit; infinite where it cannot be. counts: D."""
    families = costs.shape[1]
    group = np.full(families, GROUPS - 1)
    least = costs.min(axis=1, initial=np.inf)
    some = np.isfinite(least)
    costs, counts, least = costs[some], counts[some], least[some]
    # now: D x 2, what a unit costs in each of the first two groups so far.
    now = np.repeat(ABSENT * least[:, None], GROUPS - 1, axis=1)
    total = float((counts * least).sum())
    while True:
        # saving: 2 x F, of putting a family into a group.
        saving = np.einsum("i,igf->gf", counts, np.maximum(0.0, now[:, :, None] - costs[:, None, :]))
        saving[:, group < GROUPS - 1] = 0.0
        place = int(np.argmax(saving))
        number, family = divmod(place, families)
        if saving[number, family] <= LEAST_SAVING * total:
            return group
        group[family] = number
        now[:, number] = np.minimum(now[:, number], costs[:, family])
