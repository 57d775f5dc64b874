"""Packing: pods of a class go onto rows (existing nodes first, then planned ones), else new rows are opened.

"How many of this class fit where" is one vectorised question per class. A new row's configuration is the one that would
serve all that is still to be placed, and may share a node with this class, for the least money.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.label_signatures import LabelSignatures
from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.offerings.node_table import ExistingNodes, NodeTable
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing_style import PackingStyle
from controller.core.provisioning.plan import SolveOptions
from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.provisioning.topology.host_counts import HostCounts


@dataclass(slots=True)
class Placement:
    """`counts[i]` units of the demand on row `rows[i]`."""

    demand: Item
    rows: list[int]
    counts: list[int]


STRETCH = 128
"""Rows looked at first: most demands are small, and find their place among the first rows with room. Then four times as
many, and so on."""
DEARER = 1.25
"""A demand does not join a planned row that it would make dearer by more than this factor (by leaving it on-demand
offerings alone, say), unless it can neither join another nor open one."""
SKIPPED_EVERY = 32
"""How often full rows at the front are left behind."""


class Packer:
    """The rows of a plan in the making."""

    def __init__(
        self,
        catalog: CompiledCatalog,
        existing: ExistingNodes,
        signatures: LabelSignatures,
        limits: Limits,
        options: SolveOptions,
        style: PackingStyle,
    ) -> None:
        self.catalog = catalog
        self.signatures = signatures
        self.limits = limits
        self.options = options
        self.style = style
        self.table = NodeTable(existing.free)
        self.hosts = HostCounts(self.table.room, bound_first=style.bound_first)
        self.placements: list[Placement] = []
        self._scarce: Bools = np.zeros(len(catalog), dtype=np.bool_)
        self._may_run_out = False
        self._expect(())
        self._first_open = 0
        weights = [pool.provisioner.weight for pool in catalog.pools]
        self.premium = weight_premiums(weights, options.weight_premium)[catalog.pool_of]

    def limited_only(self, demand: Item) -> bool:
        """Whether the demand depends on pools whose limits may run out."""
        return self._may_run_out and demand.mask.launchable and not demand.mask.bits[~self._scarce].any()

    def in_turn(self, demands: Sequence[Item]) -> list[Item]:
        """Demands in the order of placement: where limits may run out, those who depend on them come first: who has
        waited longest, then the small before the large, so that the limits go to the most pods."""
        self._scarce = self._find_scarce(demands)
        self._may_run_out = bool(self._scarce.any())
        if not self._may_run_out:
            return list(demands)
        return sorted(
            demands,
            key=lambda d: (
                not d.standing_only,
                not (bound := self.limited_only(d)),
                -d.waited if bound or d.standing_only else 0,
                self._limit_share(d) if bound else 0.0,
                d.size if bound else -d.size,
                d.index,
            ),
        )

    def _limit_share(self, demand: Item) -> float:
        """The part of what is left of limits that a unit takes at least, of the pool where it takes least."""
        pools = np.unique(self.catalog.pool_of[demand.mask.bits != 0]).tolist()
        asked = dict(zip(self.catalog.space.names, demand.request.tolist(), strict=True))
        return min((self.limits.share(pool, asked) for pool in pools), default=0.0)

    def _find_scarce(self, demands: Sequence[Item]) -> Bools:
        """Configurations of pools that could not hold all who may come, with a margin for what nodes waste."""
        scarce = np.zeros(len(self.catalog), dtype=np.bool_)
        limited = [pool for pool in range(len(self.catalog.pools)) if self.limits.limited(pool)]
        if limited and demands:
            self._expect(demands)
            need = self._need(0)
            for pool in limited:
                rows = self.catalog.pool_of == pool
                most = need[:, rows].max(axis=1, initial=0.0)
                if not self.limits.suffice(pool, dict(zip(self.catalog.space.names, most.tolist(), strict=True))):
                    scarce |= rows
        return scarce

    def pack(self, demands: Sequence[Item]) -> None:
        """Place what can be placed; what is left stays in each demand's `count`."""
        self._expect(demands)
        self._first_open = 0
        for number, demand in enumerate(demands):
            if number % SKIPPED_EVERY == 0:
                self._skip_full_rows(number)
            self.fill_rows(demand, DEARER)
            self._left[number] = demand.count
            self.open_rows(demand, number)
            if demand.count:
                self.fill_rows(demand)
                self._left[number] = demand.count
        self._first_open = 0

    def _skip_full_rows(self, number: int) -> None:
        """Leave out the first rows as far as they are too full for any demand from `number` on."""
        least = self._requests[number:].min(axis=0)
        rows = slice(self._first_open, self.table.count)
        has_room = np.all(self.table.free[:, rows] >= least[:, None], axis=0)
        self._first_open += int(has_room.argmax()) if has_room.any() else len(has_room)

    def fill_standing(self, demands: Sequence[Item]) -> None:
        """Place what fits on the rows that there are, and open none."""
        for demand in demands:
            self.fill_rows(demand)

    def _expect(self, demands: Sequence[Item]) -> None:
        """Note what is to be placed, by mask: what configurations may yet have to hold is then one product."""
        masks = {demand.mask.index: demand.mask for demand in demands}
        number = {index: position for position, index in enumerate(masks)}
        self._mask_of = np.array([number[demand.mask.index] for demand in demands], dtype=np.int64)
        self._allowed_by = np.array([mask.bits != 0 for mask in masks.values()], dtype=np.float64)
        self._requests = np.array([demand.request for demand in demands], dtype=np.float64)
        self._left = np.array([demand.count for demand in demands], dtype=np.float64)
        bound = [number for number, demand in enumerate(demands) if self.limited_only(demand)]
        self._dependents = bound[-1] + 1 if bound else 0
        """So many demands come first: those that depend on limits, and what goes before them."""

    def _need(self, first: int, last: int | None = None) -> Floats:
        """R x configurations: what each may yet have to hold, of the demands from `first` on (up to `last`)."""
        totals = self._requests[first:last] * self._left[first:last, None]
        masks = len(self._allowed_by)
        by_mask = [np.bincount(self._mask_of[first:last], weights=total, minlength=masks) for total in totals.T]
        return np.asarray(np.array(by_mask) @ self._allowed_by, dtype=np.float64)

    def fill_rows(self, demand: Item, dearer: float = np.inf) -> None:
        """Place as many as fit on the rows that there are, in their order, looking at a stretch of rows at a time.

        None on planned rows that would get dearer by more than the factor `dearer`.
        """
        first, stretch = self._first_open, STRETCH
        while demand.count and first < self.table.count:
            last = min(first + stretch, self.table.count)
            rows = self._with_room(demand, first, last)
            if len(rows) and self._gets_dearer(demand, int(rows[0]), dearer):
                rows = self._not_dearer(demand, rows, dearer)
            if len(rows):
                self._fill(demand, rows, dearer)
            first, stretch = last, 4 * stretch

    def _with_room(self, demand: Item, first: int, last: int) -> Ints:
        """The rows from `first` up to `last` that resources, host rules, labels and taints let one more unit onto."""
        free = self.table.free
        fits = [free[column, first:last] >= amount for column, amount in demand.asked]
        roomy: Bools = fits[0] if fits else np.ones(last - first, dtype=np.bool_)
        for each in fits[1:]:
            roomy &= each
        for rule in demand.rules:
            admitted = self.hosts.admits(rule, slice(first, last))
            if admitted is not None:
                roomy &= admitted
        rows = roomy.nonzero()[0] + first
        return rows[self._allowed(demand, rows)] if len(rows) else rows

    def _allowed(self, demand: Item, rows: Ints) -> Bools:
        """Per row (in ascending order), whether labels and taints let the demand onto it."""
        table, mask = self.table, demand.mask
        standing = int(rows.searchsorted(table.existing)) if table.existing else 0
        planned = rows[standing:]
        fine: Bools = (mask.bits[table.config[planned]] & table.pairs[planned]) != 0
        if mask.signature and fine.any():
            fine &= self.signatures.compatible(table.signature[planned], mask.signature)
        return fine if not standing else np.concatenate([mask.existing[rows[:standing]], fine])

    def _gets_dearer(self, demand: Item, row: int, factor: float) -> bool:
        """Whether the demand leaves a row no offering that costs at most `factor` times what it can be had for now."""
        table = self.table
        if factor == np.inf or row < table.existing:
            return False
        config, pairs = table.config.item(row), table.pairs.item(row)
        left = pairs & demand.mask.bits.item(config)
        return left != pairs and self.catalog.least(config, left) > factor * self.catalog.least(config, pairs)

    def _not_dearer(self, demand: Item, rows: Ints, factor: float) -> Ints:
        """Of these rows (ascending), those that the demand does not make dearer by more than the factor."""
        if factor == np.inf:
            return rows
        table = self.table
        planned = rows[rows.searchsorted(table.existing) :]
        pairs, config = table.pairs[planned], table.config[planned]
        left = pairs & demand.mask.bits[config]
        narrowed = (left != pairs).nonzero()[0]
        if not len(narrowed):
            return rows
        config = config[narrowed]
        price = self.catalog.cheapest(left[narrowed], config)
        dearer = price > factor * self.catalog.cheapest(pairs[narrowed], config)
        return np.delete(rows, len(rows) - len(planned) + narrowed[dearer]) if dearer.any() else rows

    def _fill(self, demand: Item, rows: Ints, dearer: float) -> None:
        """Place units on rows that have room for one at least, as many as fit. The first row does not get dearer; the
        others are judged where it does not take all, which is seldom."""
        if demand.count == 1 or self._takes_all(demand, rows[:1]):
            self._place_on(demand, int(rows[0]), demand.count)
            return
        rows = self._not_dearer(demand, rows, dearer)[: demand.count]
        takes = self._room(demand, rows)
        total = takes.cumsum()
        if total[-1] > demand.count:
            takes = np.clip(demand.count - (total - takes), 0, takes)
            used = takes > 0
            rows, takes = rows[used], takes[used]
        self.place(demand, rows, takes)

    def _takes_all(self, demand: Item, row: Ints) -> bool:
        """Whether one row has room for all units that are left: looked at first, as it is the usual case."""
        free, count = self.table.free[:, row[0]].tolist(), demand.count
        for column, amount in demand.asked:
            if free[column] < amount * count:
                return False
        for rule in demand.rules:
            cap = self.hosts.cap(rule, row)
            if (cap if isinstance(cap, float) else float(cap[0])) < count:
                return False
        return True

    def _room(self, demand: Item, rows: Ints) -> Floats:
        """Per row with room for one, how many units of the demand it can take (or all there are)."""
        room: Floats = np.full(len(rows), float(demand.count))
        for column, amount in demand.asked:
            np.minimum(room, self.table.free[column, rows] / amount, out=room)
        np.floor(room, out=room)
        for rule in demand.rules:
            np.minimum(room, self.hosts.cap(rule, rows), out=room)
        return room

    def place(self, demand: Item, rows: Ints, counts: Floats) -> None:
        """Record pods on rows, and take what they use."""
        if len(rows) == 1:
            self._place_on(demand, int(rows[0]), int(counts[0]))
            return
        table = self.table
        table.free[:, rows] -= demand.request[:, None] * counts
        table.pods[rows] += counts.astype(np.int64)
        for rule in demand.rules:
            self.hosts.add(rule, rows, counts)
        self._narrow(demand, rows[rows >= table.existing])
        self._note(demand, rows.tolist(), counts.astype(np.int64).tolist())

    def _place_on(self, demand: Item, row: int, units: int) -> None:
        """The same for one row, which is the usual case."""
        table = self.table
        table.free[:, row] -= demand.request if units == 1 else demand.request * units
        table.pods[row] += units
        for rule in demand.rules:
            self.hosts.add(rule, row, units)
        if row >= table.existing:
            table.pairs[row] &= demand.mask.bits[table.config[row]]
            self._settle(demand, [row])
        self._note(demand, [row], [units])

    def _narrow(self, demand: Item, planned: Ints) -> None:
        """Planned rows keep the zones and capacity types, and the open labels, that the demand allows."""
        table = self.table
        table.pairs[planned] &= demand.mask.bits[table.config[planned]]
        self._settle(demand, planned.tolist())

    def _settle(self, demand: Item, planned: list[int]) -> None:
        wanted, signature = demand.mask.signature, self.table.signature
        if wanted:
            for row in planned:
                signature[row] = self.signatures.merge(int(signature[row]), wanted)

    def _note(self, demand: Item, rows: list[int], counts: list[int]) -> None:
        placed = sum(counts)
        demand.count -= placed
        demand.placed += placed
        self.placements.append(Placement(demand, rows, counts))

    def open_rows(self, demand: Item, number: int) -> None:
        """Open new rows for what is left, while a configuration and its pool's limits allow."""
        while demand.count:
            choice = self._choose(demand, number)
            if choice is None:
                return
            config, each, allowed = choice
            copies = -(-demand.count // each)
            if allowed is not None:
                copies = min(copies, allowed)
            self._open(demand, config, each, copies)
            self._left[number] = demand.count

    def _open(self, demand: Item, config: int, each: int, copies: int) -> None:
        first = self.open_blank(config, copies)
        counts = np.full(copies, float(each))
        counts[-1] = min(each, demand.count - each * (copies - 1))
        self.place(demand, np.arange(first, first + copies), counts)

    def open_blank(self, config: int, copies: int) -> int:
        """Add empty rows of a configuration, and count them against its pool's limits; the first row."""
        catalog = self.catalog
        bits, signature = int(catalog.available[config]), int(self.signatures.base[config])
        first = self.table.open(config, catalog.allocatable[:, config], bits, signature, copies)
        self.hosts.grow(self.table.room)
        self.limits.spend(int(catalog.pool_of[config]), config, copies)
        return first

    def room_on_new(self, demand: Item) -> Floats:
        """Per configuration, how many pods of the demand an empty node would hold."""
        most = min((self.hosts.empty_cap(rule) for rule in demand.rules), default=np.inf)
        room: Floats = np.full(len(self.catalog), min(most, float(demand.count)))
        for column, amount in demand.asked:
            np.minimum(room, self.catalog.allocatable[column] / amount, out=room)
        np.floor(room, out=room)
        room[demand.mask.bits == 0] = 0
        return np.maximum(room, 0, out=room)

    def _choose(self, demand: Item, number: int) -> tuple[int, int, int | None] | None:
        """The configuration to open, pods per node, and how many nodes the limits allow (None: any number)."""
        room = self.room_on_new(demand)
        fine = (room > 0) & self.limits.allows(len(room))
        if not fine.any():
            return None
        rows = np.flatnonzero(fine)
        config = int(rows[np.argmin(self._scores(demand, rows, number))])
        return config, int(room[config]), self.limits.copies(int(self.catalog.pool_of[config]), config)

    def _scores(self, demand: Item, rows: Ints, number: int) -> Floats:
        """What it would cost to hold all that is expected in nodes of each configuration alone.

        Of demands that depend on limits which may run out: what part of the limits, first of all.
        """
        price = (
            self.catalog.cheapest(demand.mask.bits[rows], rows) * self.premium[rows] + self.options.node_cost_per_hour
        )
        dependent = number < self._dependents and self.limited_only(demand)
        need = self._need(number, self._dependents if dependent else None)
        with np.errstate(divide="ignore", invalid="ignore"):
            nodes = np.nanmax(need[:, rows] / self.catalog.allocatable[:, rows], axis=0, initial=0.0)
        nodes = np.where(np.isfinite(nodes), np.maximum(np.ceil(nodes - 1e-9), 1.0), np.inf)
        scores = price * nodes
        if dependent:
            scores = self.limits.shares(rows, self.catalog.pool_of[rows]) * nodes + 1e-6 * scores
        if not np.isfinite(scores).any():
            return price
        return np.asarray(scores, dtype=np.float64)


def weight_premiums(weights: Sequence[int], share: float | None) -> Floats:
    """Per Provisioner, the factor on its prices that makes up for its lack of weight.

    1 for the heaviest, 1 + share for one without weight; with None, so much that weight alone decides.
    """
    found = np.array(weights, dtype=np.float64)
    heaviest = found.max(initial=0.0)
    if heaviest <= 0:
        return np.ones(len(found))
    if share is None:
        ranks = np.unique(found)
        return np.asarray(1e4 ** (len(ranks) - 1.0 - np.searchsorted(ranks, found)), dtype=np.float64)
    return np.asarray(1.0 + share * (1.0 - found / heaviest), dtype=np.float64)
