"""The values that a topology key can take, for a mask: on nodes there are, and on nodes that could be launched."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from controller.core.api import labels
from controller.core.provisioning.offerings.mask_compiler import Mask, MaskCompiler
from controller.core.provisioning.offerings.node_table import ClusterNodes
from controller.core.provisioning.offerings.option_table import OFFERING_LABELS
from controller.core.provisioning.resource_space import Bits, Bools, Floats
from controller.core.provisioning.topology.groups import EVERY_NODE, NodeFilter, RuleKind, TopologyGroup
from controller.core.scheduling.requirements import Requirement


class Domains:
    """Answers about domains. `standing` are all nodes of the cluster, `stays` those that are not thought away,
    `masks.existing` those that may take pods."""

    def __init__(self, masks: MaskCompiler, cluster_nodes: ClusterNodes, stays: Bools) -> None:
        self.masks = masks
        self.catalog = masks.catalog
        self.cluster_nodes = cluster_nodes
        self._stays = stays
        self._filters: dict[NodeFilter, tuple[Bits, Bools, Bools]] = {}
        self._costs: dict[tuple[int, bytes], float] = {}
        self._values: dict[tuple[str, int], list[str]] = {}
        self._counted: dict[tuple[NodeFilter, int], tuple[bool, bool]] = {}
        self._reach: Bits = np.zeros(len(self.catalog), dtype=np.uint64)

    def values(self, key: str, mask: Mask) -> list[str]:
        """The values of `key` on nodes that the mask allows, sorted."""
        cache = (key, mask.index)
        found = self._values.get(cache)
        if found is None:
            existing = self.masks.existing
            codes, cells = existing.column(key)
            held = {cells[code] for code in set(codes[mask.existing].tolist())}
            found = sorted({str(v) for v in held if v is not None} | self._launchable(key, mask.bits))
            self._values[cache] = found
        return found

    def _launchable(self, key: str, bits: Bits) -> set[str]:
        if key in OFFERING_LABELS:
            every = int(np.bitwise_or.reduce(bits)) if len(bits) else 0
            place = 0 if key == labels.ZONE else 1
            return {
                offering_key[place]
                for index, offering_key in enumerate(self.catalog.offering_keys)
                if every >> index & 1
            }
        codes, cells = self.catalog.columns.column(key)
        found: set[str] = set()
        for code in set(codes[bits != 0].tolist()):
            cell = cells[code]
            if isinstance(cell, Requirement):
                found.update(() if cell.complement else cell.values)
            elif cell is not None:
                found.add(str(cell))
        return found

    def cost(self, mask: Mask, request: Floats) -> float:
        """$/hour that a unit's share of the best node costs; 0 where an existing node has room; infinite: no place."""
        key = (mask.index, request.tobytes())
        found = self._costs.get(key)
        if found is None:
            found = self._costs[key] = self._cost(mask, request)
        return found

    def _cost(self, mask: Mask, request: Floats) -> float:
        asked = request > 0
        if mask.existing.any():
            free = self.masks.existing.free[asked][:, mask.existing]
            if (free >= request[asked][:, None]).all(axis=0).any():
                return 0.0
        prices = self.masks.prices(mask)
        allocatable = self.catalog.allocatable[asked]
        fits = (allocatable >= request[asked][:, None]).all(axis=0) & np.isfinite(prices)
        if not fits.any():
            return float("inf")
        shares = (request[asked][:, None] / np.maximum(allocatable[:, fits], 1e-9)).max(axis=0, initial=0.0)
        return float((prices[fits] * shares).min())

    def expect(self, masks: Iterable[Mask]) -> None:
        """Note what the batch may launch: domains that only it reaches count as well."""
        for mask in masks:
            self._reach = self._reach | mask.bits

    def _filter(self, node_filter: NodeFilter) -> tuple[Bits, Bools, Bools]:
        """Launchable pairs, existing nodes and existing rows that pass a node filter."""
        found = self._filters.get(node_filter)
        if found is None:
            catalog, cluster_nodes, existing = self.catalog, self.cluster_nodes, self.masks.existing
            bits = catalog.available
            rows, open_rows = self._stays, np.ones(len(existing), dtype=np.bool_)
            for terms in node_filter.choices:
                either = np.zeros_like(bits)
                for term in terms:
                    either = either | catalog.term_bits(term)
                bits, rows, open_rows = (
                    bits & either,
                    rows & cluster_nodes.choice(terms),
                    open_rows & existing.choice(terms),
                )
            if node_filter.tolerations is not None:
                bits = np.where(catalog.tolerated(node_filter.tolerations), bits, np.uint64(0))
                rows = rows & cluster_nodes.tolerated(node_filter.tolerations)
                open_rows = open_rows & existing.tolerated(node_filter.tolerations)
            found = self._filters[node_filter] = (bits, rows, open_rows)
        return found

    def eligible(self, group: TopologyGroup) -> Bools:
        """Per existing node, whether the group counts it."""
        return self._filter(group.key.node_filter)[1]

    def universe(self, group: TopologyGroup) -> frozenset[str]:
        """The domains whose least count is a spread group's global minimum: of nodes there are and nodes to come."""
        bits, rows, _ = self._filter(group.key.node_filter)
        codes, cells = self.cluster_nodes.columns.column(group.key.key)
        held = {cells[code] for code in set(codes[rows].tolist())}
        launchable = self._launchable(group.key.key, bits & self._reach)
        return frozenset({str(v) for v in held if v is not None} | _allowed(launchable, group))

    def counted(self, group: TopologyGroup, mask: Mask) -> tuple[bool, bool]:
        """Whether pods that go where the mask says are surely, or maybe, counted by the group."""
        if group.key.kind is not RuleKind.SPREAD or group.key.node_filter == EVERY_NODE:
            return True, True
        key = (group.key.node_filter, mask.index)
        found = self._counted.get(key)
        if found is None:
            bits, _, rows = self._filter(group.key.node_filter)
            surely = not (mask.bits & ~bits).any() and not (mask.existing & ~rows).any()
            maybe = bool((mask.bits & bits).any()) or bool((mask.existing & rows).any())
            found = self._counted[key] = (surely, maybe)
        return found


def _allowed(values: set[str], group: TopologyGroup) -> set[str]:
    """Those that the pods' own selectors leave open: a pool may leave a label open that they do not."""
    key = group.key.key
    return {
        value
        for value in values
        if all(
            any(key not in term or term[key].accepts(value) for term in terms)
            for terms in group.key.node_filter.choices
        )
    }
