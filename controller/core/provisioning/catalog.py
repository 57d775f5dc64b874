"""The catalog as arrays: every (Provisioner, instance type) is a configuration, every (zone, capacity type) a bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from controller.core.api import labels
from controller.core.api.pod import Resources, Toleration
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, InstanceType, PricedOffering
from controller.core.provisioning.daemons import Daemon
from controller.core.provisioning.masks import Cell, LabelColumns, settle
from controller.core.provisioning.resources import Bits, Bools, Floats, Ints, ResourceSpace
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.core.scheduling.taints import untolerated

NEW_HOSTNAME = "\0new"
"""The hostname of a node that has none yet: no selector names it."""
FIELD_NAME = "metadata.name"
"""The field that matchFields may name, kept as if it were a label."""
PAIR_KEYS = frozenset({labels.ZONE, labels.CAPACITY_TYPE})
MAX_PAIRS = 64


@dataclass(frozen=True, slots=True)
class Pool:
    """A Provisioner as the solver sees it: requirements with its labels among them, and what is left of its limits."""

    provisioner: Provisioner
    requirements: Requirements
    headroom: dict[str, int]
    """Limits less the capacity of its nodes, by resource; empty: no limits."""


def pool_requirements(provisioner: Provisioner) -> Requirements:
    """The requirements of a Provisioner: as written, with its labels and its name as In of one value."""
    name = Requirement.of(labels.PROVISIONER_NAME, "In", (provisioner.name,))
    written = Requirements.of(provisioner.requirements).values()
    return Requirements((*written, *Requirements.from_labels(provisioner.labels).values(), name))


class CompiledCatalog:
    """Arrays over configurations, T of them, and P pairs of zone and capacity type.

    price: T x P in $/hour, infinite where the offering is unavailable or the Provisioner rules it out.
    available: T bit sets over the pairs. capacity, allocatable: R x T; allocatable is less the daemons' share.
    `slots` tells the slots (host ports, attachments) of an empty node of a type.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        catalog: Catalog,
        space: ResourceSpace,
        daemons: Sequence[Daemon],
        slots: Callable[[str], Resources],
    ) -> None:
        self.pools = tuple(pools)
        self.space = space
        self._slots = slots
        self.types: list[InstanceType] = []
        pool_of: list[int] = []
        for index, pool in enumerate(self.pools):
            offered = sorted(catalog[pool.provisioner.name], key=lambda t: t.name)
            self.types.extend(offered)
            pool_of.extend([index] * len(offered))
        self.pool_of: Ints = np.array(pool_of, dtype=np.int64)
        self.catalog_keys = frozenset(
            key
            for requirements in {id(t.requirements): t.requirements for t in self.types}.values()
            for key in requirements
        )
        self.columns = LabelColumns(len(self.types), self._cells)
        self._compile_offerings()
        self._compile_resources()
        self._terms: dict[Requirements, Bits] = {}
        self._tolerated: dict[tuple[tuple[Toleration, ...], bool], Bools] = {}
        self.open_keys = self._find_open_keys()
        self._charge(daemons)

    def __len__(self) -> int:
        return len(self.types)

    def _cells(self, key: str) -> list[Cell]:
        """What a node of each configuration has, or may get, as label `key`."""
        if key == labels.HOSTNAME:
            return [NEW_HOSTNAME] * len(self.types)
        cache: dict[tuple[int, Requirement | None], Cell] = {}
        cells: list[Cell] = []
        for pool, kind in zip(self.pool_of.tolist(), self.types, strict=True):
            of_type = kind.requirements.get(key)
            found = cache.get((pool, of_type), NEW_HOSTNAME)
            if found == NEW_HOSTNAME:
                found = cache[(pool, of_type)] = self._cell(key, self.pools[pool], of_type)
            cells.append(found)
        return cells

    def _cell(self, key: str, pool: Pool, of_type: Requirement | None) -> Cell:
        of_pool = pool.requirements.get(key)
        if of_type is not None:
            return settle(of_type if of_pool is None else of_type.intersection(of_pool))
        if of_pool is None or (key in self.catalog_keys and key not in pool.provisioner.labels):
            return None
        return settle(of_pool)

    def _compile_offerings(self) -> None:
        pairs = sorted({(o.zone, o.capacity_type) for t in self.types for o in t.offerings if o.available})
        if len(pairs) > MAX_PAIRS:
            raise ValueError(f"{len(pairs)} pairs of zone and capacity type; at most {MAX_PAIRS} are supported")
        self.pairs = pairs
        self.pair_index = {pair: index for index, pair in enumerate(pairs)}
        self.offerings: list[dict[int, PricedOffering]] = []
        self.price: Floats = np.full((len(self.types), len(pairs)), np.inf)
        by_type: dict[int, dict[int, PricedOffering]] = {}
        allowed = self._pool_pairs()
        for row, kind in enumerate(self.types):
            offered = by_type.get(id(kind))
            if offered is None:
                offered = by_type[id(kind)] = self._offered(kind)
            self.offerings.append(offered)
            bits = allowed[self.pool_of[row]]
            for pair, offering in offered.items():
                if bits >> pair & 1:
                    self.price[row, pair] = offering.price
        self.price[~self._admitted()] = np.inf
        self.available: Bits = bit_sets(np.isfinite(self.price))

    def _offered(self, kind: InstanceType) -> dict[int, PricedOffering]:
        zones, capacity_types = kind.requirements.get(labels.ZONE), kind.requirements.get(labels.CAPACITY_TYPE)
        return {
            self.pair_index[(o.zone, o.capacity_type)]: PricedOffering(o.price, kind.name, o.zone, o.capacity_type)
            for o in kind.offerings
            if o.available
            and (zones is None or zones.has(o.zone))
            and (capacity_types is None or capacity_types.has(o.capacity_type))
        }

    def _pool_pairs(self) -> list[int]:
        return [self.pair_bits(pool.requirements) for pool in self.pools]

    def pair_bits(self, requirements: Requirements) -> int:
        """The pairs that the zone and capacity type requirements allow."""
        zones, capacity_types = requirements.get(labels.ZONE), requirements.get(labels.CAPACITY_TYPE)
        bits = 0
        for index, (zone, capacity_type) in enumerate(self.pairs):
            if (zones is None or zones.has(zone)) and (capacity_types is None or capacity_types.has(capacity_type)):
                bits |= 1 << index
        return bits

    def _admitted(self) -> Bools:
        """Configurations whose instance type meets its Provisioner's own requirements."""
        admitted = np.ones(len(self.types), dtype=np.bool_)
        for index, pool in enumerate(self.pools):
            rows = self.pool_of == index
            for key, requirement in pool.requirements.items():
                if key not in PAIR_KEYS and key in self.catalog_keys:
                    admitted &= ~rows | self.columns.accepts(requirement)
        return admitted

    def _compile_resources(self) -> None:
        kinds = {id(t): t for t in self.types}
        position = {key: index for index, key in enumerate(kinds)}
        take = np.array([position[id(t)] for t in self.types], dtype=np.int64)
        self.capacity: Floats = self.space.matrix(t.capacity for t in kinds.values())[:, take]
        have = self.space.matrix(t.allocatable for t in kinds.values())
        if self.space.slots:
            have += self.space.matrix(self._slots(t.name) for t in kinds.values())
        self.allocatable: Floats = have[:, take]

    def _find_open_keys(self) -> frozenset[str]:
        """Keys that some configuration leaves open, so that a node's value depends on its pods."""
        keys = set(self.catalog_keys)
        for pool in self.pools:
            keys.update(pool.requirements)
        keys -= PAIR_KEYS
        return frozenset(k for k in keys if any(isinstance(c, Requirement) for c in self.columns.column(k)[1]))

    def _charge(self, daemons: Sequence[Daemon]) -> None:
        """Take the daemons' requests off every configuration that they will run on."""
        self._split([self.daemon_bits(daemon) for daemon in daemons])
        self.overhead: Floats = np.zeros_like(self.allocatable)
        self.daemon_rows: list[tuple[Daemon, Bools]] = []
        for daemon in daemons:
            rows = self.daemon_bits(daemon) != 0
            self.daemon_rows.append((daemon, rows))
            self.overhead += self.space.vector(daemon.requests)[:, None] * rows
        self.allocatable = self.allocatable - self.overhead

    def _split(self, runs: Sequence[Bits]) -> None:
        """Take configurations apart where a daemon runs in some of their zones (or capacity types), not in others."""
        if all(((bits == 0) | (bits == self.available)).all() for bits in runs):
            return
        take: list[int] = []
        subsets: list[int] = []
        for row, available in enumerate(self.available.tolist()):
            alike: dict[tuple[int, ...], int] = {}
            for pair in range(len(self.pairs)):
                if available >> pair & 1:
                    who = tuple(int(bits[row]) >> pair & 1 for bits in runs)
                    alike[who] = alike.get(who, 0) | 1 << pair
            take.extend([row] * max(1, len(alike)))
            subsets.extend(alike.values() or [0])
        self.types = [self.types[row] for row in take]
        self.offerings = [self.offerings[row] for row in take]
        self.pool_of, self.price = self.pool_of[take], self.price[take]
        self.capacity, self.allocatable = self.capacity[:, take], self.allocatable[:, take]
        self.available = np.array(subsets, dtype=np.uint64)
        shifts = np.arange(len(self.pairs), dtype=np.uint64)
        self.price[(self.available[:, None] >> shifts) & np.uint64(1) == 0] = np.inf
        self.columns = LabelColumns(len(self.types), self._cells)
        self._terms.clear()
        self._tolerated.clear()

    def daemon_bits(self, daemon: Daemon) -> Bits:
        """Per configuration, the pairs on which a DaemonSet's pod will run: selector, any OR term, taints (startup
        taints pass)."""
        spec = daemon.spec
        bits = np.where(self.tolerated(spec.tolerations), self.available, np.uint64(0))
        bits = bits & self.term_bits(Requirements.from_labels(spec.node_selector))
        if spec.required_node_affinity is not None:
            either = np.zeros(len(self.types), dtype=np.uint64)
            for term in spec.required_node_affinity:
                if term.match_expressions:
                    either |= self.term_bits(Requirements.of(term.match_expressions))
            bits = bits & either
        return bits

    def term_bits(self, requirements: Requirements) -> Bits:
        """Per configuration, the pairs on which a node would satisfy the requirements."""
        bits = self._terms.get(requirements)
        if bits is None:
            rows = np.ones(len(self.types), dtype=np.bool_)
            for key, requirement in requirements.items():
                if key not in PAIR_KEYS:
                    rows = rows & self.columns.accepts(requirement)
            bits = np.where(rows, self.available & np.uint64(self.pair_bits(requirements)), np.uint64(0))
            self._terms[requirements] = bits
        return bits

    def tolerated(self, tolerations: tuple[Toleration, ...], *, preferences: bool = False) -> Bools:
        """Per configuration, whether these tolerations cover its Provisioner's taints."""
        key = (tolerations, preferences)
        rows = self._tolerated.get(key)
        if rows is None:
            fine = [untolerated(p.provisioner.taints, tolerations, preferences=preferences) is None for p in self.pools]
            rows = np.array(fine, dtype=np.bool_)[self.pool_of] if self.types else np.zeros(0, np.bool_)
            self._tolerated[key] = rows
        return rows

    def cheapest(self, bits: Bits, rows: Ints) -> Floats:
        """Per configuration of `rows`, the least price among the pairs in its bit set; infinite where there is none."""
        shifts = np.arange(len(self.pairs), dtype=np.uint64)
        open_pairs = (bits[:, None] >> shifts) & np.uint64(1) != 0
        least: Floats = np.where(open_pairs, self.price[rows], np.inf).min(axis=1, initial=np.inf)
        return least


def bit_sets(table: Bools) -> Bits:
    """Each row of a boolean table (at most 64 wide) as a bit set."""
    weights = np.uint64(1) << np.arange(table.shape[1], dtype=np.uint64)
    return np.asarray((table * weights).sum(axis=1, dtype=np.uint64), dtype=np.uint64)
