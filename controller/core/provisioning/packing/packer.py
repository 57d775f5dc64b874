"""Pack items onto rows first-fit: existing nodes first, then new nodes in the order of opening; else open new ones.

"How many units of this item fit where" is one vectorised question per item. A new row gets the node option that would
hold everything still to be placed, as far as it may share a node with this item, for the least money.

Letters in shapes: R resources, T node options, I items, M distinct masks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.api.frozen import EMPTY
from controller.core.provisioning.offerings.limits import Limits
from controller.core.provisioning.offerings.mask_compiler import Mask, MaskCompiler
from controller.core.provisioning.offerings.node_table import NodeTable
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.shared_volumes import SharedVolumes
from controller.core.provisioning.plan import SolveOptions
from controller.core.provisioning.resource_space import Bools, Floats, Ints
from controller.core.provisioning.topology.allocation import PackingStyle
from controller.core.provisioning.topology.host_counts import HostCounts

STRETCH = 128
"""Rows looked at first, then four times as many, and so on: most items are small and fit on one of the first rows."""
DEARER = 1.25
"""An item does not join a planned row whose price it would raise by more than this factor (by ruling out its spot
offerings, say), unless it can neither join another row nor open one."""
SKIP_EVERY = 32
"""Items between two looks for full rows at the front, which all later items skip."""


@dataclass(slots=True)
class Placement:
    """`counts[i]` units of the item on row `rows[i]`."""

    item: Item
    rows: list[int]
    counts: list[int]


class RemainingItems:
    """The items in their order of placement as arrays: what nodes of each option may still have to hold.

    requests: I x R, of one unit. left: I, units still to place. mask_of: I, a row of `allowed`. allowed: M x T, 1.0
    where a mask lets its items onto nodes of the option, else 0.0.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        masks = {item.mask.index: item.mask for item in items}
        number = {index: position for position, index in enumerate(masks)}
        self.requests: Floats = np.array([item.request for item in items], dtype=np.float64)
        self.left: Floats = np.array([item.count for item in items], dtype=np.float64)
        self._mask_of: Ints = np.array([number[item.mask.index] for item in items], dtype=np.int64)
        self._allowed: Floats = np.array([mask.bits != 0 for mask in masks.values()], dtype=np.float64)

    def need(self, first: int, last: int | None = None) -> Floats:
        """Return R x T: what nodes of each option may have to hold of the items from `first` up to `last`.

        Requests are summed by mask (R x M) before they are spread over the options that the masks allow.
        """
        totals = self.requests[first:last] * self.left[first:last, None]
        masks = len(self._allowed)
        by_mask = [np.bincount(self._mask_of[first:last], weights=total, minlength=masks) for total in totals.T]
        return np.asarray(np.array(by_mask) @ self._allowed, dtype=np.float64)


class Packer:
    """The rows of a plan in the making, and what was placed on them.

    premium: T, the factor on each option's price for its Provisioner's lack of weight.
    """

    def __init__(
        self,
        masks: MaskCompiler,
        limits: Limits,
        options: SolveOptions,
        style: PackingStyle,
        attached: Mapping[str, Sequence[int]] = EMPTY,
    ) -> None:
        """`attached`: by shared volume, the rows of existing nodes that have it."""
        self.catalog = masks.catalog
        self.signatures = masks.signatures
        self.limits = limits
        self.options = options
        self.style = style
        self.table = NodeTable(masks.existing.free)
        self.hosts = HostCounts(self.table.room, constrained_first=style.constrained_first)
        columns = self.catalog.space.attachments
        self.shared = SharedVolumes(columns, attached, self.table.room)
        self.placements: list[Placement] = []
        weights = [pool.provisioner.weight for pool in self.catalog.pools]
        self.premium = weight_premiums(weights, options.weight_premium)[self.catalog.pool_of]
        self._scarce: Bools = np.zeros(len(self.catalog), dtype=np.bool_)
        """T: options of pools whose limits may run out."""

    def in_turn(self, items: Sequence[Item]) -> list[Item]:
        """Return the items in order of placement.

        Where limits may run out, items that depend on them come first: those that waited longest, then the small before
        the large, so that the limits serve as many pods as they can.
        """
        self._scarce = self._find_scarce(items)
        if not self._scarce.any():
            return list(items)
        return sorted(
            items,
            key=lambda item: (
                not item.existing_only,
                not (limited := self._limited_only(item)),
                -item.waited if limited or item.existing_only else 0,
                self._limit_share(item) if limited else 0.0,
                item.size if limited else -item.size,
                item.index,
            ),
        )

    def _limited_only(self, item: Item) -> bool:
        """Return whether only options of scarce pools can take the item."""
        return bool(self._scarce.any()) and item.mask.launchable and not item.mask.bits[~self._scarce].any()

    def _limit_share(self, item: Item) -> float:
        """Return the share of what a pool's limits leave that a unit takes, in the pool where that is least."""
        if not self.style.by_node_share:
            pools = np.unique(self.catalog.pool_of[item.mask.bits != 0]).tolist()
            request = dict(zip(self.catalog.space.names, item.request.tolist(), strict=True))
            return min((self.limits.share(pool, request) for pool in pools), default=0.0)
        options = np.flatnonzero(item.mask.bits)
        nodes = np.zeros(len(options))
        with np.errstate(divide="ignore", invalid="ignore"):
            for column, amount in item.asked:
                np.maximum(nodes, amount / self.catalog.allocatable[column, options], out=nodes)
            shares = self.limits.shares(options, self.catalog.pool_of[options]) * nodes
        return float(np.nanmin(shares, initial=np.inf))

    def _find_scarce(self, items: Sequence[Item]) -> Bools:
        """Return T: options of pools whose limits could not hold all items that may come, with a margin for waste."""
        scarce = np.zeros(len(self.catalog), dtype=np.bool_)
        limited = self.limits.limited
        if limited and items:
            need = RemainingItems(items).need(0)
            for pool in limited:
                rows = self.catalog.pool_of == pool
                most = need[:, rows].max(axis=1, initial=0.0)
                if not self.limits.suffice(pool, dict(zip(self.catalog.space.names, most.tolist(), strict=True))):
                    scarce |= rows
        return scarce

    def pack(self, items: Sequence[Item]) -> None:
        """Place what can be placed; the rest stays in each item's `count`."""
        remaining = RemainingItems(items)
        limited = [number for number, item in enumerate(items) if self._limited_only(item)]
        # Items up to here compete for limits; `in_turn` put them first.
        last_limited = limited[-1] + 1 if limited else 0
        first_row = 0
        for number, item in enumerate(items):
            if number % SKIP_EVERY == 0:
                first_row = self._first_with_room(first_row, remaining.requests[number:].min(axis=0))
            self._fill_rows(item, first_row, DEARER)
            remaining.left[number] = item.count
            self._open_rows(item, number, remaining, last_limited)
            if item.count:
                self._fill_rows(item, first_row)
                remaining.left[number] = item.count

    def _first_with_room(self, first: int, least: Floats) -> int:
        """Return the first row from `first` on that has `least` (R) free."""
        has_room = np.all(self.table.free[:, first : self.table.count] >= least[:, None], axis=0)
        return first + (int(has_room.argmax()) if has_room.any() else len(has_room))

    def _fill_rows(self, item: Item, first: int, dearer: float = np.inf) -> None:
        """Place as many units as fit on the rows from `first` on, a stretch of rows at a time.

        dearer: rows whose price would rise by more than this factor are left out.
        """
        stretch = STRETCH
        while item.count and first < self.table.count:
            last = min(first + stretch, self.table.count)
            rows = self._with_room(item, first, last)
            # Mostly the first row takes all that is left: judge its price alone before that of the others.
            if len(self._not_dearer(item, rows[:1], dearer)) and self._takes_all(item, rows[:1]):
                self._place_on(item, int(rows[0]), item.count)
                return
            rows = self._not_dearer(item, rows, dearer)
            if len(rows):
                self._fill(item, rows)
            first, stretch = last, 4 * stretch

    def _with_room(self, item: Item, first: int, last: int) -> Ints:
        """Return the rows from `first` up to `last` that can take one more unit by all that the packer knows."""
        roomy: Bools = np.ones(last - first, dtype=np.bool_)
        for column, amount in item.asked:
            roomy &= self.table.free[column, first:last] >= amount
        for column, missing in self._missing(item, slice(first, last)).items():
            roomy &= self.table.free[column, first:last] >= item.request[column] + missing
        for rule in item.rules:
            if (admitted := self.hosts.admits(rule, slice(first, last))) is not None:
                roomy &= admitted
        rows = roomy.nonzero()[0] + first
        return rows[self._allowed(item.mask, rows)] if len(rows) else rows

    def has_room(self, mask: Mask, request: Floats) -> bool:
        """Return whether a row, or a node that the limits still allow, can take a unit, rules for hosts aside."""
        if (self._holding(mask, request) & self.limits.allows(len(self.catalog))).any():
            return True
        rows = np.flatnonzero((self.table.free[:, : self.table.count] >= request[:, None]).all(axis=0))
        return bool(len(rows) and self._allowed(mask, rows).any())

    def beyond_limits(self, mask: Mask, request: Floats) -> bool:
        """Return whether a node that the limits do not allow any more could take a unit."""
        return bool((self._holding(mask, request) & ~self.limits.allows(len(self.catalog))).any())

    def _holding(self, mask: Mask, request: Floats) -> Bools:
        """Return T: whether an empty node of the option can take a unit, rules for hosts aside."""
        holding: Bools = (self.catalog.allocatable >= request[:, None]).all(axis=0) & (mask.bits != 0)
        return holding

    def _missing(self, item: Item, rows: slice | Ints) -> Mapping[int, Floats]:
        """Return, by column, the attachments of the item's shared volumes that each of the rows lacks."""
        return self.shared.missing(item.shared, rows) if item.shared else {}

    def _allowed(self, mask: Mask, rows: Ints) -> Bools:
        """Return for each row (ascending) whether labels and taints let units of the mask onto it."""
        table = self.table
        existing = int(rows.searchsorted(table.existing)) if table.existing else 0
        planned = rows[existing:]
        allowed: Bools = (mask.bits[table.option[planned]] & table.offering_bits[planned]) != 0
        if mask.signature and allowed.any():
            allowed &= self.signatures.compatible(table.signature[planned], mask.signature)
        return allowed if not existing else np.concatenate([mask.existing[rows[:existing]], allowed])

    def _not_dearer(self, item: Item, rows: Ints, factor: float) -> Ints:
        """Return those of the rows (ascending) whose cheapest offering gets dearer by the factor at most."""
        if factor == np.inf or not len(rows):
            return rows
        table = self.table
        planned = rows[rows.searchsorted(table.existing) :]
        # Offering bits of the planned rows, before and after the item joins; only rows that lose some can get dearer.
        before, option = table.offering_bits[planned], table.option[planned]
        after = before & item.mask.bits[option]
        narrowed = (after != before).nonzero()[0]
        if not len(narrowed):
            return rows
        option = option[narrowed]
        price = self.catalog.cheapest(after[narrowed], option)
        dearer = price > factor * self.catalog.cheapest(before[narrowed], option)
        return np.delete(rows, len(rows) - len(planned) + narrowed[dearer]) if dearer.any() else rows

    def _fill(self, item: Item, rows: Ints) -> None:
        """Place as many units as fit on these rows, each of which has room for one at least, in their order."""
        rows = rows[: item.count]
        takes = self._room(item, rows)
        total = takes.cumsum()
        if total[-1] > item.count:
            takes = np.clip(item.count - (total - takes), 0, takes)
            used = takes > 0
            rows, takes = rows[used], takes[used]
        self.place(item, rows, takes)

    def _takes_all(self, item: Item, row: Ints) -> bool:
        """Return whether this row, which has room for one unit, has room for all that are left."""
        if item.count == 1:
            return True
        free, count = self.table.free[:, row[0]].tolist(), item.count
        for column, missing in self._missing(item, row).items():
            free[column] -= float(missing[0])
        for column, amount in item.asked:
            if free[column] < amount * count:
                return False
        for rule in item.rules:
            cap = self.hosts.cap(rule, row)
            if (cap if isinstance(cap, float) else float(cap[0])) < count:
                return False
        return True

    def _room(self, item: Item, rows: Ints) -> Floats:
        """Return for each row how many units of the item fit on it, at most all that are left."""
        room: Floats = np.full(len(rows), float(item.count))
        missing = self._missing(item, rows)
        for column, amount in item.asked:
            free = self.table.free[column, rows]
            np.minimum(room, (free - missing[column] if column in missing else free) / amount, out=room)
        np.floor(room, out=room)
        for rule in item.rules:
            np.minimum(room, self.hosts.cap(rule, rows), out=room)
        return room

    def place(self, item: Item, rows: Ints, counts: Floats) -> None:
        """Record `counts[i]` units on row `rows[i]`, and subtract what they use."""
        if len(rows) == 1:
            self._place_on(item, int(rows[0]), int(counts[0]))
            return
        table = self.table
        self._attach(item, rows)
        table.free[:, rows] -= item.request[:, None] * counts
        table.pods[rows] += counts.astype(np.int64)
        for rule in item.rules:
            self.hosts.add(rule, rows, counts)
        planned = rows[rows >= table.existing]
        table.offering_bits[planned] &= item.mask.bits[table.option[planned]]
        self._merge_signature(item, planned.tolist())
        self._record(item, rows.tolist(), counts.astype(np.int64).tolist())

    def _place_on(self, item: Item, row: int, units: int) -> None:
        """`place` for one row: the usual case, without arrays of one element."""
        table = self.table
        self._attach(item, np.array([row]))
        table.free[:, row] -= item.request if units == 1 else item.request * units
        table.pods[row] += units
        for rule in item.rules:
            self.hosts.add(rule, row, units)
        if row >= table.existing:
            table.offering_bits[row] &= item.mask.bits[table.option[row]]
            self._merge_signature(item, [row])
        self._record(item, [row], [units])

    def _attach(self, item: Item, rows: Ints) -> None:
        """Attach the item's shared volumes where they are not yet."""
        if item.shared:
            for column, missing in self._missing(item, rows).items():
                self.table.free[column, rows] -= missing
            self.shared.attach(item.shared, rows)

    def unplace(self, item: Item, row: int, units: int) -> None:
        """Free what units on a row use. Offerings and open labels stay narrow, shared volumes attached."""
        self.table.free[:, row] += item.request * units
        self.table.pods[row] -= units
        for rule in item.rules:
            self.hosts.add(rule, row, -units)

    def _merge_signature(self, item: Item, planned: list[int]) -> None:
        """Add the item's requirements on open labels to those of planned rows."""
        if item.mask.signature:
            for row in planned:
                self.table.signature[row] = self.signatures.merge(int(self.table.signature[row]), item.mask.signature)

    def _record(self, item: Item, rows: list[int], counts: list[int]) -> None:
        placed = sum(counts)
        item.count -= placed
        item.placed += placed
        self.placements.append(Placement(item, rows, counts))

    def _open_rows(self, item: Item, number: int, remaining: RemainingItems, last_limited: int) -> None:
        """Open new rows for the units left of item `number`, as far as node options and limits allow."""
        last = last_limited if number < last_limited and self._limited_only(item) else None
        while item.count:
            room = self._room_on_new(item)
            options = np.flatnonzero((room > 0) & self.limits.allows(len(room)))
            if not len(options):
                return
            option = int(
                options[np.argmin(self._scores(item, options, remaining.need(number, last), last is not None))]
            )
            each = int(room[option])
            copies = -(-item.count // each)
            if (allowed := self.limits.copies(int(self.catalog.pool_of[option]), option)) is not None:
                copies = min(copies, allowed)
            counts = np.full(copies, float(each))
            counts[-1] = min(each, item.count - each * (copies - 1))
            first = self.open_blank(option, copies)
            self.place(item, np.arange(first, first + copies), counts)
            remaining.left[number] = item.count

    def open_blank(self, option: int, copies: int) -> int:
        """Add empty rows of a node option and subtract them from its pool's limits; returns the first row."""
        catalog = self.catalog
        bits, signature = int(catalog.available[option]), int(self.signatures.base[option])
        first = self.table.open(option, catalog.allocatable[:, option], bits, signature, copies)
        self.hosts.grow(self.table.room)
        self.shared.grow(self.table.room)
        self.limits.spend(int(catalog.pool_of[option]), option, copies)
        return first

    def _room_on_new(self, item: Item) -> Floats:
        """Return T: how many of the units left an empty node holds; 0 where the mask forbids it."""
        most = min((self.hosts.empty_cap(rule) for rule in item.rules), default=np.inf)
        room: Floats = np.full(len(self.catalog), min(most, float(item.count)))
        shared = self.shared.on_empty(item.shared) if item.shared else {}
        for column, amount in item.asked:
            most_units = (self.catalog.allocatable[column] - shared.get(column, 0)) / amount
            np.minimum(room, most_units, out=room)
        np.floor(room, out=room)
        for column, count in shared.items():
            room[self.catalog.allocatable[column] < count] = 0
        room[item.mask.bits == 0] = 0
        return np.maximum(room, 0, out=room)

    def _scores(self, item: Item, options: Ints, need: Floats, limited: bool) -> Floats:
        """Return for each option of `options` the cost ($/hour) of holding `need` (R x T) in nodes of this option
        alone.

        limited: the share of limits that these nodes take comes first, and cost breaks ties.
        """
        price = self.catalog.cheapest(item.mask.bits[options], options) * self.premium[options]
        with np.errstate(divide="ignore", invalid="ignore"):
            nodes = np.nanmax(need[:, options] / self.catalog.allocatable[:, options], axis=0, initial=0.0)
        nodes = np.where(np.isfinite(nodes), np.maximum(np.ceil(nodes - 1e-9), 1.0), np.inf)
        scores = price * nodes
        if limited:
            scores = self.limits.shares(options, self.catalog.pool_of[options]) * nodes + 1e-6 * scores
        if not np.isfinite(scores).any():
            return price
        return np.asarray(scores, dtype=np.float64)


def weight_premiums(weights: Sequence[int], share: float | None) -> Floats:
    """Return for each Provisioner the factor on its prices that makes up for its lack of weight.

    1 for the heaviest, up to 1 + share for one without weight. With None, each lower weight costs 10,000 times as much
    as the next higher one, so that weight alone decides.
    """
    weight = np.array(weights, dtype=np.float64)
    heaviest = weight.max(initial=0.0)
    if heaviest <= 0:
        return np.ones(len(weight))
    if share is None:
        distinct = np.unique(weight)
        return np.asarray(1e4 ** (len(distinct) - 1.0 - np.searchsorted(distinct, weight)), dtype=np.float64)
    return np.asarray(1.0 + share * (1.0 - weight / heaviest), dtype=np.float64)
