"""Bin types: the offerings worth considering for a set of items, and what each takes of limits.

A bin type is a node option (Provisioner x instance type) with one offering key (zone, capacity type). Of the keys of a
node option that let the same items in, only the cheapest is kept; one per zone where items are counted by zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.option_table import unpacked
from controller.core.provisioning.optimize.covering import Limit
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.provisioning.topology.groups import GroupKey


@dataclass(frozen=True, slots=True)
class BinTypes:
    """B bin types. option, offering_key, price ($/hour, all that a node costs), zone (its place in `zones`): B each.

    allowed: B x M, whether units of mask m may go there.
    """

    option: Ints
    offering_key: Ints
    price: Floats
    zone: Ints
    allowed: Bools
    zones: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.option)

    def some(self, rows: Ints) -> BinTypes:
        """Select bin types, some of them several times."""
        return BinTypes(
            self.option[rows],
            self.offering_key[rows],
            self.price[rows],
            self.zone[rows],
            self.allowed[rows],
            self.zones,
        )


@dataclass(frozen=True, slots=True)
class LoadPrices:
    """What bin types cost by the CPU that is requested there: `base + slope * max(0, CPU - free)`, B each.

    base, slope: $/hour, and $/hour a millicore; free: millicores. column: of CPU among the resources.
    """

    base: Floats
    slope: Floats
    free: Floats
    column: int

    @classmethod
    def flat(cls, price: Floats) -> LoadPrices:
        """Return prices ($/hour) that the load does not change."""
        return cls(price, np.zeros(len(price)), np.zeros(len(price)), 0)

    def of(self, number: int, requests: Floats) -> Floats:
        """Return the $/hour of a bin type by what it holds: N values for requests of R x N."""
        beyond = np.maximum(0.0, requests[self.column] - self.free[number])
        return np.asarray(self.base[number] + self.slope[number] * beyond)

    def some(self, rows: Ints) -> LoadPrices:
        """Select the prices of these bin types."""
        return LoadPrices(self.base[rows], self.slope[rows], self.free[rows], self.column)


def load_prices(catalog: CompiledCatalog, bin_types: BinTypes, premium: Floats) -> LoadPrices:
    """Return the prices of bin types by load; burstable and flex types alone have a slope. premium: T, see `Packer`."""
    option, use = bin_types.option, catalog.table.beside.cpu_use
    if "cpu" not in catalog.space.column:
        return LoadPrices.flat(bin_types.price * premium[option])
    column = catalog.space.column["cpu"]
    base = (bin_types.price - catalog.table.surplus[option]) * premium[option]
    slope, free = np.zeros(len(option)), np.zeros(len(option))
    for number in np.flatnonzero(catalog.table.surplus[option]).tolist():
        credits = catalog.types[option[number]].credits
        if credits is not None:
            slope[number], free[number] = credits.surplus_price * use / 1000.0, 1000.0 * credits.baseline / use
    slope *= premium[option]
    free -= catalog.overhead[column, option]
    return LoadPrices(base, slope, free, column)


def find_bin_types(catalog: CompiledCatalog, masks: Sequence[Bits], *, by_zone: bool) -> BinTypes:
    """Find the bin types for items with these M masks, each a set of offering bits per node option."""
    zones = tuple(sorted({zone for zone, _ in catalog.offering_keys}))
    zone_of = np.array([zones.index(zone) for zone, _ in catalog.offering_keys], dtype=np.int64)
    # open_to: M masks x T node options x K offering keys.
    table = np.stack(list(masks)) if masks else np.zeros((0, len(catalog)), dtype=np.uint64)
    open_to = unpacked(table, len(catalog.offering_keys))
    option, key = np.nonzero(_undominated(catalog.cost, open_to, zone_of if by_zone else None))
    return BinTypes(
        option.astype(np.int64),
        key.astype(np.int64),
        catalog.cost[option, key],
        zone_of[key],
        np.ascontiguousarray(open_to[:, option, key].T),
        zones,
    )


def _undominated(price: Floats, open_to: Bools, zone_of: Ints | None) -> Bools:
    """Return T x K: the offerings that let some mask in, and that no cheaper key of the same node option replaces.

    price: T x K. open_to: M x T x K. zone_of: K, where only a key of the same zone can replace another.
    """
    kept: Bools = np.isfinite(price) & open_to.any(axis=0)
    keys = price.shape[1]
    for worse in range(keys):
        for better in range(keys):
            if worse == better or (zone_of is not None and zone_of[worse] != zone_of[better]):
                continue
            cheaper = price[:, better] < price[:, worse]
            if better < worse:
                cheaper |= price[:, better] == price[:, worse]
            if cheaper.any():
                covers = ~(open_to[:, :, worse] & ~open_to[:, :, better]).any(axis=0)
                kept[:, worse] &= ~(cheaper & covers & np.isfinite(price[:, better]))
    return kept


def capacities(catalog: CompiledCatalog, bin_types: BinTypes, host_rules: Sequence[GroupKey]) -> Floats:
    """Return what an empty node of each bin type holds: B x (R resources, then one column for each host rule)."""
    resources = np.maximum(catalog.allocatable[:, bin_types.option].T, 0.0)
    caps = np.array([key.host_capacity for key in host_rules])
    return np.concatenate([resources, np.broadcast_to(caps, (len(bin_types), len(caps)))], axis=1)


def find_limits(catalog: CompiledCatalog, bin_types: BinTypes, bins: int) -> tuple[Limit, ...]:
    """Compile the limits of Provisioners for `bins` bins: the bin types come first, other bins take nothing."""
    limits = []
    for number, pool in enumerate(catalog.pools):
        rows = np.flatnonzero(catalog.pool_of[bin_types.option] == number)
        for name, left in sorted(pool.headroom.items()):
            takes = np.zeros(bins)
            takes[rows] = [catalog.types[option].capacity.get(name, 0) for option in bin_types.option[rows].tolist()]
            limits.append(Limit(takes, float(left)))
    return tuple(limits)
