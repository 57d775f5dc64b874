"""The values of topology keys (domains), on existing nodes and on nodes that could be launched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from controller.core.api import labels
from controller.core.provisioning.offerings.label_masks import LabelValue
from controller.core.provisioning.offerings.mask_compiler import Mask, MaskCompiler
from controller.core.provisioning.offerings.node_table import ClusterNodes
from controller.core.provisioning.offerings.option_table import OFFERING_LABELS
from controller.core.provisioning.offerings.snapshot_index import RunningPod
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.provisioning.topology.groups import EVERY_NODE, NodeFilter, RuleKind, Topology, TopologyGroup
from controller.core.provisioning.topology.host_counts import HostCounts
from controller.core.scheduling.requirements import Requirement

PASSING, FAILING = "\0passing", "\0failing"
"""The parts into which a node filter splits a mask."""


class Domains:
    """Answers about domains, cached.

    cluster_nodes: all C nodes of the snapshot. stays: C flags, false for nodes whose removal is simulated.
    masks.existing: the E nodes that may take pods. Node options are T.
    """

    def __init__(self, masks: MaskCompiler, cluster_nodes: ClusterNodes, stays: Bools) -> None:
        self.masks = masks
        self.catalog = masks.catalog
        self.cluster_nodes = cluster_nodes
        self._stays = stays
        self._filters: dict[NodeFilter, tuple[Bits, Bools]] = {}
        self._costs: dict[tuple[int, bytes], float] = {}
        self._values: dict[tuple[str, int], list[str]] = {}
        self._counted: dict[tuple[NodeFilter, int], tuple[bool, bool]] = {}
        self._launchable_bits: Bits = np.zeros(len(self.catalog), dtype=np.uint64)

    def values(self, key: str, mask: Mask) -> list[str]:
        """Return the values of `key` on nodes that the mask allows, sorted. Shared: do not change it."""
        if (values := self._values.get((key, mask.index))) is None:
            on_existing = _held(self.masks.existing.column(key), mask.existing)
            values = self._values[key, mask.index] = sorted(on_existing | self._launchable(key, mask.bits))
        return values

    def _launchable(self, key: str, bits: Bits) -> set[str]:
        """Return the values of `key` on nodes that could be launched with these offering bits (T sets)."""
        if key in OFFERING_LABELS:
            every = int(np.bitwise_or.reduce(bits)) if len(bits) else 0
            place = 0 if key == labels.ZONE else 1
            return {names[place] for index, names in enumerate(self.catalog.offering_keys) if every >> index & 1}
        return _held(self.catalog.columns.column(key), bits != 0)

    def cost(self, mask: Mask, request: Floats) -> float:
        """Return the $/hour for a unit on its cheapest node: 0 where an existing node has room; see `least_cost`."""
        key = (mask.index, request.tobytes())
        if (cost := self._costs.get(key)) is None:
            asked = request > 0
            free = self.masks.existing.free[asked][:, mask.existing]
            roomy = (free >= request[asked, None]).all(axis=0).any()
            cost = self._costs[key] = 0.0 if roomy else self.masks.least_cost(mask, request)
        return cost

    def expect(self, masks: Iterable[Mask]) -> None:
        """Note which nodes the batch may launch: spreads count their domains too."""
        for mask in masks:
            self._launchable_bits = self._launchable_bits | mask.bits

    def _filter(self, node_filter: NodeFilter) -> tuple[Bits, Bools]:
        """Return the nodes that pass a filter: T sets of offering bits, and C flags."""
        passing = self._filters.get(node_filter)
        if passing is None:
            bits, flags = self.catalog.available, np.ones(len(self.cluster_nodes.nodes), dtype=np.bool_)
            for terms in node_filter.choices:
                bits, flags = bits & self.catalog.choice_bits(terms), flags & self.cluster_nodes.choice(terms)
            if node_filter.tolerations is not None:
                bits = np.where(self.catalog.tolerated(node_filter.tolerations), bits, np.uint64(0))
                flags = flags & self.cluster_nodes.tolerated(node_filter.tolerations)
            for key in sorted(node_filter.keys):
                flags = flags & _labelled(self.cluster_nodes.columns.column(key))
                if key not in OFFERING_LABELS:
                    bits = np.where(_labelled(self.catalog.columns.column(key)), bits, np.uint64(0))
            passing = self._filters[node_filter] = (bits, flags)
        return passing

    def eligible(self, group: TopologyGroup) -> Bools:
        """Return C flags: whether the group counts the node's pods."""
        return self._filter(group.key.node_filter)[1] & self._stays

    def universe(self, group: TopologyGroup) -> frozenset[str]:
        """Return the domains of a spread's minimum: of existing nodes, and of those that may be launched."""
        key = group.key.key
        on_existing = _held(self.cluster_nodes.columns.column(key), self.eligible(group))
        launchable = self._launchable(key, self._filter(group.key.node_filter)[0] & self._launchable_bits)
        return frozenset(on_existing | _allowed(launchable, group))

    def counted(self, group: TopologyGroup, mask: Mask) -> tuple[bool, bool]:
        """Return whether the group surely, or maybe, counts pods on nodes that the mask allows."""
        if group.key.kind is not RuleKind.SPREAD or group.key.node_filter == EVERY_NODE:
            return True, True
        return self._passing(group.key.node_filter, mask)

    def _passing(self, node_filter: NodeFilter, mask: Mask) -> tuple[bool, bool]:
        """Return whether all, or some, of the nodes that the mask allows pass the filter."""
        key = (node_filter, mask.index)
        if (answer := self._counted.get(key)) is None:
            bits, flags = self._filter(node_filter)
            passing = flags[self.masks.existing.places]
            surely = not (mask.bits & ~bits).any() and not (mask.existing & ~passing).any()
            maybe = bool((mask.bits & bits).any()) or bool((mask.existing & passing).any())
            answer = self._counted[key] = (surely, maybe)
        return answer

    def split(self, node_filter: NodeFilter, mask: Mask) -> list[tuple[str, Mask]]:
        """Return the mask's nodes that pass the filter, and those that do not, as masks with a name for each part."""
        surely, maybe = self._passing(node_filter, mask)
        if surely or not maybe:
            return [("", mask)]
        bits, flags = self._filter(node_filter)
        passing = flags[self.masks.existing.places]
        return [
            (PASSING, self.masks.narrowed(mask, bits, passing)),
            (FAILING, self.masks.narrowed(mask, ~bits, ~passing)),
        ]


def _labelled(column: tuple[Ints, list[LabelValue]]) -> Bools:
    """Return for each row of a label column whether it has the label; one left open may yet get it."""
    codes, cells = column
    return np.asarray(np.array([cell is not None for cell in cells], dtype=np.bool_)[codes], dtype=np.bool_)


def _held(column: tuple[Ints, list[LabelValue]], rows: Bools) -> set[str]:
    """Return the values of a label column on some of its rows; of labels left open, the values that are listed."""
    codes, cells = column
    values: set[str] = set()
    for cell in (cells[code] for code in set(codes[rows].tolist())):
        if isinstance(cell, Requirement):
            values.update(() if cell.complement else cell.values)
        elif cell is not None:
            values.add(cell)
    return values


def _allowed(values: set[str], group: TopologyGroup) -> set[str]:
    """Return the values that the pods' own selectors allow: a Provisioner may leave open more of them."""
    key, choices = group.key.key, group.key.node_filter.choices
    return {
        value
        for value in values
        if all(any(key not in term or term[key].accepts(value) for term in terms) for terms in choices)
    }


def seed(topology: Topology, domains: Domains, hosts: HostCounts, rows: Mapping[str, int]) -> None:
    """Count running pods into every group. `rows`: by name, the row of each node that may take pods."""
    nodes = topology.running_pods.nodes
    for group in topology.groups.values():
        counted = [one for one in topology.running_pods.matching(group.key.selectors) if _counts(group, one)]
        if group.key.key == labels.HOSTNAME:
            for one in counted:
                group.max_matched[nodes[one.node].name] += 1
                row = rows.get(nodes[one.node].name)
                if row is not None:
                    hosts.seed(group.index, row, 1, 0)
        else:
            _seed_domains(group, counted, domains)
    for group, node in topology.repelling:
        if group.key.key == labels.HOSTNAME:
            if (row := rows.get(nodes[node].name)) is not None:
                hosts.seed(group.index, row, 0, 1)
        else:
            if (value := nodes[node].node.labels.get(group.key.key)) is not None:
                group.owners[value] += 1


def _counts(group: TopologyGroup, one: RunningPod) -> bool:
    """Return whether the group counts the pod: a terminating one still repels others, but nothing else relies on it."""
    return group.key.kind is RuleKind.ANTI_AFFINITY or not one.pod.terminating


def _seed_domains(group: TopologyGroup, running: list[RunningPod], domains: Domains) -> None:
    codes, cells = domains.cluster_nodes.columns.column(group.key.key)
    eligible = domains.eligible(group) if group.key.kind is RuleKind.SPREAD else None
    for one in running:
        if eligible is not None and not eligible[one.node]:
            continue
        if (value := cells[codes[one.node]]) is not None:
            group.max_matched[str(value)] += 1
            group.min_matched[str(value)] += 1
