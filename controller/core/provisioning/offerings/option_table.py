"""Node options and their offerings as arrays: the part of a catalog that does not depend on the batch.

`TableCache` finds a table by its content: thousands of offerings are compiled only when prices, available capacity or
Provisioners change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from controller.core.api import labels
from controller.core.api.pod import Toleration
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, InstanceType, Offering, PricedOffering
from controller.core.provisioning.offerings.label_masks import BoundedCache, LabelColumns, LabelValue, settle
from controller.core.provisioning.plan import NOTHING_BESIDE, Beside
from controller.core.provisioning.pods.relaxation import Choice
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints, ResourceSpace
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.scheduling.taints import untolerated

NEW_HOSTNAME = "\0new"
"""The hostname of a new node, which no selector names."""
OFFERING_LABELS = frozenset({labels.ZONE, labels.CAPACITY_TYPE})
MAX_OFFERING_KEYS = 64
MOST_ANSWERS = 4096
"""Answers of one kind that a table caches before it drops them all: a table may live as long as the process."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A Provisioner with its requirements (its labels and name among them) and what is left of its limits."""

    provisioner: Provisioner
    requirements: Requirements
    headroom: dict[str, int]
    """Limits less the capacity of its nodes, by resource; empty: no limits."""


@dataclass(frozen=True, slots=True)
class CheapestFirst:
    """One pool's offerings, cheapest first: node option, offering key (and as one bit), and $/hour of each.

    costs: without surplus CPU. baseline, surplus_price: vCPUs and $ a vCPU-hour beyond them; infinite and 0 for types
    that have all of their CPU.
    """

    option_ids: Ints
    offering_keys: Ints
    offering_bits: Bits
    costs: Floats
    baseline: Floats
    surplus_price: Floats


class OptionTable:
    """T node options (Provisioner x instance type) by K offering keys (zone, capacity type). Shared: read-only.

    types, pool_of: T, instance type and place of the Provisioner in `pools` (ascending). cost: T x K, $/hour of a node:
    price, what it costs beside it, and surplus CPU; infinite if there is no such offering, it is unavailable, or the
    Provisioner rules it out. price, charged: T x K, $/hour, the price alone, and with what the node costs beside it;
    infinite if there is no such offering. available: T sets of offering bits; bit k is set where cost[:, k] is finite.
    catalog_keys: label keys that some instance type sets. open_keys: those that some option leaves open, for its pods
    to settle.

    A burstable or flex type is two options: one of its baseline alone (cpu_limit: T, millicores that pods may request),
    and one that is filled, at the price of the surplus CPU that it then uses (surplus: T, $/hour). Cost is convex in
    the load, so that no filling costs more than its option.
    """

    def __init__(self, pools: Sequence[Pool], catalog: Catalog, beside: Beside = NOTHING_BESIDE) -> None:
        self.pools = tuple(pools)
        self.beside = beside
        self.types: list[InstanceType] = []
        pool_of, limits, surplus = list[int](), list[float](), list[float]()
        for index, pool in enumerate(self.pools):
            for kind in sorted(catalog[pool.provisioner.name], key=lambda t: t.name):
                for limit, more in _fills(kind, beside.cpu_use):
                    self.types.append(kind)
                    pool_of.append(index)
                    limits.append(limit)
                    surplus.append(more)
        self.pool_of: Ints = np.array(pool_of, dtype=np.int64)
        self.cpu_limit: Floats = np.array(limits, dtype=np.float64)
        self.surplus: Floats = np.array(surplus, dtype=np.float64)
        self.catalog_keys: frozenset[str] = frozenset().union(
            *{id(t.requirements): t.requirements for t in self.types}.values()
        )
        self._forget()
        self._compile_offerings()
        self.open_keys = self._find_open_keys()

    def __len__(self) -> int:
        return len(self.types)

    def _forget(self) -> None:
        """Clear all caches."""
        self.columns = LabelColumns(len(self.types), self._label_values, MOST_ANSWERS)
        self._terms: BoundedCache[Requirements, Bits] = BoundedCache(MOST_ANSWERS)
        self._tolerated: BoundedCache[tuple[tuple[Toleration, ...], bool], Bools] = BoundedCache(MOST_ANSWERS)
        self._cheapest_first: dict[int, CheapestFirst] = {}
        self._resources: BoundedCache[tuple[str, ...], tuple[Floats, Floats]] = BoundedCache(MOST_ANSWERS // 1024)

    def split(self, sets: Sequence[Bits]) -> OptionTable:
        """Split options of which some offerings are in one of these sets (T each) and others are not.

        Each option of the table returned has all its available offerings in a set, or none of them.
        """
        if all(((bits == 0) | (bits == self.available)).all() for bits in sets):
            return self
        rows: list[int] = []
        available: list[int] = []
        for row, bits in enumerate(self.available.tolist()):
            parts: dict[tuple[int, ...], int] = {}
            for key in range(len(self.offering_keys)):
                if bits >> key & 1:
                    inside = tuple(int(each[row]) >> key & 1 for each in sets)
                    parts[inside] = parts.get(inside, 0) | 1 << key
            rows.extend([row] * max(1, len(parts)))
            available.extend(parts.values() or [0])
        table = copy(self)
        table.types = [self.types[row] for row in rows]
        table._offered = [self._offered[row] for row in rows]
        table.pool_of, table.cost, table.cpu_limit = self.pool_of[rows], self.cost[rows], self.cpu_limit[rows]
        table.surplus, table.price, table.charged = self.surplus[rows], self.price[rows], self.charged[rows]
        table.available = np.array(available, dtype=np.uint64)
        table.cost[~unpacked(table.available, len(self.offering_keys))] = np.inf
        table._forget()
        return table

    def _label_values(self, key: str) -> list[LabelValue]:
        """Return the value that a node of each option has, or may get, for label `key`."""
        if key == labels.HOSTNAME:
            return [NEW_HOSTNAME] * len(self.types)
        cache: dict[tuple[int, Requirement | None], LabelValue] = {}
        cells: list[LabelValue] = []
        for pool, kind in zip(self.pool_of.tolist(), self.types, strict=True):
            of_type = kind.requirements.get(key)
            cell = cache.get((pool, of_type), NEW_HOSTNAME)
            if cell == NEW_HOSTNAME:
                cell = cache[(pool, of_type)] = self._label_value(key, self.pools[pool], of_type)
            cells.append(cell)
        return cells

    def _label_value(self, key: str, pool: Pool, of_type: Requirement | None) -> LabelValue:
        of_pool = pool.requirements.get(key)
        if of_type is not None:
            return settle(of_type if of_pool is None else of_type.intersection(of_pool))
        if of_pool is None or (key in self.catalog_keys and key not in pool.provisioner.labels):
            return None
        return settle(of_pool)

    def _compile_offerings(self) -> None:
        self.offering_keys = sorted({(o.zone, o.capacity_type) for t in self.types for o in t.offerings if o.available})
        if len(self.offering_keys) > MAX_OFFERING_KEYS:
            raise ValueError(
                f"{len(self.offering_keys)} (zone, capacity type) combinations; at most {MAX_OFFERING_KEYS} "
                "are supported"
            )
        index = {offering_key: place for place, offering_key in enumerate(self.offering_keys)}
        by_type = {id(kind): self._allowed(kind, index) for kind in {id(t): t for t in self.types}.values()}
        self._offered = [by_type[id(kind)] for kind in self.types]
        prices = {each: self._prices(allowed) for each, allowed in by_type.items()}
        both: Floats = np.array([prices[id(kind)] for kind in self.types], dtype=np.float64)
        self.price, self.charged = np.moveaxis(both.reshape(len(self.types), 2, len(index)), 1, 0)
        self.cost: Floats = self.charged + self.surplus[:, None]
        allowed = np.array([self.offering_bits(pool.requirements) for pool in self.pools], dtype=np.uint64)
        self.cost[~unpacked(allowed, len(index))[self.pool_of]] = np.inf
        self.cost[~self._admitted()] = np.inf
        weights = np.uint64(1) << np.arange(len(self.offering_keys), dtype=np.uint64)
        self.available: Bits = (np.isfinite(self.cost) * weights).sum(axis=1, dtype=np.uint64)

    def _allowed(self, kind: InstanceType, index: Mapping[tuple[str, str], int]) -> dict[int, Offering]:
        """Return the available offerings of an instance type that its own requirements allow, by offering key."""
        bits = self.offering_bits(kind.requirements)
        keyed = ((index[o.zone, o.capacity_type], o) for o in kind.offerings if o.available)
        return {key: offering for key, offering in keyed if bits >> key & 1}

    def _prices(self, offered: Mapping[int, Offering]) -> tuple[list[float], list[float]]:
        """Return K prices and K costs without surplus CPU, $/hour; infinite where there is no offering."""
        prices, costs = [math.inf] * len(self.offering_keys), [math.inf] * len(self.offering_keys)
        for key, offering in offered.items():
            prices[key], costs[key] = offering.price, offering.price + self._charges(offering)
        return prices, costs

    def _charges(self, offering: Offering) -> float:
        """Return the $/hour that a node of the offering costs beside its price."""
        return self.beside.node + (offering.beside if self.beside.charges else 0.0)

    def offering(self, option: int, offering_key: int) -> PricedOffering:
        """Return the offering of an option that has this key. Plans name few of tens of thousands, so none is kept."""
        kind, offered = self.types[option], self._offered[option][offering_key]
        return PricedOffering(offered.price, kind.name, offered.zone, offered.capacity_type, self._charges(offered))

    def offering_bits(self, requirements: Requirements) -> int:
        """Return the offering bits that the zone and capacity type requirements allow."""
        zones, capacity_types = requirements.get(labels.ZONE), requirements.get(labels.CAPACITY_TYPE)
        bits = 0
        for index, (zone, capacity_type) in enumerate(self.offering_keys):
            if (zones is None or zones.has(zone)) and (capacity_types is None or capacity_types.has(capacity_type)):
                bits |= 1 << index
        return bits

    def _admitted(self) -> Bools:
        """Return T flags: the instance type meets the requirements of its Provisioner."""
        admitted = np.ones(len(self.types), dtype=np.bool_)
        for index, pool in enumerate(self.pools):
            rows = self.pool_of == index
            for key, requirement in pool.requirements.items():
                if key not in OFFERING_LABELS and key in self.catalog_keys:
                    admitted &= ~rows | self.columns.accepts(requirement)
        return admitted

    def _find_open_keys(self) -> frozenset[str]:
        """Return the keys that some option leaves open, so that a node's value depends on its pods.

        Without the columns, most of which no pod asks for: a value of a type's own that its pool says nothing about is
        settled already.
        """
        settled = OFFERING_LABELS | {labels.HOSTNAME}
        asked = [[key for key in pool.requirements if key not in settled] for pool in self.pools]
        options = zip(self.pool_of.tolist(), self.types, strict=True)
        distinct = {(pool, id(kind.requirements)): kind.requirements for pool, kind in options}
        cells: set[tuple[str, int, Requirement | None]] = set()
        for (pool, _), of_type in distinct.items():
            cells.update((key, pool, of_type.get(key)) for key in asked[pool])
            cells.update((key, pool, of_type[key]) for key in of_type.unsettled if key not in settled)
        return frozenset(
            key
            for key, pool, of_type_key in cells
            if isinstance(self._label_value(key, self.pools[pool], of_type_key), Requirement)
        )

    def resources(self, space: ResourceSpace) -> tuple[Floats, Floats]:
        """Return the capacity and allocatable, R x T, of empty nodes without daemons and slots."""
        if (arrays := self._resources.get(space.names)) is None:
            kinds = {id(t): t for t in self.types}
            position = {key: index for index, key in enumerate(kinds)}
            take = np.array([position[id(t)] for t in self.types], dtype=np.int64)
            capacity = space.matrix(t.capacity for t in kinds.values())[:, take]
            arrays = capacity, space.matrix(t.allocatable for t in kinds.values())[:, take]
            self._resources[space.names] = arrays
        return arrays

    def cheapest_first(self, pool: int) -> CheapestFirst:
        """Return the available offerings of a pool, cheapest first, each as the option that pods may fill."""
        ordered = self._cheapest_first.get(pool)
        if ordered is None:
            offered = unpacked(self.available, len(self.offering_keys))
            rows, keys = np.nonzero(offered & ((self.pool_of == pool) & np.isinf(self.cpu_limit))[:, None])
            name = np.unique([kind.name for kind in self.types], return_inverse=True)[1]
            # As `PricedOffering.order`; offering keys are in order of zone and capacity type.
            order = np.lexsort((rows, keys, name[rows], self.price[rows, keys], self.charged[rows, keys]))
            rows, keys = rows[order], keys[order]
            credits = [kind.credits if self.beside.cpu_use else None for kind in self.types]
            ordered = self._cheapest_first[pool] = CheapestFirst(
                rows,
                keys,
                np.uint64(1) << keys.astype(np.uint64),
                self.charged[rows, keys],
                np.array([each.baseline if each else np.inf for each in credits])[rows],
                np.array([each.surplus_price if each else 0.0 for each in credits])[rows],
            )
        return ordered

    def term_bits(self, requirements: Requirements) -> Bits:
        """Return T sets of offering bits: the offerings whose nodes satisfy the requirements."""
        if (bits := self._terms.get(requirements)) is None:
            rows = np.ones(len(self.types), dtype=np.bool_)
            for key, requirement in requirements.items():
                if key not in OFFERING_LABELS:
                    rows = rows & self.columns.accepts(requirement)
            bits = np.where(rows, self.available & np.uint64(self.offering_bits(requirements)), np.uint64(0))
            self._terms[requirements] = bits
        return bits

    def choice_bits(self, terms: Choice) -> Bits:
        """Return T sets of offering bits: the offerings whose nodes satisfy any of the terms."""
        bits = np.zeros(len(self.types), dtype=np.uint64)
        for term in terms:
            bits |= self.term_bits(term)
        return bits

    def tolerated(self, tolerations: tuple[Toleration, ...], *, preferences: bool = False) -> Bools:
        """Return T flags: whether these tolerations cover the Provisioner's taints."""
        key = (tolerations, preferences)
        if (rows := self._tolerated.get(key)) is None:
            fine = [untolerated(p.provisioner.taints, tolerations, preferences=preferences) is None for p in self.pools]
            rows = np.array(fine, dtype=np.bool_)[self.pool_of] if self.types else np.zeros(0, np.bool_)
            self._tolerated[key] = rows
        return rows


def _fills(kind: InstanceType, cpu_use: float) -> list[tuple[float, float]]:
    """Return how far a node of the type may be filled: limits on CPU requested (millicores), each with its surplus."""
    credits = kind.credits
    surplus = credits.surplus(cpu_use * kind.allocatable.get("cpu", 0) / 1000.0) if credits else 0.0
    if credits is None or surplus <= 0:
        return [(np.inf, 0.0)]
    return [(1000.0 * credits.baseline / cpu_use, 0.0), (np.inf, surplus)]


def unpacked(bits: Bits, keys: int) -> Bools:
    """Return sets of offering bits as flags, with one more axis for the offering keys."""
    return np.asarray((bits[..., None] >> np.arange(keys, dtype=np.uint64)) & np.uint64(1) != 0)


class TableCache:
    """The tables of the last `size` catalogs, looked up by content; shared by solves of one caller."""

    def __init__(self, size: int = 4) -> None:
        self._size = size
        self._held: tuple[tuple[object, OptionTable], ...] = ()

    def table(self, pools: Sequence[Pool], catalog: Catalog, beside: Beside = NOTHING_BESIDE) -> OptionTable:
        """Return the table of these pools and their types, which weights and headroom do not change."""
        of_pools = tuple(
            (p.requirements, p.provisioner.labels, p.provisioner.taints, catalog[p.provisioner.name]) for p in pools
        )
        key = beside, of_pools
        for held, table in self._held:
            if held == key:
                return table
        table = OptionTable(pools, catalog, beside)
        self._held = ((key, table), *self._held[: self._size - 1])
        return table
