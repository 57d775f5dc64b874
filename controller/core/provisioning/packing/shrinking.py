"""Shrink planned nodes of pools with limits to what they hold, so that the limits allow more nodes."""

from __future__ import annotations

import numpy as np

from controller.core.provisioning.packing.packer import Packer, Placement
from controller.core.provisioning.resource_space import Bits, Floats, Ints


class Shrinker:
    """Shrinks the rows of one packer, again and again while it places units. Looks at rows that changed meanwhile."""

    def __init__(self, packer: Packer) -> None:
        self.packer = packer
        self._smallest: dict[tuple[int, bytes, bytes], int] = {}
        """What was found before: by a row's option, its pods' requests and the offerings that they allow."""
        self._free: Floats = np.zeros((len(packer.table.free), 0))
        """R x rows: what was free on each row when it was last looked at."""
        self._option: Ints = np.zeros(0, dtype=np.int64)
        """The node option of each row then; -1: it was not looked at."""
        self._allowed: dict[int, Bits] = {}
        """By row, T sets of offering bits: the options that all items placed there allow."""
        self._read: list[Placement] = []
        """The packer's list of placements, of which `_read_count` are counted in `_allowed`."""
        self._read_count = 0

    def shrink(self) -> bool:
        """Change planned rows of limited pools to the options that take least of the limits; whether any changed."""
        table, catalog = self.packer.table, self.packer.catalog
        if not (limited := self.packer.limits.limited):
            return False
        planned = np.arange(table.existing, table.count)
        rows = planned[np.isin(catalog.pool_of[table.option[planned]], limited) & (table.pods[planned] > 0)]
        rows = self._changed(rows)
        if len(rows):
            self._read_placements()
        changed = False
        for row in rows.tolist():
            option, allowed = int(table.option[row]), self._allowed[row]
            smaller = self._find_smallest(row, option, allowed)
            if smaller != option:
                self._replace(row, option, smaller, allowed)
                changed = True
        self._free[:, rows], self._option[rows] = table.free[:, rows], table.option[rows]
        return changed

    def _changed(self, rows: Ints) -> Ints:
        """Return those of the rows on which units were placed, or taken from, since they were last looked at."""
        table, more = self.packer.table, self.packer.table.room - len(self._option)
        if more:
            self._free = np.concatenate([self._free, np.zeros((len(self._free), more))], axis=1)
            self._option = np.concatenate([self._option, np.full(more, -1, dtype=np.int64)])
        changed: Ints = rows[
            (table.free[:, rows] != self._free[:, rows]).any(axis=0) | (table.option[rows] != self._option[rows])
        ]
        return changed

    def _read_placements(self) -> None:
        """Bring `_allowed` up to date. The packer's list is a new one where units were taken back: it is read anew."""
        placements, available = self.packer.placements, self.packer.catalog.available
        if placements is not self._read:
            self._allowed, self._read, self._read_count = {}, placements, 0
        for placement in placements[self._read_count :]:
            for row in placement.rows:
                self._allowed[row] = self._allowed.get(row, available) & placement.item.mask.bits
        self._read_count = len(placements)

    def _find_smallest(self, row: int, option: int, bits: Bits) -> int:
        """Return the option of the same pool that holds the row's pods and takes least of the limits,
        of none more than now.

        bits: T, the offerings allowed by option.
        """
        catalog, limits = self.packer.catalog, self.packer.limits
        need = catalog.allocatable[:, option] - self.packer.table.free[:, row]
        key = (option, need.tobytes(), bits.tobytes())
        if key not in self._smallest:
            pool, base = int(catalog.pool_of[option]), self.packer.signatures.base
            fits = (catalog.pool_of == pool) & (bits != 0) & (base == base[option])
            fits &= np.all(catalog.allocatable >= need[:, None], axis=0)
            candidates: Ints = np.flatnonzero(fits)
            takes = limits.takes(pool, candidates)  # L x candidates
            better = (takes <= limits.takes(pool, option)[:, None]).all(axis=0)
            candidates, takes = candidates[better], takes[:, better]
            order = np.lexsort((candidates, *takes[::-1]))
            self._smallest[key] = int(candidates[order[0]]) if len(candidates) else option
        return self._smallest[key]

    def _replace(self, row: int, option: int, smaller: int, bits: Bits) -> None:
        catalog, table, limits = self.packer.catalog, self.packer.table, self.packer.limits
        pool = int(catalog.pool_of[option])
        limits.spend(pool, option, -1)
        limits.spend(pool, smaller, 1)
        table.free[:, row] += catalog.allocatable[:, smaller] - catalog.allocatable[:, option]
        table.option[row] = smaller
        table.offering_bits[row] = bits[smaller]
