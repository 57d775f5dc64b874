"""Turn a packer's rows into a plan: assign pods to rows, and planned nodes to new ones."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from operator import itemgetter

import numpy as np

from controller.core.provisioning.offerings.node_table import ExistingNodes
from controller.core.provisioning.packing.items import UnitQueue
from controller.core.provisioning.packing.packer import Packer
from controller.core.provisioning.placed_pods import PlacedPods, PodSlice
from controller.core.provisioning.plan import ExistingPlacement, PlannedNode
from controller.core.provisioning.solver.new_nodes import NewNodes
from controller.core.provisioning.topology.bundles import BundleMember


class Assembler:
    """Reads the rows of a finished packing."""

    def __init__(self, packer: Packer, existing: ExistingNodes, nodes: NewNodes, *, bound: bool = False) -> None:
        """bound: each new spot node first asks for the one offering that its row is bound to."""
        self.bound = bound
        self.packer = packer
        self.existing = existing
        self.nodes = nodes
        self.placed: dict[int, int] = defaultdict(int)
        """Pods placed, by class index."""
        self._pods: dict[int, list[PodSlice]] = defaultdict(list)
        self._row_masks: dict[int, set[int]] = defaultdict(set)
        self._next: dict[int, int] = defaultdict(int)
        """By id of the class, its first pod that is not placed: an exchange splits classes (`workload_items`)."""
        self._assign_pods()

    def _assign_pods(self) -> None:
        """Assign each class's pods, oldest first, to the rows that its items were placed on."""
        left: dict[int, UnitQueue] = {}
        """By id of the item."""
        for placement in self.packer.placements:
            item = placement.item
            self.nodes.masks[item.mask.index] = item.mask
            if id(item) not in left:
                left[id(item)] = UnitQueue(item)
            for row, count in zip(placement.rows, placement.counts, strict=True):
                self._row_masks[row].add(item.mask.index)
                for allocation, units in left[id(item)].take(count):
                    self._assign(row, allocation.bundle.members, units)

    def _assign(self, row: int, members: tuple[BundleMember, ...], units: int) -> None:
        for member in members:
            pod_class, count = member.pod_class, member.pods * units
            self._pods[row].append(PodSlice(pod_class, self._next[id(pod_class)], count))
            self._next[id(pod_class)] += count
            self.placed[pod_class.index] += count

    def existing_placements(self) -> tuple[ExistingPlacement, ...]:
        """Return the pods placed on existing nodes."""
        placements = []
        for row, slices in sorted(self._pods.items()):
            if row < self.packer.table.existing:
                pods = PlacedPods(slices)
                reason = f"{len(pods)} pods fit into what is free on this node"
                placements.append(ExistingPlacement(self.existing.nodes[row].name, pods, reason))
        return tuple(placements)

    def new_nodes(self) -> tuple[PlannedNode, ...]:
        """Return the nodes to launch, in the order of their first pods."""
        table = self.packer.table
        option_ids, signatures, bits = table.option.tolist(), table.signature.tolist(), table.offering_bits.tolist()
        # One bytes object of rows x R, sliced per row: cheaper than `tobytes` of a column for each row.
        free, width = np.ascontiguousarray(table.free.T).tobytes(), table.free.itemsize * len(table.free)
        nodes = []
        for row, slices in self._pods.items():
            if row >= table.existing:
                pods = PlacedPods(slices)
                left = free[row * width : (row + 1) * width]
                masks, own = frozenset(self._row_masks[row]), bits[row] if self.bound else 0
                key = (option_ids[row], signatures[row], masks, left, len(pods), own)
                nodes.append((pods.turn, replace(self.nodes.node(key), pods=pods)))
        nodes.sort(key=itemgetter(0))
        return tuple(node for _, node in nodes)
