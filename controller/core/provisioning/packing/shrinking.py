"""Shrink planned nodes of pools with limits to what they hold, so that the limits allow more nodes."""

from __future__ import annotations

import numpy as np

from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.resource_space import Bits, Ints


def shrink(packer: Packer) -> bool:
    """Change planned rows of limited pools to the options that take least of the limits; returns whether any did."""
    limits, table, catalog = packer.limits, packer.table, packer.catalog
    if not (limited := limits.limited):
        return False
    planned = np.arange(table.existing, table.count)
    rows = planned[np.isin(catalog.pool_of[table.option[planned]], limited) & (table.pods[planned] > 0)]
    before = _state(packer, rows)
    if before == packer.shrunk:
        return False
    allowed = _allowed(packer, set(rows.tolist()))
    changed = False
    for row in rows.tolist():
        option = int(table.option[row])
        smaller = _smallest(packer, row, option, allowed[row])
        if smaller != option:
            _replace(packer, row, option, smaller, allowed[row])
            changed = True
    packer.shrunk = _state(packer, rows) if changed else before
    return changed


def _state(packer: Packer, rows: Ints) -> tuple[int, bytes, bytes]:
    """Return what differs once pods were placed on these rows or taken from them."""
    table = packer.table
    return len(packer.placements), table.free[:, rows].tobytes(), table.option[rows].tobytes()


def _allowed(packer: Packer, rows: set[int]) -> dict[int, Bits]:
    """Return for each row T sets of offering bits: the options that all items placed there allow."""
    allowed = dict.fromkeys(rows, packer.catalog.available)
    for placement in packer.placements:
        for row in placement.rows:
            if row in allowed:
                allowed[row] = allowed[row] & placement.item.mask.bits
    return allowed


def _smallest(packer: Packer, row: int, option: int, bits: Bits) -> int:
    """Return the option of the same pool that holds the row's pods and takes least of the limits,
    of none more than now.

    bits: T, the offerings allowed by option.
    """
    catalog, table, limits = packer.catalog, packer.table, packer.limits
    need = catalog.allocatable[:, option] - table.free[:, row]
    key = (option, need.tobytes(), bits.tobytes())
    if key not in packer.smallest:
        pool, base = int(catalog.pool_of[option]), packer.signatures.base
        fits = (catalog.pool_of == pool) & (bits != 0) & (base == base[option])
        fits &= np.all(catalog.allocatable >= need[:, None], axis=0)
        candidates: Ints = np.flatnonzero(fits)
        takes = limits.takes(pool, candidates)  # L x candidates
        better = (takes <= limits.takes(pool, option)[:, None]).all(axis=0)
        candidates, takes = candidates[better], takes[:, better]
        order = np.lexsort((candidates, *takes[::-1]))
        packer.smallest[key] = int(candidates[order[0]]) if len(candidates) else option
    return packer.smallest[key]


def _replace(packer: Packer, row: int, option: int, smaller: int, bits: Bits) -> None:
    catalog, table = packer.catalog, packer.table
    pool = int(catalog.pool_of[option])
    packer.limits.spend(pool, option, -1)
    packer.limits.spend(pool, smaller, 1)
    table.free[:, row] += catalog.allocatable[:, smaller] - catalog.allocatable[:, option]
    table.option[row] = smaller
    table.offering_bits[row] = bits[smaller]
