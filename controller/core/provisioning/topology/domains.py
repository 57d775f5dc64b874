"""The values of topology keys (domains), on existing nodes and on nodes that could be launched."""

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
    """Answers about domains, cached.

    cluster_nodes: all C nodes of the snapshot. stays: C flags, false for nodes whose removal is simulated.
    masks.existing: the E nodes that may take pods.
    """

    def __init__(self, masks: MaskCompiler, cluster_nodes: ClusterNodes, stays: Bools) -> None:
        self.masks = masks
        self.catalog = masks.catalog
        self.cluster_nodes = cluster_nodes
        self._stays = stays
        self._filters: dict[NodeFilter, tuple[Bits, Bools, Bools]] = {}
        self._costs: dict[tuple[int, bytes], float] = {}
        self._values: dict[tuple[str, int], list[str]] = {}
        self._counted: dict[tuple[NodeFilter, int], tuple[bool, bool]] = {}
        self._launchable_bits: Bits = np.zeros(len(self.catalog), dtype=np.uint64)

    def values(self, key: str, mask: Mask) -> list[str]:
        """The values of `key` on nodes that the mask allows, sorted. Shared: do not change it."""
        cache = (key, mask.index)
        values = self._values.get(cache)
        if values is None:
            existing = self.masks.existing
            codes, cells = existing.column(key)
            held = {cells[code] for code in set(codes[mask.existing].tolist())}
            values = sorted({str(v) for v in held if v is not None} | self._launchable(key, mask.bits))
            self._values[cache] = values
        return values

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
        values: set[str] = set()
        for code in set(codes[bits != 0].tolist()):
            cell = cells[code]
            if isinstance(cell, Requirement):
                values.update(() if cell.complement else cell.values)
            elif cell is not None:
                values.add(str(cell))
        return values

    def cost(self, mask: Mask, request: Floats) -> float:
        """$/hour for a unit on its cheapest node: the node's price, times the unit's largest part of any resource.

        0 where an existing node has room; infinite where no node holds it.
        """
        key = (mask.index, request.tobytes())
        cost = self._costs.get(key)
        if cost is None:
            cost = self._costs[key] = self._cost(mask, request)
        return cost

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
        """Note which nodes the batch may launch: spreads count their domains too."""
        for mask in masks:
            self._launchable_bits = self._launchable_bits | mask.bits

    def _filter(self, node_filter: NodeFilter) -> tuple[Bits, Bools, Bools]:
        """Nodes that pass a filter: offering bits per node option, flags per cluster node, flags per existing node."""
        passing = self._filters.get(node_filter)
        if passing is None:
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
            passing = self._filters[node_filter] = (bits, rows, open_rows)
        return passing

    def eligible(self, group: TopologyGroup) -> Bools:
        """Per node of the cluster, whether the group counts its pods."""
        return self._filter(group.key.node_filter)[1]

    def universe(self, group: TopologyGroup) -> frozenset[str]:
        """The domains over which a spread takes its minimum: of existing nodes, and of those that may be launched."""
        bits, rows, _ = self._filter(group.key.node_filter)
        codes, cells = self.cluster_nodes.columns.column(group.key.key)
        held = {cells[code] for code in set(codes[rows].tolist())}
        launchable = self._launchable(group.key.key, bits & self._launchable_bits)
        return frozenset({str(v) for v in held if v is not None} | _allowed(launchable, group))

    def counted(self, group: TopologyGroup, mask: Mask) -> tuple[bool, bool]:
        """Whether the group surely, or maybe, counts pods on nodes that the mask allows."""
        if group.key.kind is not RuleKind.SPREAD or group.key.node_filter == EVERY_NODE:
            return True, True
        key = (group.key.node_filter, mask.index)
        answer = self._counted.get(key)
        if answer is None:
            bits, _, rows = self._filter(group.key.node_filter)
            surely = not (mask.bits & ~bits).any() and not (mask.existing & ~rows).any()
            maybe = bool((mask.bits & bits).any()) or bool((mask.existing & rows).any())
            answer = self._counted[key] = (surely, maybe)
        return answer


def _allowed(values: set[str], group: TopologyGroup) -> set[str]:
    """The values that the pods' own selectors allow, too: a Provisioner may leave a label open that they do not."""
    key = group.key.key
    return {
        value
        for value in values
        if all(
            any(key not in term or term[key].accepts(value) for term in terms)
            for terms in group.key.node_filter.choices
        )
    }
