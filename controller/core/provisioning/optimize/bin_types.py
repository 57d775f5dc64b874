"""Offers: what could be launched for a set of items, with all that is dominated left out.

An offer is a node option (a Provisioner with an instance type) at one pair of zone and capacity type. Of the pairs of
a node option that let the same items in, only the cheapest is kept; per zone where items care for zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class BinTypes:
    """B offers. allowed: B x M, whether a item with mask m may go there. zone: its place among `zones`."""

    option: Ints
    offering_key: Ints
    price: Floats
    zone: Ints
    allowed: Bools
    zones: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.option)


def find_bin_types(catalog: CompiledCatalog, masks: Sequence[Bits], *, by_zone: bool) -> BinTypes:
    """The offers for items with these masks (T bit sets over pairs, each)."""
    zones = tuple(sorted({zone for zone, _ in catalog.offering_keys}))
    zone_of = np.array([zones.index(zone) for zone, _ in catalog.offering_keys], dtype=np.int64)
    shifts = np.arange(len(catalog.offering_keys), dtype=np.uint64)
    table = np.stack(list(masks)) if masks else np.zeros((0, len(catalog)), dtype=np.uint64)
    open_to: Bools = (table[:, :, None] >> shifts) & np.uint64(1) != 0
    kept = _undominated(catalog.price, open_to, zone_of if by_zone else None)
    option, offering_key = np.nonzero(kept)
    return BinTypes(
        option.astype(np.int64),
        offering_key.astype(np.int64),
        catalog.price[option, offering_key],
        zone_of[offering_key],
        np.ascontiguousarray(open_to[:, option, offering_key].T),
        zones,
    )


def _undominated(price: Floats, open_to: Bools, zone_of: Ints | None) -> Bools:
    """T x P: offers that let some mask in, and that no cheaper pair of the same node option replaces."""
    kept: Bools = np.isfinite(price) & open_to.any(axis=0)
    columns = price.shape[1]
    for worse in range(columns):
        for better in range(columns):
            if worse == better or (zone_of is not None and zone_of[worse] != zone_of[better]):
                continue
            cheaper = price[:, better] < price[:, worse]
            if better < worse:
                cheaper |= price[:, better] == price[:, worse]
            if cheaper.any():
                covers = ~(open_to[:, :, worse] & ~open_to[:, :, better]).any(axis=0)
                kept[:, worse] &= ~(cheaper & covers & np.isfinite(price[:, better]))
    return kept


def weight_factors(catalog: CompiledCatalog, share: float) -> Floats:
    """Per node option, what its price counts for: the weightiest Provisioner's nodes may cost `share` more."""
    weights = sorted({pool.provisioner.weight for pool in catalog.pools}, reverse=True)
    if len(weights) < 2:
        return np.ones(len(catalog))
    step = share / (len(weights) - 1)
    rank = np.array([weights.index(pool.provisioner.weight) for pool in catalog.pools], dtype=np.float64)
    return np.asarray(1.0 + step * rank[catalog.pool_of], dtype=np.float64)
