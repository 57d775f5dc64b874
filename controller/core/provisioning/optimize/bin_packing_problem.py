"""What refinement may move: the units of a first plan as lots, and the bins that they can go into.

Zones and other domains of topology stay as they were dealt out (an item's mask pins them), so every rule over labels
holds wherever a lot goes. What is left are rules over hosts. Spread and anti-affinity over hosts become columns beside
the resources: a row has so much of a rule, a unit takes so much of it. Units with affinity to a host's pods move
together with those pods, as one cluster, or stay with them on a node that exists.
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
"""Up to so many offers are all looked at."""
EACH = 6
"""Where there are more: how many for each lot, those where its share of the node costs least."""
STEP = 2.0
"""And the best one of every size: those whose prices are within this factor of each other."""
LEAN = 2
"""Existing rows are told apart by what they have more of than of their scarcest resource: two times, four, or more."""
MATCHED_ONLY = 1e-6
"""What a pod that some anti-affinity merely matches takes of the rule's column: any number fit where no owner is."""


@dataclass(frozen=True, slots=True)
class Part:
    """`units` of an item in every unit of a lot."""

    item: Item
    units: int


@dataclass(slots=True)
class ItemType:
    """`count` units that are alike. parts: of one unit. A plain lot draws on several items, one after the other."""

    parts: tuple[Part, ...]
    count: int
    request: Floats
    bits: Bits
    existing: Bools
    signature: int
    rules: tuple[UnitRule, ...]
    sources: list[tuple[Item, int]]
    """Of a plain lot: the items that its units are of, and how many of each."""


@dataclass(frozen=True, slots=True)
class FixedPlacement:
    """Units that stay on the existing row where the first plan put them."""

    row: int
    item: Item
    units: int


@dataclass(frozen=True, slots=True)
class LPEstimate:
    """A divisible optimum's nodes, for how much there was to place, and the columns of host rules that it counted."""

    nodes: float
    size: float
    columns: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class BinPackingProblem:
    """Lots and the bins for them, as arrays.

    requests: D x W, the resources first, then a column per host rule. counts: D. Bins are the existing rows (room
    E x W, open_to E x D), and the offers: capacity B x W, price B (what the objective counts, $/hour), allowed B x D.
    """

    def __init__(self, packer: Packer, extra: Sequence[Item]) -> None:
        self.packer = packer
        self.catalog: CompiledCatalog = packer.catalog
        self.lots: list[ItemType] = []
        self.frozen: list[FixedPlacement] = []
        self._plain: dict[tuple[object, ...], int] = {}
        self.stands: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """Per row of the first plan, the lots on it, and how many units of each."""
        self._collect()
        for item in extra:
            if item.count:
                self._add_plain(item, item.count)
        self.counts: Floats = np.array([lot.count for lot in self.lots], dtype=np.float64)
        self._find_columns()
        self._find_offers()
        self._find_existing()
        self.limits = find_limits(self.catalog, self.offers, len(self.offers))
        self.dense = len(self.catalog.space)
        self.units = ItemArrays(self.requests, self.dense)
        self.shortlist = self._shorten()
        self.dependent: Bools = self._find_dependent()
        """Per lot: it can only go to new nodes, all of them of Provisioners with limits."""
        self.start: Ints | None = None
        """Bins (places in the shortlist) that the last divisible optimum used."""
        total = self.counts @ self.requests[:, : self.dense]
        self.inverse_sum: Floats = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        """Per resource, one over what all lots ask for together: by it, parts of the whole are told."""
        self.floor = 0.0
        """$/hour: the divisible optimum of all lots, the first that was asked for."""
        self.pressing: list[LPEstimate] = []
        """Of the first divisible optimum, host rules left out, and of the last."""
        kinds: dict[tuple[bytes, bytes], int] = {}
        named = [kinds.setdefault((lot.bits.tobytes(), lot.existing.tobytes()), len(kinds)) for lot in self.lots]
        self.kinds: Ints = np.array(named, dtype=np.int64)
        """Per lot: equal for those that labels and taints let into the same bins."""

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
                    self.stands[row].append((self._add_plain(item, count), count))
            bound = [(item, count) for item, count in held if id(item) in together]
            if bound and row < self.packer.table.existing:
                self.frozen.extend(FixedPlacement(row, item, count) for item, count in bound)
            elif bound:
                self.stands[row].append((len(self.lots), 1))
                self._add_cluster(bound)

    def _together(self, held: Iterable[tuple[Item, int]]) -> set[int]:
        """The items on a row that one needs the other of: those with a host affinity, and what it matches there."""
        asked = {r.group.index for d, _ in held for r in d.rules if r.group.key.kind is RuleKind.AFFINITY and r.obeys}
        if not asked:
            return set()
        return {id(d) for d, _ in held if any(r.group.index in asked for r in d.rules)}

    def _add_plain(self, item: Item, count: int) -> int:
        """Units that depend on no other; the number of their lot."""
        key = (item.mask.index, item.request.tobytes(), tuple(rule.identity for rule in item.rules))
        number = self._plain.setdefault(key, len(self.lots))
        if number == len(self.lots):
            mask = item.mask
            self.lots.append(
                ItemType((Part(item, 1),), 0, item.request, mask.bits, mask.existing, mask.signature, item.rules, [])
            )
        lot = self.lots[number]
        lot.count += count
        if lot.sources and lot.sources[-1][0] is item:
            lot.sources[-1] = (item, lot.sources[-1][1] + count)
        else:
            lot.sources.append((item, count))
        return number

    def _add_cluster(self, held: list[tuple[Item, int]]) -> None:
        masks: list[Mask] = [item.mask for item, _ in held]
        signature = 0
        for mask in masks:
            signature = self.packer.signatures.merge(signature, mask.signature)
        self.lots.append(
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
        """A column for every host rule that some lot takes of."""
        found: dict[int, UnitRule] = {}
        for lot in self.lots:
            for rule in lot.rules:
                if _taken(rule) > 0:
                    found.setdefault(rule.group.index, rule)
        self.rules = list(found.values())
        width = len(self.catalog.space)
        place = {index: width + number for number, index in enumerate(found)}
        self.requests: Floats = np.zeros((len(self.lots), width + len(found)))
        for number, lot in enumerate(self.lots):
            self.requests[number, :width] = lot.request
            for rule in lot.rules:
                if rule.group.index in place:
                    self.requests[number, place[rule.group.index]] = _taken(rule)

    def _find_offers(self) -> None:
        catalog = self.catalog
        self.offers, self.signatures, self.allowed = self._offers()
        option = self.offers.option
        caps = np.array([_cap(rule) for rule in self.rules])
        own = np.maximum(catalog.allocatable[:, option].T, 0.0)
        self.capacity: Floats = np.concatenate([own, np.broadcast_to(caps, (len(option), len(caps)))], axis=1)
        self.price: Floats = self.offers.price * self.packer.premium[option] + self.packer.options.node_cost_per_hour
        self._fit(self.allowed, self.capacity)

    def _find_existing(self) -> None:
        self.room = self._room_existing()
        here = [lot.existing for lot in self.lots]
        self.open_to: Bools = np.stack(here, axis=1) if here else np.zeros((len(self.room), 0), dtype=np.bool_)
        self._fit(self.open_to, self.room)

    def _find_dependent(self) -> Bools:
        unlimited = np.ones(len(self.offers), dtype=np.bool_)
        for limit in self.limits:
            unlimited &= limit.takes <= 0
        free = self.allowed[unlimited].any(axis=0) | self.open_to.any(axis=0)
        return np.asarray(~free & self.allowed.any(axis=0), dtype=np.bool_)

    def _shorten(self) -> Ints:
        """Offers worth a look: for each lot those where its share of the node costs least, of every size."""
        if len(self.offers) <= SHORT or not len(self.lots):
            return np.arange(len(self.offers))
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
        """How much so many units (D) are of all that the lots ask for: a share for each resource, added up."""
        return float(counts @ self.requests[:, : self.dense] @ self.inverse_sum)

    def existing_groups(self) -> list[Ints]:
        """Existing rows by the lots that may go there and by what they are short of: what prices are asked for."""
        found: dict[bytes, list[int]] = defaultdict(list)
        here = np.stack([lot.existing for lot in self.lots], axis=1)
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

    def _offers(self) -> tuple[BinTypes, Ints, Bools]:
        """The offers; where lots settle open labels, once for each way in which they do."""
        masks: dict[bytes, int] = {}
        of_lot = [masks.setdefault(lot.bits.tobytes(), len(masks)) for lot in self.lots]
        bits = [np.frombuffer(key, dtype=np.uint64) for key in masks]
        offers = find_bin_types(self.catalog, bits, by_zone=False)
        lets_in = offers.allowed[:, of_lot] if of_lot else np.zeros((len(offers), 0), dtype=np.bool_)
        signatures = np.array([lot.signature for lot in self.lots], dtype=np.int64)
        kinds = sorted(set(signatures.tolist()) | {0})
        if len(kinds) == 1:
            return offers, np.zeros(len(offers), dtype=np.int64), lets_in
        picked, signature, tables = [], [], []
        for kind in kinds:
            fine = lets_in & np.isin(signatures, (0, kind))
            useful = np.flatnonzero((fine & (signatures == kind)).any(axis=1)) if kind else np.arange(len(offers))
            picked.append(useful)
            signature.append(np.full(len(useful), kind, dtype=np.int64))
            tables.append(fine[useful])
        rows = np.concatenate(picked)
        again = BinTypes(
            offers.option[rows],
            offers.offering_key[rows],
            offers.price[rows],
            offers.zone[rows],
            offers.allowed[rows],
            offers.zones,
        )
        return again, np.concatenate(signature), np.concatenate(tables)

    def _room_existing(self) -> Floats:
        """What is free on existing rows before the plan puts anything there, frozen units apart."""
        table, hosts = self.packer.table, self.packer.hosts
        count = table.existing
        free = table.free[:, :count].copy()
        planned = {rule.group.index: (np.zeros(count), np.zeros(count)) for rule in self.rules}
        stays = [(one.row, one.item, -one.units) for one in self.frozen]
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


def _cheapest(cost: Floats, rows: Ints, each: int) -> Ints:
    """Of these rows (bins), the `each` where a lot's cost is least, of any lot. cost: B x D."""
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
    """The rules of items that stand together, affinity over hosts left out: they bring what it asks for."""
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
