"""Packing: pods of a class go onto rows (existing nodes first, then planned ones), else new rows are opened.

"How many of this class fit where" is one vectorised question per class. A new row's node option is the one that would
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
    """`counts[i]` units of the item on row `rows[i]`."""

    item: Item
    rows: list[int]
    counts: list[int]


STRETCH = 128
"""Rows looked at first: most items are small, and find their place among the first rows with room. Then four times as
many, and so on."""
DEARER = 1.25
"""A item does not join a planned row that it would make dearer by more than this factor (by leaving it on-item
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
        self.hosts = HostCounts(self.table.room, constrained_first=style.constrained_first)
        self.placements: list[Placement] = []
        self._scarce: Bools = np.zeros(len(catalog), dtype=np.bool_)
        self._may_run_out = False
        self._expect(())
        self._first_open = 0
        weights = [pool.provisioner.weight for pool in catalog.pools]
        self.premium = weight_premiums(weights, options.weight_premium)[catalog.pool_of]

    def limited_only(self, item: Item) -> bool:
        """Whether the item depends on pools whose limits may run out."""
        return self._may_run_out and item.mask.launchable and not item.mask.bits[~self._scarce].any()

    def in_turn(self, items: Sequence[Item]) -> list[Item]:
        """Items in the order of placement: where limits may run out, those who depend on them come first: who has
        waited longest, then the small before the large, so that the limits go to the most pods."""
        self._scarce = self._find_scarce(items)
        self._may_run_out = bool(self._scarce.any())
        if not self._may_run_out:
            return list(items)
        return sorted(
            items,
            key=lambda d: (
                not d.existing_only,
                not (bound := self.limited_only(d)),
                -d.waited if bound or d.existing_only else 0,
                self._limit_share(d) if bound else 0.0,
                d.size if bound else -d.size,
                d.index,
            ),
        )

    def _limit_share(self, item: Item) -> float:
        """The part of what is left of limits that a unit takes at least, of the pool where it takes least."""
        pools = np.unique(self.catalog.pool_of[item.mask.bits != 0]).tolist()
        asked = dict(zip(self.catalog.space.names, item.request.tolist(), strict=True))
        return min((self.limits.share(pool, asked) for pool in pools), default=0.0)

    def _find_scarce(self, items: Sequence[Item]) -> Bools:
        """Node options of pools that could not hold all who may come, with a margin for what nodes waste."""
        scarce = np.zeros(len(self.catalog), dtype=np.bool_)
        limited = [pool for pool in range(len(self.catalog.pools)) if self.limits.limited(pool)]
        if limited and items:
            self._expect(items)
            need = self._need(0)
            for pool in limited:
                rows = self.catalog.pool_of == pool
                most = need[:, rows].max(axis=1, initial=0.0)
                if not self.limits.suffice(pool, dict(zip(self.catalog.space.names, most.tolist(), strict=True))):
                    scarce |= rows
        return scarce

    def pack(self, items: Sequence[Item]) -> None:
        """Place what can be placed; what is left stays in each item's `count`."""
        self._expect(items)
        self._first_open = 0
        for number, item in enumerate(items):
            if number % SKIPPED_EVERY == 0:
                self._skip_full_rows(number)
            self.fill_rows(item, DEARER)
            self._left[number] = item.count
            self.open_rows(item, number)
            if item.count:
                self.fill_rows(item)
                self._left[number] = item.count
        self._first_open = 0

    def _skip_full_rows(self, number: int) -> None:
        """Leave out the first rows as far as they are too full for any item from `number` on."""
        least = self._requests[number:].min(axis=0)
        rows = slice(self._first_open, self.table.count)
        has_room = np.all(self.table.free[:, rows] >= least[:, None], axis=0)
        self._first_open += int(has_room.argmax()) if has_room.any() else len(has_room)

    def _expect(self, items: Sequence[Item]) -> None:
        """Note what is to be placed, by mask: what node options may yet have to hold is then one product."""
        masks = {item.mask.index: item.mask for item in items}
        number = {index: position for position, index in enumerate(masks)}
        self._mask_of = np.array([number[item.mask.index] for item in items], dtype=np.int64)
        self._allowed_by = np.array([mask.bits != 0 for mask in masks.values()], dtype=np.float64)
        self._requests = np.array([item.request for item in items], dtype=np.float64)
        self._left = np.array([item.count for item in items], dtype=np.float64)
        bound = [number for number, item in enumerate(items) if self.limited_only(item)]
        self._dependents = bound[-1] + 1 if bound else 0
        """So many items come first: those that depend on limits, and what goes before them."""

    def _need(self, first: int, last: int | None = None) -> Floats:
        """R x node options: what each may yet have to hold, of the items from `first` on (up to `last`)."""
        totals = self._requests[first:last] * self._left[first:last, None]
        masks = len(self._allowed_by)
        by_mask = [np.bincount(self._mask_of[first:last], weights=total, minlength=masks) for total in totals.T]
        return np.asarray(np.array(by_mask) @ self._allowed_by, dtype=np.float64)

    def fill_rows(self, item: Item, dearer: float = np.inf) -> None:
        """Place as many as fit on the rows, in their order, looking at a stretch of rows at a time.

        None on planned rows that would get dearer by more than the factor `dearer`.
        """
        first, stretch = self._first_open, STRETCH
        while item.count and first < self.table.count:
            last = min(first + stretch, self.table.count)
            rows = self._with_room(item, first, last)
            if len(rows) and self._gets_dearer(item, int(rows[0]), dearer):
                rows = self._not_dearer(item, rows, dearer)
            if len(rows):
                self._fill(item, rows, dearer)
            first, stretch = last, 4 * stretch

    def _with_room(self, item: Item, first: int, last: int) -> Ints:
        """The rows from `first` up to `last` that resources, host rules, labels and taints let one more unit onto."""
        free = self.table.free
        fits = [free[column, first:last] >= amount for column, amount in item.asked]
        roomy: Bools = fits[0] if fits else np.ones(last - first, dtype=np.bool_)
        for each in fits[1:]:
            roomy &= each
        for rule in item.rules:
            admitted = self.hosts.admits(rule, slice(first, last))
            if admitted is not None:
                roomy &= admitted
        rows = roomy.nonzero()[0] + first
        return rows[self._allowed(item, rows)] if len(rows) else rows

    def _allowed(self, item: Item, rows: Ints) -> Bools:
        """Per row (in ascending order), whether labels and taints let the item onto it."""
        table, mask = self.table, item.mask
        existing = int(rows.searchsorted(table.existing)) if table.existing else 0
        planned = rows[existing:]
        fine: Bools = (mask.bits[table.option[planned]] & table.offering_bits[planned]) != 0
        if mask.signature and fine.any():
            fine &= self.signatures.compatible(table.signature[planned], mask.signature)
        return fine if not existing else np.concatenate([mask.existing[rows[:existing]], fine])

    def _gets_dearer(self, item: Item, row: int, factor: float) -> bool:
        """Whether the item leaves a row no offering that costs at most `factor` times what it can be had for now."""
        table = self.table
        if factor == np.inf or row < table.existing:
            return False
        option, offering_bits = table.option.item(row), table.offering_bits.item(row)
        left = offering_bits & item.mask.bits.item(option)
        return left != offering_bits and self.catalog.least(option, left) > factor * self.catalog.least(
            option, offering_bits
        )

    def _not_dearer(self, item: Item, rows: Ints, factor: float) -> Ints:
        """Of these rows (ascending), those that the item does not make dearer by more than the factor."""
        if factor == np.inf:
            return rows
        table = self.table
        planned = rows[rows.searchsorted(table.existing) :]
        offering_bits, option = table.offering_bits[planned], table.option[planned]
        left = offering_bits & item.mask.bits[option]
        narrowed = (left != offering_bits).nonzero()[0]
        if not len(narrowed):
            return rows
        option = option[narrowed]
        price = self.catalog.cheapest(left[narrowed], option)
        dearer = price > factor * self.catalog.cheapest(offering_bits[narrowed], option)
        return np.delete(rows, len(rows) - len(planned) + narrowed[dearer]) if dearer.any() else rows

    def _fill(self, item: Item, rows: Ints, dearer: float) -> None:
        """Place units on rows that have room for one at least, as many as fit. The first row does not get dearer; the
        others are judged where it does not take all, which is seldom."""
        if item.count == 1 or self._takes_all(item, rows[:1]):
            self._place_on(item, int(rows[0]), item.count)
            return
        rows = self._not_dearer(item, rows, dearer)[: item.count]
        takes = self._room(item, rows)
        total = takes.cumsum()
        if total[-1] > item.count:
            takes = np.clip(item.count - (total - takes), 0, takes)
            used = takes > 0
            rows, takes = rows[used], takes[used]
        self.place(item, rows, takes)

    def _takes_all(self, item: Item, row: Ints) -> bool:
        """Whether one row has room for all units that are left: looked at first, as it is the usual case."""
        free, count = self.table.free[:, row[0]].tolist(), item.count
        for column, amount in item.asked:
            if free[column] < amount * count:
                return False
        for rule in item.rules:
            cap = self.hosts.cap(rule, row)
            if (cap if isinstance(cap, float) else float(cap[0])) < count:
                return False
        return True

    def _room(self, item: Item, rows: Ints) -> Floats:
        """Per row with room for one, how many units of the item it can take (or all there are)."""
        room: Floats = np.full(len(rows), float(item.count))
        for column, amount in item.asked:
            np.minimum(room, self.table.free[column, rows] / amount, out=room)
        np.floor(room, out=room)
        for rule in item.rules:
            np.minimum(room, self.hosts.cap(rule, rows), out=room)
        return room

    def place(self, item: Item, rows: Ints, counts: Floats) -> None:
        """Record pods on rows, and take what they use."""
        if len(rows) == 1:
            self._place_on(item, int(rows[0]), int(counts[0]))
            return
        table = self.table
        table.free[:, rows] -= item.request[:, None] * counts
        table.pods[rows] += counts.astype(np.int64)
        for rule in item.rules:
            self.hosts.add(rule, rows, counts)
        self._narrow(item, rows[rows >= table.existing])
        self._note(item, rows.tolist(), counts.astype(np.int64).tolist())

    def _place_on(self, item: Item, row: int, units: int) -> None:
        """The same for one row, which is the usual case."""
        table = self.table
        table.free[:, row] -= item.request if units == 1 else item.request * units
        table.pods[row] += units
        for rule in item.rules:
            self.hosts.add(rule, row, units)
        if row >= table.existing:
            table.offering_bits[row] &= item.mask.bits[table.option[row]]
            self._settle(item, [row])
        self._note(item, [row], [units])

    def _narrow(self, item: Item, planned: Ints) -> None:
        """Planned rows keep the zones and capacity types, and the open labels, that the item allows."""
        table = self.table
        table.offering_bits[planned] &= item.mask.bits[table.option[planned]]
        self._settle(item, planned.tolist())

    def _settle(self, item: Item, planned: list[int]) -> None:
        wanted, signature = item.mask.signature, self.table.signature
        if wanted:
            for row in planned:
                signature[row] = self.signatures.merge(int(signature[row]), wanted)

    def _note(self, item: Item, rows: list[int], counts: list[int]) -> None:
        placed = sum(counts)
        item.count -= placed
        item.placed += placed
        self.placements.append(Placement(item, rows, counts))

    def open_rows(self, item: Item, number: int) -> None:
        """Open new rows for what is left, while a node option and its pool's limits allow."""
        while item.count:
            choice = self._choose(item, number)
            if choice is None:
                return
            option, each, allowed = choice
            copies = -(-item.count // each)
            if allowed is not None:
                copies = min(copies, allowed)
            self._open(item, option, each, copies)
            self._left[number] = item.count

    def _open(self, item: Item, option: int, each: int, copies: int) -> None:
        first = self.open_blank(option, copies)
        counts = np.full(copies, float(each))
        counts[-1] = min(each, item.count - each * (copies - 1))
        self.place(item, np.arange(first, first + copies), counts)

    def open_blank(self, option: int, copies: int) -> int:
        """Add empty rows of a node option, and count them against its pool's limits; the first row."""
        catalog = self.catalog
        bits, signature = int(catalog.available[option]), int(self.signatures.base[option])
        first = self.table.open(option, catalog.allocatable[:, option], bits, signature, copies)
        self.hosts.grow(self.table.room)
        self.limits.spend(int(catalog.pool_of[option]), option, copies)
        return first

    def room_on_new(self, item: Item) -> Floats:
        """Per node option, how many pods of the item an empty node would hold."""
        most = min((self.hosts.empty_cap(rule) for rule in item.rules), default=np.inf)
        room: Floats = np.full(len(self.catalog), min(most, float(item.count)))
        for column, amount in item.asked:
            np.minimum(room, self.catalog.allocatable[column] / amount, out=room)
        np.floor(room, out=room)
        room[item.mask.bits == 0] = 0
        return np.maximum(room, 0, out=room)

    def _choose(self, item: Item, number: int) -> tuple[int, int, int | None] | None:
        """The node option to open, pods per node, and how many nodes the limits allow (None: any number)."""
        room = self.room_on_new(item)
        fine = (room > 0) & self.limits.allows(len(room))
        if not fine.any():
            return None
        rows = np.flatnonzero(fine)
        option = int(rows[np.argmin(self._scores(item, rows, number))])
        return option, int(room[option]), self.limits.copies(int(self.catalog.pool_of[option]), option)

    def _scores(self, item: Item, rows: Ints, number: int) -> Floats:
        """What it would cost to hold all that is expected in nodes of each node option alone.

        Of items that depend on limits which may run out: what part of the limits, first of all.
        """
        price = self.catalog.cheapest(item.mask.bits[rows], rows) * self.premium[rows] + self.options.node_cost_per_hour
        dependent = number < self._dependents and self.limited_only(item)
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
