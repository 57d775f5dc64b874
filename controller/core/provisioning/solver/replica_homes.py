"""Divide a workload's replicas between homes, so that no zone and no family carries more than its share on spot.

A home is a zone and a group of families. The families are put into three groups: two in which most units cost little,
and the rest. Half of a workload's replicas has its home in one zone and the first group, half in another zone and the
second; an odd one in a third zone and group. On demand they may be anywhere. Pods that are bound to a zone stay there.

Letters in shapes: T node options, K offering keys, F families, Z zones, G groups.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
ABOUT = 0.03
"""Homes whose cost of a unit is this close to the cheapest one's cost about the same."""
SPARE = (0, 1)
"""Replicas beyond its limit that a domain may carry of a workload that is too dear to divide otherwise."""
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


@dataclass(frozen=True, slots=True)
class Division:
    """Where a workload's units go: of each item how many to each home, and what that adds to their cost, $/hour."""

    parts: Sequence[tuple[Item, Home, int]]
    premium: float


class Homes:
    """The zones and groups of families of a catalog, and what units cost there, $/hour.

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
        self._costs: dict[tuple[bytes, int], tuple[Floats, float]] = {}
        weighed = [(self._cost(item)[0].min(axis=0, initial=np.inf), count) for item, count in items]
        self.group: Ints = _grouped(np.array([cost for cost, _ in weighed]), np.array([n for _, n in weighed]))
        self._bits = {
            (zone, group): self._bits_of(zone, group) for zone in range(len(self.zones)) for group in range(GROUPS)
        }
        self._bits[ON_DEMAND] = np.full(len(self.family), on_demand, dtype=np.uint64)

    def _bits_of(self, zone: int, group: int) -> Bits:
        """Return the offerings of a home (T)."""
        own = np.uint64(1 << self._keys[zone])
        return np.asarray(np.where(self.group[self.family] == group, own, np.uint64(0)))

    def _cost(self, item: Item) -> tuple[Floats, float]:
        """Return a unit's share of the best spot node of each zone and family (Z x F, $/hour), and of one on demand."""
        key = (item.request.tobytes(), item.mask.index)
        if key not in self._costs:
            catalog = self.catalog
            asked = item.request > 0
            room = np.maximum(catalog.allocatable[asked], 1e-9)
            share = (item.request[asked, None] / room).max(axis=0, initial=0.0)
            allowed = unpacked(item.mask.bits[None, :], len(catalog.offering_keys))[0] & (share <= 1.0)[:, None]
            cost = np.where(allowed, catalog.cost, np.inf) * share[:, None]
            by_family = np.full((len(self.zones), len(self.names)), np.inf)
            for zone, column in enumerate(self._keys):
                np.minimum.at(by_family[zone], self.family, cost[:, column])
            others = [column for column in range(cost.shape[1]) if column not in self._keys]
            self._costs[key] = by_family, float(cost[:, others].min(initial=np.inf))
        return self._costs[key]

    def cost(self, item: Item) -> dict[Home, float]:
        """Return what a unit costs in each home, $/hour, that can take it."""
        by_family, on_demand = self._cost(item)
        costs = {ON_DEMAND: on_demand}
        for zone in range(len(self.zones)):
            for group in range(GROUPS):
                costs[zone, group] = float(by_family[zone, self.group == group].min(initial=np.inf))
        return {home: cost for home, cost in costs.items() if np.isfinite(cost)}

    def narrowed(self, item: Item, home: Home) -> Item:
        """Return the item for new nodes of a home alone."""
        key = (item.mask.index, home)
        if key not in self._masks:
            bits, none = item.mask.bits & self._bits[home], np.zeros_like(item.mask.existing)
            self._masks[key] = replace(item.mask, index=-1 - len(self._masks), bits=bits, existing=none)
        return replace(item, mask=self._masks[key])

    def divided(
        self, workload: Workload, spare: int, evened: defaultdict[Home, float], *, evenly: bool
    ) -> Division | None:
        """Find the cheapest homes for a workload's units, one unit after the other; None: there are not enough homes.

        spare: replicas that a zone or group may carry beyond the workload's limit. evenly: whether homes that cost
        about the same get equal parts; else the first of them get all that they may. evened: $/hour of each home's
        units so far.
        """
        most = workload.most + spare
        zones, groups = Counter[int](), Counter[int]()
        for (name, zone), count in workload.standing.items():
            if not name and zone in self.zones:
                zones[self.zones.index(zone)] += count
            elif not zone and name in self.names:
                groups[int(self.group[self.names == name][0])] += count
        parts: dict[tuple[int, Home], int] = defaultdict(int)
        premium = 0.0
        items = list(workload.items.values())
        costs = [self.cost(item) for item, _ in items]
        zoned = [sorted({zone for zone, _ in each}) for each in costs]
        turn = sorted(range(len(costs)), key=lambda number: (len(zoned[number]), zoned[number]))
        for number in turn:
            cost, least = costs[number], min(costs[number].values(), default=0.0)
            for _ in range(items[number][1]):
                free = [home for home in cost if home == ON_DEMAND or max(zones[home[0]], groups[home[1]]) < most]
                if not free:
                    return None
                # Cheap ones first, then a zone with its own group of families, so that few homes are used.
                home = min(
                    free,
                    key=lambda each: (
                        cost[each] > (1.0 + ABOUT) * least and cost[each],
                        (each[0] - each[1]) % GROUPS,
                        (zones[each[0]], evened[each]) if evenly else (),
                        each,
                    ),
                )
                premium += cost[home] - least
                parts[number, home] += 1
                zones[home[0]] += 1
                groups[home[1]] += 1
                evened[home] += cost[home]
        return Division([(items[n][0], home, count) for (n, home), count in parts.items()], premium)


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


def chosen(
    workloads: Sequence[Workload], homes: Homes, budget: float, *, evenly: bool = False
) -> Mapping[str, Division]:
    """Return divisions of as many workloads as their premiums allow: `budget` $/hour in all. With what is left, others
    are divided with a replica more in one place."""
    found = dict[str, Division]()
    for spare in SPARE:
        evened = defaultdict[Home, float](float)
        some = [(each.name, homes.divided(each, spare, evened, evenly=evenly)) for each in workloads]
        lacking = [(name, each) for name, each in some if each is not None and name not in found]
        for name, each in sorted(lacking, key=lambda one: (one[1].premium, one[0])):
            if each.premium <= budget:
                found[name] = each
                budget -= each.premium
    return found
