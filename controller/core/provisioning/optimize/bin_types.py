"""Find the bin types: the offerings worth considering for a set of items, and what each takes of limits.

A bin type is a node option (a Provisioner with an instance type) under one offering key (zone and capacity type). Of
the offering keys of a node option that let the same items in, only the cheapest is kept; per zone where items are
counted by zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.optimize.covering import Limit
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class BinTypes:
    """B bin types. option, offering_key, price ($/hour), zone (its place in `zones`): B each.

    allowed: B x M, whether items of mask m may go there.
    """

    option: Ints
    offering_key: Ints
    price: Floats
    zone: Ints
    allowed: Bools
    zones: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.option)


def find_bin_types(catalog: CompiledCatalog, masks: Sequence[Bits], *, by_zone: bool) -> BinTypes:
    """The bin types for items with these M masks, each a bit set of offering keys per node option."""
    zones = tuple(sorted({zone for zone, _ in catalog.offering_keys}))
    zone_of = np.array([zones.index(zone) for zone, _ in catalog.offering_keys], dtype=np.int64)
    # open_to: M x node options x offering keys.
    shifts = np.arange(len(catalog.offering_keys), dtype=np.uint64)
    table = np.stack(list(masks)) if masks else np.zeros((0, len(catalog)), dtype=np.uint64)
    open_to: Bools = (table[:, :, None] >> shifts) & np.uint64(1) != 0
    kept = _undominated(catalog.price, open_to, zone_of if by_zone else None)
    option, key = np.nonzero(kept)
    return BinTypes(
        option.astype(np.int64),
        key.astype(np.int64),
        catalog.price[option, key],
        zone_of[key],
        np.ascontiguousarray(open_to[:, option, key].T),
        zones,
    )


def _undominated(price: Floats, open_to: Bools, zone_of: Ints | None) -> Bools:
    """Node options x offering keys: those that let some mask in and that no cheaper key of the option replaces."""
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


def find_limits(catalog: CompiledCatalog, bin_types: BinTypes, bins: int) -> tuple[Limit, ...]:
    """The limits of Provisioners that have any, over `bins` bins: the bin types come first, other bins take nothing."""
    found = []
    for number, pool in enumerate(catalog.pools):
        rows = np.flatnonzero(catalog.pool_of[bin_types.option] == number)
        for name, left in sorted(pool.headroom.items()):
            takes = np.zeros(bins)
            takes[rows] = [catalog.types[option].capacity.get(name, 0) for option in bin_types.option[rows].tolist()]
            found.append(Limit(takes, float(left)))
    return tuple(found)
