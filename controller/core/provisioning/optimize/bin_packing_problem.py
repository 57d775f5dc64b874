"""The bin packing problem of refinement: item types and the bins that they can go into, as arrays.

Topology domains stay as the first plan allocated them: an item's mask pins them, so rules over labels hold wherever its
units go. Rules over hosts remain. Spread and anti-affinity over hosts become columns beside the resources: a bin has a
capacity of the rule, a unit takes some of it. Units with affinity to pods of the same host move together with them, as
one unit, or stay with them on an existing node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.core.provisioning.offerings.compiled_catalog import CompiledCatalog
from controller.core.provisioning.offerings.mask_compiler import Mask
from controller.core.provisioning.optimize.bin_types import BinTypes, find_bin_types, find_limits
from controller.core.provisioning.optimize.fill import ItemArrays
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.provisioning.topology.bundles import UnitRule
from controller.core.provisioning.topology.groups import RuleKind

SHORT = 150
"""Up to this many bin types, the shortlist is all of them."""
EACH = 6
"""Bin types on the shortlist for each item type: those where its share of the bin costs least."""
STEP = 2.0
"""Beside them the best bin type of every size: a size is a range of prices within this factor."""
LEAN = 2
"""Existing rows are grouped by how much more of each resource they have than of their scarcest, in powers of two up
to this one."""
MATCHED_ONLY = 1e-6
"""What a pod takes of the column of an anti-affinity that only matches it: any number fit beside no owner."""


@dataclass(frozen=True, slots=True)
class Part:
    """`units` of an item in each unit of an item type."""

    item: Item
    units: int


@dataclass(slots=True)
class ItemType:
    """`count` equal units. parts: what one unit is made of. A plain item type draws on several items, in order."""

    parts: tuple[Part, ...]
    count: int
    request: Floats
    bits: Bits
    existing: Bools
    signature: int
    rules: tuple[UnitRule, ...]
    sources: list[tuple[Item, int]]
    """For a plain item type: the items that its units belong to, and how many of each."""


@dataclass(frozen=True, slots=True)
class FixedPlacement:
    """Units that stay on the existing row where the first plan put them."""

    row: int
    item: Item
    units: int


@dataclass(frozen=True, slots=True)
class LPEstimate:
    """An optimum of the linear program: its number of nodes, the size of what it placed, the host rules it counted."""

    nodes: float
    size: float
    columns: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class BinPackingProblem:
    """D item types and their bins, over W columns: the resources, then one column per host rule.

    requests: D x W. counts: D. Existing nodes are E bins: room E x W, open_to E x D. Bin types, B: capacity B x W,
    allowed B x D, price B ($/hour as the objective counts it: with weight premium and node cost).
    """

    def __init__(self, packer: Packer, extra: Sequence[Item]) -> None:
        self.packer = packer
        self.catalog: CompiledCatalog = packer.catalog
        self.item_types: list[ItemType] = []
        self.fixed: list[FixedPlacement] = []
        self._plain: dict[tuple[object, ...], int] = {}
        self.first_plan: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """Per row of the first plan, the item types on it and how many units of each."""
        self._collect()
        waiting = [(self._add_plain(item, item.count), item.count) for item in extra if item.count]
        self.unplaced: Floats = np.zeros(len(self.item_types))
        """D: units that the first plan left out, of item types that it placed units of or not."""
        for number, count in waiting:
            self.unplaced[number] += count
        self.pinned: Bools = np.array([_pinned(item_type) for item_type in self.item_types], dtype=np.bool_)
        """D: other pods' places may rest on those of these units, so as many as before must be placed."""
        self.counts: Floats = np.array([item_type.count for item_type in self.item_types], dtype=np.float64)
        self._find_columns()
        self._find_all_bins()
        self._find_existing()
        self.limits = find_limits(self.catalog, self.bin_types, len(self.bin_types))
        self.dense = len(self.catalog.space)
        self.units = ItemArrays(self.requests, self.dense)
        self.shortlist = self._shorten()
        self.dependent: Bools = self._find_dependent()
        """D: whether the units can only go to new nodes of Provisioners with limits."""
        self.start: Ints | None = None
        """Bins, as places in the shortlist, that the last linear program used: the next one starts with them."""
        total = self.counts @ self.requests[:, : self.dense]
        self.inverse_sum: Floats = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        """Per resource, one over what all units ask for together: turns amounts into shares of the whole."""
        self.lp_bound = 0.0
        """$/hour: the optimum of the first linear program, which is over all units; 0 before it was solved."""
        self.lp_estimates: list[LPEstimate] = []
        """Of the first linear program, which has no host rules, and of the last."""
        kinds: dict[tuple[bytes, bytes], int] = {}
        named = [
            kinds.setdefault((item_type.bits.tobytes(), item_type.existing.tobytes()), len(kinds))
            for item_type in self.item_types
        ]
        self.kinds: Ints = np.array(named, dtype=np.int64)
        """D: equal numbers for item types that labels and taints let into the same bins."""

    def _collect(self) -> None:
        by_row: dict[int, list[tuple[Item, int]]] = defaultdict(list)
        for placement in self.packer.placements:
            for row, count in zip(placement.rows, placement.counts, strict=True):
                if count:
                    by_row[row].append((placement.item, count))
        for row, held in sorted(by_row.items()):
            together = self._together(held)
            for item, count in held:
                if id(item) not in together:
                    self.first_plan[row].append((self._add_plain(item, count), count))
            bound = [(item, count) for item, count in held if id(item) in together]
            if bound and row < self.packer.table.existing:
                self.fixed.extend(FixedPlacement(row, item, count) for item, count in bound)
            elif bound:
                self.first_plan[row].append((len(self.item_types), 1))
                self._add_cluster(bound)

    def _together(self, held: Iterable[tuple[Item, int]]) -> set[int]:
        """The items of a row that must stay together: those with a host affinity, and those that it matches."""
        asked = {r.group.index for d, _ in held for r in d.rules if r.group.key.kind is RuleKind.AFFINITY and r.obeys}
        if not asked:
            return set()
        return {id(d) for d, _ in held if any(r.group.index in asked for r in d.rules)}

    def _add_plain(self, item: Item, count: int) -> int:
        """Add units that depend on no others; the number of their item type."""
        key = (item.mask.index, item.request.tobytes(), tuple(rule.identity for rule in item.rules))
        number = self._plain.setdefault(key, len(self.item_types))
        if number == len(self.item_types):
            mask = item.mask
            self.item_types.append(
                ItemType((Part(item, 1),), 0, item.request, mask.bits, mask.existing, mask.signature, item.rules, [])
            )
        item_type = self.item_types[number]
        item_type.count += count
        if item_type.sources and item_type.sources[-1][0] is item:
            item_type.sources[-1] = (item, item_type.sources[-1][1] + count)
        else:
            item_type.sources.append((item, count))
        return number

    def _add_cluster(self, held: list[tuple[Item, int]]) -> None:
        masks: list[Mask] = [item.mask for item, _ in held]
        signature = 0
        for mask in masks:
            signature = self.packer.signatures.merge(signature, mask.signature)
        self.item_types.append(
            ItemType(
                parts=tuple(Part(item, count) for item, count in held),
                count=1,
                request=np.sum([item.request * count for item, count in held], axis=0),
                bits=np.bitwise_and.reduce([mask.bits for mask in masks]),
                existing=np.zeros_like(masks[0].existing),
                signature=signature,
                rules=_joined_rules(held),
                sources=[],
            )
        )

    def _find_columns(self) -> None:
        """Give every host rule that some item type takes of a column."""
        found: dict[int, UnitRule] = {}
        for item_type in self.item_types:
            for rule in item_type.rules:
                if _taken(rule) > 0:
                    found.setdefault(rule.group.index, rule)
        self.rules = list(found.values())
        width = len(self.catalog.space)
        place = {index: width + number for number, index in enumerate(found)}
        self.requests: Floats = np.zeros((len(self.item_types), width + len(found)))
        for number, item_type in enumerate(self.item_types):
            self.requests[number, :width] = item_type.request
            for rule in item_type.rules:
                if rule.group.index in place:
                    self.requests[number, place[rule.group.index]] = _taken(rule)

    def _find_all_bins(self) -> None:
        catalog = self.catalog
        self.bin_types, self.signatures, self.allowed = self._bin_types()
        option = self.bin_types.option
        caps = np.array([_cap(rule) for rule in self.rules])
        own = np.maximum(catalog.allocatable[:, option].T, 0.0)
        self.capacity: Floats = np.concatenate([own, np.broadcast_to(caps, (len(option), len(caps)))], axis=1)
        self.price: Floats = self.bin_types.price * self.packer.premium[option] + self.packer.options.node_cost_per_hour
        self._fit(self.allowed, self.capacity)

    def _find_existing(self) -> None:
        self.room = self._room_existing()
        here = [item_type.existing for item_type in self.item_types]
        self.open_to: Bools = np.stack(here, axis=1) if here else np.zeros((len(self.room), 0), dtype=np.bool_)
        self._fit(self.open_to, self.room)

    def _find_dependent(self) -> Bools:
        unlimited = np.ones(len(self.bin_types), dtype=np.bool_)
        for limit in self.limits:
            unlimited &= limit.takes <= 0
        free = self.allowed[unlimited].any(axis=0) | self.open_to.any(axis=0)
        return np.asarray(~free & self.allowed.any(axis=0), dtype=np.bool_)

    def _shorten(self) -> Ints:
        """The shortlist: for each item type the bin types where its share costs least, in all and of every size."""
        if len(self.bin_types) <= SHORT or not len(self.item_types):
            return np.arange(len(self.bin_types))
        own = self.capacity[:, : self.dense]
        inverse = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0)
        shares = np.zeros(self.allowed.shape)
        for column in range(self.dense):
            np.maximum(shares, inverse[:, column, None] * self.requests[:, column], out=shares)
        cost = np.where(self.allowed, shares * self.price[:, None], np.inf)
        step = np.floor(np.log(np.maximum(self.price, 1e-6)) / np.log(STEP)).astype(np.int64)
        found = [_cheapest(cost, np.arange(len(cost)), EACH)]
        found += [_cheapest(cost, np.flatnonzero(step == one), 1) for one in np.unique(step).tolist()]
        return np.unique(np.concatenate(found))

    def size(self, counts: Floats) -> float:
        """The size of these counts (D): their share of all requests, summed over resources."""
        return float(counts @ self.requests[:, : self.dense] @ self.inverse_sum)

    def existing_groups(self) -> list[Ints]:
        """Existing rows grouped by the item types they let in and by their scarcest resource: bins of the program."""
        found: dict[bytes, list[int]] = defaultdict(list)
        here = np.stack([item_type.existing for item_type in self.item_types], axis=1)
        shares = self.room[:, : self.dense] * self.inverse_sum
        leanest = np.maximum(np.where(self.inverse_sum > 0, shares, np.inf).min(axis=1, keepdims=True), 1e-12)
        lean = np.clip(np.round(np.log2(np.maximum(shares, 1e-12) / leanest)), 0, LEAN).astype(np.int8)
        for row in np.flatnonzero(self.open_to.any(axis=1)).tolist():
            found[here[row].tobytes() + lean[row].tobytes()].append(row)
        return [np.array(rows, dtype=np.int64) for rows in found.values()]

    def _fit(self, allowed: Bools, capacity: Floats) -> None:
        """Rule out bins that are too small for one unit."""
        for column in range(self.requests.shape[1]):
            asked = np.flatnonzero(self.requests[:, column] > capacity[:, column].min(initial=np.inf))
            if len(asked):
                allowed[:, asked] &= self.requests[asked, column] <= capacity[:, column, None]

    def _bin_types(self) -> tuple[BinTypes, Ints, Bools]:
        """The bin types; where item types settle labels that Provisioners leave open, one copy for each signature."""
        masks: dict[bytes, int] = {}
        mask_of = [masks.setdefault(item_type.bits.tobytes(), len(masks)) for item_type in self.item_types]
        bits = [np.frombuffer(key, dtype=np.uint64) for key in masks]
        bin_types = find_bin_types(self.catalog, bits, by_zone=False)
        lets_in = bin_types.allowed[:, mask_of] if mask_of else np.zeros((len(bin_types), 0), dtype=np.bool_)
        signatures = np.array([item_type.signature for item_type in self.item_types], dtype=np.int64)
        kinds = sorted(set(signatures.tolist()) | {0})
        if len(kinds) == 1:
            return bin_types, np.zeros(len(bin_types), dtype=np.int64), lets_in
        picked, signature, tables = [], [], []
        for kind in kinds:
            fine = lets_in & np.isin(signatures, (0, kind))
            useful = np.flatnonzero((fine & (signatures == kind)).any(axis=1)) if kind else np.arange(len(bin_types))
            picked.append(useful)
            signature.append(np.full(len(useful), kind, dtype=np.int64))
            tables.append(fine[useful])
        rows = np.concatenate(picked)
        again = BinTypes(
            bin_types.option[rows],
            bin_types.offering_key[rows],
            bin_types.price[rows],
            bin_types.zone[rows],
            bin_types.allowed[rows],
            bin_types.zones,
        )
        return again, np.concatenate(signature), np.concatenate(tables)

    def _room_existing(self) -> Floats:
        """E x W: what is free on existing rows without the plan's units, except those that stay fixed there."""
        table, hosts = self.packer.table, self.packer.hosts
        count = table.existing
        free = table.free[:, :count].copy()
        planned = {rule.group.index: (np.zeros(count), np.zeros(count)) for rule in self.rules}
        stays = [(one.row, one.item, -one.units) for one in self.fixed]
        moves = [
            (row, placement.item, units)
            for placement in self.packer.placements
            for row, units in zip(placement.rows, placement.counts, strict=True)
            if row < count
        ]
        for row, item, units in (*moves, *stays):
            free[:, row] += item.request * units
            for rule in item.rules:
                if rule.group.index in planned:
                    planned[rule.group.index][0][row] += rule.matched * units
                    planned[rule.group.index][1][row] += rule.owned * units
        columns = [np.maximum(free, 0.0)]
        for rule in self.rules:
            matched, owners = hosts.counts(rule.group.index, count)
            there, owning = matched - planned[rule.group.index][0], owners - planned[rule.group.index][1]
            if rule.group.key.kind is RuleKind.ANTI_AFFINITY:
                room = np.where((there > 0) | (owning > 0), 0.0, 1.0)
            else:
                room = np.maximum(0.0, rule.group.key.max_skew - there)
            columns.append(room[None, :])
        return np.ascontiguousarray(np.concatenate(columns).T)


def _pinned(item_type: ItemType) -> bool:
    """Whether topology counts the units: they have a domain or rules of their own."""
    item = item_type.parts[0].item
    return any(allocation.domain is not None for allocation in item.allocations) or bool(item.rules)


def _cheapest(cost: Floats, rows: Ints, each: int) -> Ints:
    """Of these bin types, for each item type the `each` that cost least. cost: B x D."""
    some = cost[rows]
    if each == 1 or len(rows) <= each:
        best = np.argmin(some, axis=0)[None, :] if each == 1 else np.argsort(some, axis=0, kind="stable")
    else:
        best = np.argpartition(some, each - 1, axis=0)[:each]
    return np.asarray(rows[np.unique(best[np.isfinite(np.take_along_axis(some, best, axis=0))])])


def _taken(rule: UnitRule) -> float:
    """What a unit takes of the column of a host rule."""
    kind = rule.group.key.kind
    if kind is RuleKind.SPREAD:
        return float(rule.matched) if rule.obeys or rule.group.required else 0.0
    if kind is RuleKind.ANTI_AFFINITY:
        return 1.0 if rule.obeys or rule.owned else MATCHED_ONLY * bool(rule.matched)
    return 0.0


def _cap(rule: UnitRule) -> float:
    return 1.0 if rule.group.key.kind is RuleKind.ANTI_AFFINITY else float(rule.group.key.max_skew)


def _joined_rules(held: list[tuple[Item, int]]) -> tuple[UnitRule, ...]:
    """The rules of items that stay together, without affinity over hosts: the unit brings what it asks for."""
    groups: dict[int, UnitRule] = {}
    for item, count in held:
        for rule in item.rules:
            if rule.group.key.kind is RuleKind.AFFINITY:
                continue
            known = groups.get(rule.group.index)
            matched, owned = rule.matched * count, rule.owned * count
            groups[rule.group.index] = UnitRule(
                rule.group,
                matched + (known.matched if known else 0),
                owned + (known.owned if known else 0),
                rule.obeys or (known is not None and known.obeys),
            )
    return tuple(groups.values())
