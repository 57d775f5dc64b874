"""The bin packing problem of refinement: item types and the bins that they can go into, as arrays.

Topology domains stay as the first plan allocated them: an item's mask pins them, so rules over labels hold wherever its
units go. Rules over hosts remain: spread and anti-affinity over hosts become columns beside the resources, of which a
bin has some capacity and a unit takes some. Units with affinity to pods of the same host move together with them, as
one unit, or stay with them on an existing node; so do units with shared volumes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from controller.core.provisioning.optimize.bin_types import BinTypes, capacities, find_bin_types, find_limits
from controller.core.provisioning.optimize.covering import largest_shares
from controller.core.provisioning.optimize.fill import ItemArrays
from controller.core.provisioning.packing.items import Item
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.provisioning.topology.bundles import summed
from controller.core.provisioning.topology.groups import RuleKind, UnitRule
from controller.core.provisioning.topology.host_counts import HostCounts

SHORT = 150
"""Up to this many bin types, the shortlist is all of them."""
EACH = 6
"""Bin types on the shortlist for each item type: those where its share of the bin costs least."""
STEP = 2.0
"""Beside them the best bin type of every size, where a size is a range of prices within this factor."""
LEAN = 2
"""Existing nodes are grouped by how much more of each resource they have than of their scarcest, in powers of two up
to this one."""
MATCHED_ONLY = 1e-6
"""What a pod takes of the column of an anti-affinity that only matches it: any number fit where there is no owner."""


@dataclass(frozen=True, slots=True)
class Part:
    """`units` of an item in each unit of an item type."""

    item: Item
    units: int


@dataclass(frozen=True, slots=True)
class Access:
    """The bins that units may go into: offering bits per node option, flags per existing node, and their signature."""

    bits: Bits
    existing: Bools
    signature: int


@dataclass(slots=True)
class ItemType:
    """`count` equal units. parts: what one unit is made of. rules: over hosts.

    sources: the items that the units of a plain item type belong to, in order, with how many of each; empty for a unit
    of several pods that stay together.
    """

    parts: tuple[Part, ...]
    request: Floats
    access: Access
    rules: tuple[UnitRule, ...]
    count: int = 0
    sources: list[tuple[Item, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FixedPlacement:
    """Units that stay on the existing node where the first plan put them."""

    row: int
    item: Item
    units: int


@dataclass(frozen=True, slots=True)
class LPEstimate:
    """A linear program's optimum: its nodes, the size of the units placed, the columns of the host rules it counted."""

    nodes: float
    size: float
    columns: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class BinPackingProblem:
    """D item types and their bins, over W columns: `dense` resources, then one column per host rule.

    requests: D x W. counts: D units. Existing nodes are E bins: room E x W, open_to E x D. Bin types, B: capacity
    B x W, allowed B x D, price B ($/hour as the objective counts it: all that a node costs, and weight).
    unplaced: D units that the first plan left out. pinned: D, other pods' places may rest on these units, so that as
    many as before must be placed. dependent: D, the units can only go to new nodes of Provisioners with limits.
    first_plan: per row of the first plan, the item types on it and how many units of each.
    """

    def __init__(self, packer: Packer, extra: Sequence[Item], *, anew: bool = False) -> None:
        """`extra`: items with units that the first plan left out.

        anew: all units are those of `extra`, an item type for each item, and what the first plan placed does not count.
        """
        self.packer = packer
        self.catalog = packer.catalog
        self.item_types: list[ItemType] = []
        self.fixed: list[FixedPlacement] = []
        self._plain: dict[tuple[object, ...], int] = {}
        self.first_plan: dict[int, list[tuple[int, int]]] = defaultdict(list)
        if not anew:
            self._collect()
        waiting = [(self._add_plain(item, item.count, apart=anew), item.count) for item in extra if item.count]
        self.unplaced: Floats = np.zeros(len(self.item_types))
        for number, count in waiting:
            self.unplaced[number] += count
        self.pinned: Bools = np.array([_pinned(item_type) for item_type in self.item_types], dtype=np.bool_)
        self.counts: Floats = np.array([item_type.count for item_type in self.item_types], dtype=np.float64)

        self.dense = len(self.catalog.space)
        self.rules = self._columns()
        self.requests = self._requests()
        self.units = ItemArrays.of(self.requests, self.dense)
        total = self.counts @ self.requests[:, : self.dense]
        self.inverse_sum: Floats = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        """Per resource, one over what all units request together: turns amounts into shares of the whole."""
        self.sizes: Floats = self.requests[:, : self.dense] @ self.inverse_sum
        """D: the size of a unit, see `size`."""

        self.bin_types, self.allowed = self._bin_types()
        self.capacity = capacities(self.catalog, self.bin_types, [rule.group.key for rule in self.rules])
        self.price: Floats = self.bin_types.price * packer.premium[self.bin_types.option]
        self.room = self._room_existing()
        existing = [item_type.access.existing for item_type in self.item_types]
        self.existing: Bools = np.stack(existing, axis=1) if existing else np.zeros((len(self.room), 0), dtype=np.bool_)
        """E x D: whether labels and taints let a unit in; `open_to` says whether one fits, too."""
        self.open_to = self._fitting(self.existing, self.room)
        self.allowed = self._fitting(self.allowed, self.capacity)
        self.limits = find_limits(self.catalog, self.bin_types, len(self.bin_types))
        self.dependent = self._dependent()
        kinds: dict[tuple[bytes, bytes], int] = {}
        accesses = [item_type.access for item_type in self.item_types]
        self.kinds: Ints = np.array(
            [kinds.setdefault((each.bits.tobytes(), each.existing.tobytes()), len(kinds)) for each in accesses],
            dtype=np.int64,
        )
        """D: equal numbers for item types that labels and taints let into the same bins."""

        self.start: Ints | None = None
        """Bins, as places in the shortlist, that the last linear program used: the next one starts with them."""
        self.lp_bound = 0.0
        """$/hour that no packing of all units costs less than: the optimum of the first linear program, or the bound of
        units that are all equal; 0 before that was solved."""
        self.lp_estimates: list[LPEstimate] = []
        """Of the first linear program, which has no host rules, and of the last."""

    def _collect(self) -> None:
        """Make item types of the first plan's placements, row by row."""
        by_row: dict[int, list[tuple[Item, int]]] = defaultdict(list)
        for row, item, count in _placed(self.packer):
            if count:
                by_row[row].append((item, count))
        for row, held in sorted(by_row.items()):
            together = _together(held)
            for item, count in held:
                if id(item) not in together:
                    self.first_plan[row].append((self._add_plain(item, count), count))
            bound = [(item, count) for item, count in held if id(item) in together]
            if bound and row < self.packer.table.existing:
                self.fixed.extend(FixedPlacement(row, item, count) for item, count in bound)
            elif bound:
                self.first_plan[row].append((len(self.item_types), 1))
                self._add_colocated(bound)

    def _add_plain(self, item: Item, count: int, *, apart: bool = False) -> int:
        """Add units that depend on no others; return the number of their item type, `apart` from those of others."""
        key: tuple[object, ...] = (id(item),)
        if not apart:
            key = (item.mask.index, item.request.tobytes(), tuple(rule.identity for rule in item.rules))
        number = self._plain.setdefault(key, len(self.item_types))
        if number == len(self.item_types):
            access = Access(item.mask.bits, item.mask.existing, item.mask.signature)
            self.item_types.append(ItemType((Part(item, 1),), item.request, access, item.rules))
        item_type = self.item_types[number]
        item_type.count += count
        if item_type.sources and item_type.sources[-1][0] is item:
            item_type.sources[-1] = (item, item_type.sources[-1][1] + count)
        else:
            item_type.sources.append((item, count))
        return number

    def _add_colocated(self, held: list[tuple[Item, int]]) -> None:
        """Add all units of a new node that must stay together, as one unit, which only new nodes let in."""
        masks = [item.mask for item, _ in held]
        signature = 0
        for mask in masks:
            signature = self.packer.signatures.merge(signature, mask.signature)
        bits = np.bitwise_and.reduce([mask.bits for mask in masks])
        # Affinity over hosts is left out: the unit brings the pods that it asks for.
        pairs = ((rule, count) for item, count in held for rule in item.rules)
        rules = summed((rule, count) for rule, count in pairs if rule.group.key.kind is not RuleKind.AFFINITY)
        self.item_types.append(
            ItemType(
                parts=tuple(Part(item, count) for item, count in held),
                request=self._request_of(held),
                access=Access(bits, np.zeros_like(masks[0].existing), signature),
                rules=tuple(rules),
                count=1,
            )
        )

    def _request_of(self, held: list[tuple[Item, int]]) -> Floats:
        """Return what units that stay together request, each volume that they share once."""
        request: Floats = np.sum([item.request * count for item, count in held], axis=0)
        for column, count in self.packer.shared.on_empty(
            {volume for item, _ in held for volume in item.shared}
        ).items():
            request[column] += count
        return request

    def _columns(self) -> list[UnitRule]:
        """Return the host rules that some item type takes of, one for each column beside the resources."""
        rules: dict[int, UnitRule] = {}
        for item_type in self.item_types:
            for rule in item_type.rules:
                if _takes(rule) > 0:
                    rules.setdefault(rule.group.index, rule)
        return list(rules.values())

    def _requests(self) -> Floats:
        """Return D x W: resources, then what a unit takes of each host rule."""
        column = {rule.group.index: self.dense + place for place, rule in enumerate(self.rules)}
        requests = np.zeros((len(self.item_types), self.dense + len(self.rules)))
        for number, item_type in enumerate(self.item_types):
            requests[number, : self.dense] = item_type.request
            for rule in item_type.rules:
                if rule.group.index in column:
                    requests[number, column[rule.group.index]] = _takes(rule)
        return requests

    def _dependent(self) -> Bools:
        unlimited = np.ones(len(self.bin_types), dtype=np.bool_)
        for limit in self.limits:
            unlimited &= limit.takes <= 0
        independent = self.allowed[unlimited].any(axis=0) | self.open_to.any(axis=0)
        return np.asarray(~independent & self.allowed.any(axis=0), dtype=np.bool_)

    @cached_property
    def shortlist(self) -> Ints:
        """Return for each item type the bin types where a unit's share of the bin costs least,
        in all and of every size."""
        if len(self.bin_types) <= SHORT or not len(self.item_types):
            return np.arange(len(self.bin_types))
        shares = largest_shares(self.requests[:, : self.dense], self.capacity[:, : self.dense])
        cost = np.full(shares.shape, np.inf)
        np.multiply(shares, self.price[:, None], out=cost, where=self.allowed)
        step = np.floor(np.log(np.maximum(self.price, 1e-6)) / np.log(STEP)).astype(np.int64)
        best = [_cheapest(cost, np.arange(len(cost)), EACH)]
        best += [_cheapest(cost, np.flatnonzero(step == one), 1) for one in np.unique(step).tolist()]
        return np.unique(np.concatenate(best))

    def size(self, counts: Floats) -> float:
        """Return the size of these counts (D): their share of all requests, summed over resources."""
        return float(counts @ self.requests[:, : self.dense] @ self.inverse_sum)

    def nodes_by_host_rule(self, counts: Floats) -> Floats:
        """Return for each host rule the new nodes that these counts (D) need."""
        if not len(self.capacity):
            return np.zeros(len(self.rules))
        takes = counts @ self.requests[:, self.dense :]
        return np.asarray(takes / np.maximum(self.capacity[0, self.dense :], 1.0))

    def existing_groups(self, rows: Ints) -> list[Ints]:
        """Group these existing nodes by the item types they let in and by their scarcest resource: bins of the
        program."""
        # shares: E x dense, free room as a part of what all units request; lean: in powers of two of the scarcest.
        shares = self.room[:, : self.dense] * self.inverse_sum
        leanest = np.maximum(np.where(self.inverse_sum > 0, shares, np.inf).min(axis=1, keepdims=True), 1e-12)
        lean = np.clip(np.round(np.log2(np.maximum(shares, 1e-12) / leanest)), 0, LEAN).astype(np.int8)
        groups: dict[bytes, list[int]] = defaultdict(list)
        for row in rows[self.open_to[rows].any(axis=1)].tolist():
            groups[self.existing[row].tobytes() + lean[row].tobytes()].append(row)
        return [np.array(rows, dtype=np.int64) for rows in groups.values()]

    def _fitting(self, allowed: Bools, capacity: Floats) -> Bools:
        """Return bins x D flags: of the pairs that are allowed those where the bin (capacity:
        bins x W) holds one unit."""
        fitting = allowed.copy()
        for column in range(self.requests.shape[1]):
            asked = np.flatnonzero(self.requests[:, column] > capacity[:, column].min(initial=np.inf))
            if len(asked):
                fitting[:, asked] &= self.requests[asked, column] <= capacity[:, column, None]
        return fitting

    def _bin_types(self) -> tuple[BinTypes, Bools]:
        """Return the bin types, and B x D, the item types that each lets in.

        Where item types settle labels that Provisioners leave open, there is a copy of a bin type for each signature.
        """
        masks: dict[bytes, int] = {}
        mask_of = [masks.setdefault(each.access.bits.tobytes(), len(masks)) for each in self.item_types]
        bits = [np.frombuffer(key, dtype=np.uint64) for key in masks]
        bin_types = find_bin_types(self.catalog, bits, by_zone=False)
        let_in = bin_types.allowed[:, mask_of] if mask_of else np.zeros((len(bin_types), 0), dtype=np.bool_)
        signatures = np.array([each.access.signature for each in self.item_types], dtype=np.int64)
        rows, allowed = [], []
        for signature in sorted(set(signatures.tolist()) | {0}):
            compatible = let_in & np.isin(signatures, (0, signature))
            useful = (compatible & (signatures == signature)).any(axis=1)
            rows.append(np.flatnonzero(useful) if signature else np.arange(len(bin_types)))
            allowed.append(compatible[rows[-1]])
        return bin_types.some(np.concatenate(rows)), np.concatenate(allowed)

    def _room_existing(self) -> Floats:
        """Return E x W: what is free on existing nodes without the plan's units, except those that stay fixed there."""
        hosts, count = self.packer.hosts, self.packer.table.existing
        free = free_without_plan(self.packer)
        moves = [(row, item, units) for row, item, units in _placed(self.packer) if row < count]
        for fixed in self.fixed:
            free[:, fixed.row] -= fixed.item.request * fixed.units
            moves.append((fixed.row, fixed.item, -fixed.units))

        # planned: per host rule, the matched pods and the owners (2 x E) that the plan's moving units are.
        planned = {rule.group.index: np.zeros((2, count)) for rule in self.rules}
        for row, item, units in moves:
            for rule in item.rules:
                if rule.group.index in planned:
                    planned[rule.group.index][:, row] += (rule.matched * units, rule.owned * units)
        columns = [np.maximum(free, 0.0)]
        for rule in self.rules:
            matched, owners = hosts.counts(rule.group.index, count) - planned[rule.group.index]
            if rule.group.key.kind is RuleKind.ANTI_AFFINITY:
                room = np.where((matched > 0) | (owners > 0), 0.0, 1.0)
            else:
                room = np.maximum(0.0, rule.group.key.max_skew - matched)
            columns.append(room[None, :])
        return np.ascontiguousarray(np.concatenate(columns).T)


def free_without_plan(packer: Packer) -> Floats:
    """Return R x E: what is free on existing nodes without the units of the plan."""
    free: Floats = packer.table.free[:, : packer.table.existing].copy()
    for row, item, units in _placed(packer):
        if row < packer.table.existing:
            free[:, row] += item.request * units
    return free


def hosts_without_plan(packer: Packer, room: int) -> HostCounts:
    """Return the host counts of the existing nodes without the units of the plan, with room for `room` rows."""
    existing = packer.table.existing
    hosts = packer.hosts.of_existing(existing, room)
    for row, item, units in _placed(packer):
        if row < existing:
            for rule in item.rules:
                hosts.add(rule, row, -units)
    return hosts


def _placed(packer: Packer) -> Iterable[tuple[int, Item, int]]:
    """Yield every placement as (row, item, units)."""
    for placement in packer.placements:
        for row, units in zip(placement.rows, placement.counts, strict=True):
            yield row, placement.item, units


def _together(held: Iterable[tuple[Item, int]]) -> set[int]:
    """Return the ids of items of a row that must stay together.

    Those with a host affinity, and those that it matches; those with shared volumes, whose attachments are then theirs.
    """
    sharing = {id(d) for d, _ in held if d.shared}
    asked = {r.group.index for d, _ in held for r in d.rules if r.group.key.kind is RuleKind.AFFINITY and r.obeys}
    return sharing | {id(d) for d, _ in held if any(r.group.index in asked for r in d.rules)} if asked else sharing


def _pinned(item_type: ItemType) -> bool:
    """Return whether topology counts the units: they have a domain or rules of their own."""
    item = item_type.parts[0].item
    return any(allocation.domain is not None for allocation in item.allocations) or bool(item.rules)


def _cheapest(cost: Floats, rows: Ints, each: int) -> Ints:
    """Return the bin types of `rows` that are, for some item type, among the `each` cheapest. cost: B x D, $/hour."""
    some = cost[rows]
    if each == 1 or len(rows) <= each:
        best = np.argmin(some, axis=0)[None, :] if each == 1 else np.argsort(some, axis=0, kind="stable")
    else:
        best = np.argpartition(some, each - 1, axis=0)[:each]
    return np.asarray(rows[np.unique(best[np.isfinite(np.take_along_axis(some, best, axis=0))])])


def _takes(rule: UnitRule) -> float:
    """Return what a unit takes of the column of a host rule."""
    kind = rule.group.key.kind
    if kind is RuleKind.SPREAD:
        return float(rule.matched) if rule.obeys or rule.group.required else 0.0
    if kind is RuleKind.ANTI_AFFINITY:
        return 1.0 if rule.obeys or rule.owned else MATCHED_ONLY * bool(rule.matched)
    return 0.0
