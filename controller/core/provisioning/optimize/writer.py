"""Write a packing down as rows and placements of a copy of the first plan's packer."""

from __future__ import annotations

from copy import copy

import numpy as np

from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.offerings.node_table import NodeTable
from controller.core.provisioning.optimize.bin_packing_problem import (
    BinPackingProblem,
    free_without_plan,
    hosts_without_plan,
)
from controller.core.provisioning.optimize.build import Bin, Packing
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer


class Writer:
    """Writes a packing down as rows and placements of a copy of the first plan's packer."""

    def __init__(self, first: Packer, problem: BinPackingProblem, limits: Limits) -> None:
        self.problem = problem
        self.packer = copy(first)
        self.packer.table = NodeTable(free_without_plan(first))
        self.packer.hosts = hosts_without_plan(first, self.packer.table.room)
        self.packer.shared = first.shared.on_existing(self.packer.table.existing, self.packer.table.room)
        self.packer.limits = limits
        self.packer.placements = []
        self.sources = [list(item_type.sources) for item_type in problem.item_types]
        """Units of each plain item type that are not written down yet, by the item that they belong to."""

    def write(self, packing: Packing) -> Packer:
        """Return the packer with the packing's nodes and placements."""
        for fixed in self.problem.fixed:
            self._place(fixed.item, fixed.row, fixed.units)
        for one in packing.bins:
            row = one.number if one.existing else self._open(one)
            for number in np.flatnonzero(one.units).tolist():
                self._place_units(number, row, int(one.units[number]))
        return self.packer

    def _open(self, one: Bin) -> int:
        bin_types = self.problem.bin_types
        row = self.packer.open_blank(int(bin_types.option[one.number]), 1)
        self.packer.table.offering_bits[row] &= np.uint64(1) << np.uint64(int(bin_types.offering_key[one.number]))
        return row

    def _place_units(self, number: int, row: int, units: int) -> None:
        item_type = self.problem.item_types[number]
        if not item_type.sources:
            for part in item_type.parts:
                self._place(part.item, row, part.units * units)
            return
        sources = self.sources[number]
        while units:
            item, count = sources[0]
            taken = min(units, count)
            self._place(item, row, taken)
            units -= taken
            sources[0] = (item, count - taken)
            if taken == count:
                sources.pop(0)

    def _place(self, item: Item, row: int, units: int) -> None:
        self.packer.place(item, np.array([row]), np.array([float(units)]))
