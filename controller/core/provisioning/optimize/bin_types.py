"""Offers: what could be launched for a set of demands, with all that is dominated left out.

An offer is a configuration (a Provisioner with an instance type) at one pair of zone and capacity type. Of the pairs of
a configuration that let the same demands in, only the cheapest is kept; per zone where demands care for zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class BinTypes:
    """B offers. allowed: B x M, whether a demand with mask m may go there. zone: its place among `zones`."""

    config: Ints
    pair: Ints
    price: Floats
    zone: Ints
    allowed: Bools
    zones: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.config)


def find_bin_types(catalog: CompiledCatalog, masks: Sequence[Bits], *, by_zone: bool) -> BinTypes:
    """The offers for demands with these masks (T bit sets over pairs, each)."""
    zones = tuple(sorted({zone for zone, _ in catalog.pairs}))
    zone_of = np.array([zones.index(zone) for zone, _ in catalog.pairs], dtype=np.int64)
    shifts = np.arange(len(catalog.pairs), dtype=np.uint64)
    table = np.stack(list(masks)) if masks else np.zeros((0, len(catalog)), dtype=np.uint64)
    open_to: Bools = (table[:, :, None] >> shifts) & np.uint64(1) != 0
    kept = _undominated(catalog.price, open_to, zone_of if by_zone else None)
    config, pair = np.nonzero(kept)
    return BinTypes(
        config.astype(np.int64),
        pair.astype(np.int64),
        catalog.price[config, pair],
        zone_of[pair],
        np.ascontiguousarray(open_to[:, config, pair].T),
        zones,
    )


def _undominated(price: Floats, open_to: Bools, zone_of: Ints | None) -> Bools:
    """T x P: offers that let some mask in, and that no cheaper pair of the same configuration replaces."""
    kept: Bools = np.isfinite(price) & open_to.any(axis=0)
    pairs = price.shape[1]
    for worse in range(pairs):
        for better in range(pairs):
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
    """Per configuration, what its price counts for: the weightiest Provisioner's nodes may cost `share` more."""
    weights = sorted({pool.provisioner.weight for pool in catalog.pools}, reverse=True)
    if len(weights) < 2:
        return np.ones(len(catalog))
    step = share / (len(weights) - 1)
    rank = np.array([weights.index(pool.provisioner.weight) for pool in catalog.pools], dtype=np.float64)
    return np.asarray(1.0 + step * rank[catalog.pool_of], dtype=np.float64)
