"""Existing nodes as arrays, and the rows of a plan: existing nodes first, then new ones."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from controller.core.api import labels
from controller.core.api.labels import FIELD_NAME
from controller.core.api.node import UNSCHEDULABLE
from controller.core.api.pod import Toleration
from controller.core.provisioning.offerings.label_masks import LabelColumns, LabelValue, encode
from controller.core.provisioning.pods.daemons import Daemon
from controller.core.provisioning.pods.relaxation import Choice, choice
from controller.core.provisioning.resource_space import Bits, Bools, Floats, Ints
from controller.core.scheduling.requirements import Requirements
from controller.core.scheduling.taints import untolerated
from controller.core.state.snapshot import StateNode

ALL_OFFERINGS = np.uint64(2**64 - 1)


class ClusterNodes:
    """Labels and taints of C nodes. Answers are arrays of C flags, cached and shared: do not change them."""

    def __init__(self, nodes: tuple[StateNode, ...]) -> None:
        self.nodes = nodes
        self.columns = LabelColumns(len(nodes), self._label_values)
        taints = [(*n.taints, UNSCHEDULABLE) if n.node.unschedulable else n.taints for n in nodes]
        self._taint_codes, self._taints = encode(taints)
        self._tolerated: dict[tuple[tuple[Toleration, ...], bool], Bools] = {}
        self._terms: dict[Requirements, Bools] = {}

    def _label_values(self, key: str) -> list[LabelValue]:
        if key == FIELD_NAME:
            return [node.name for node in self.nodes]
        if key == labels.HOSTNAME:
            return [node.node.labels.get(key, node.name) for node in self.nodes]
        return [node.node.labels.get(key) for node in self.nodes]

    def term(self, requirements: Requirements) -> Bools:
        """Return for each node whether its labels satisfy the requirements."""
        if (rows := self._terms.get(requirements)) is None:
            rows = np.ones(len(self.nodes), dtype=np.bool_)
            for requirement in requirements.values():
                rows = rows & self.columns.accepts(requirement)
            self._terms[requirements] = rows
        return rows

    def choice(self, terms: Choice) -> Bools:
        """Return for each node whether it satisfies any of the terms."""
        rows = np.zeros(len(self.nodes), dtype=np.bool_)
        for term in terms:
            rows = rows | self.term(term)
        return rows

    def tolerated(self, tolerations: tuple[Toleration, ...], *, preferences: bool = False) -> Bools:
        """Return for each node whether these tolerations cover its taints."""
        key = (tolerations, preferences)
        if (rows := self._tolerated.get(key)) is None:
            fine = [untolerated(taints, tolerations, preferences=preferences) is None for taints in self._taints]
            rows = np.array(fine, dtype=np.bool_)[self._taint_codes] if fine else np.zeros(0, np.bool_)
            self._tolerated[key] = rows
        return rows

    def daemon_due(self, daemon: Daemon) -> Bools:
        """Return for each node whether the DaemonSet controller runs a pod there."""
        rows = self.term(Requirements.from_labels(daemon.spec.node_selector)) & self.tolerated(daemon.spec.tolerations)
        if daemon.spec.required_node_affinity is not None:
            rows = rows & self.choice(choice(daemon.spec.required_node_affinity))
        return rows


class ExistingNodes:
    """The E nodes that may take pods, a subset of `every`.

    places: E places in `every`. free: R x E, allocatable less the requests of their pods and of daemons still to start.
    """

    def __init__(self, every: ClusterNodes, places: Ints, free: Floats) -> None:
        self.every = every
        self.places = places
        self.nodes = tuple(every.nodes[place] for place in places.tolist())
        self.free = free

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each node by its name."""
        return {node.name: row for row, node in enumerate(self.nodes)}

    def column(self, key: str) -> tuple[Ints, list[LabelValue]]:
        """Return a label as E codes, and the value of each code; some may be on none of these nodes."""
        codes, cells = self.every.columns.column(key)
        return codes[self.places], cells

    def choice(self, terms: Choice) -> Bools:
        """Return for each row whether it satisfies any of the terms."""
        return self.every.choice(terms)[self.places]

    def tolerated(self, tolerations: tuple[Toleration, ...], *, preferences: bool = False) -> Bools:
        """Return for each row whether these tolerations cover its taints."""
        return self.every.tolerated(tolerations, preferences=preferences)[self.places]


class NodeTable:
    """One row per node of a plan: rows 0..existing-1 are existing nodes, rows existing..count-1 new ones.

    free: R x room, what is left for pods. option: the node option of a new row, -1 for an existing one. offering_bits:
    the offerings still possible for a new row, narrowed by each item placed. signature: of the pods' requirements on
    open labels. pods: units placed by this plan. Arrays have `room` columns, doubled when `count` reaches it; columns
    from `count` on are meaningless.
    """

    def __init__(self, existing: Floats) -> None:
        resources, count = existing.shape
        self.existing: int = count
        self.count: int = count
        room = max(64, 2 * count)
        self.free: Floats = np.zeros((resources, room))
        self.free[:, :count] = existing
        self.option: Ints = np.full(room, -1, dtype=np.int64)
        self.offering_bits: Bits = np.full(room, ALL_OFFERINGS, dtype=np.uint64)
        self.signature: Ints = np.zeros(room, dtype=np.int64)
        self.pods: Ints = np.zeros(room, dtype=np.int64)

    @property
    def room(self) -> int:
        """Rows for which the arrays have columns; arrays kept beside them grow with it."""
        return len(self.option)

    def open(self, option: int, free: Floats, offering_bits: int, signature: int, copies: int = 1) -> int:
        """Add `copies` equal new rows; returns the first."""
        first = self.count
        while first + copies > self.room:
            self._grow()
        rows = slice(first, first + copies)
        self.free[:, rows] = free[:, None]
        self.option[rows] = option
        self.offering_bits[rows] = offering_bits
        self.signature[rows] = signature
        self.count += copies
        return first

    def _grow(self) -> None:
        blank = np.zeros_like(self.option)
        self.free = np.concatenate([self.free, np.zeros_like(self.free)], axis=1)
        self.option = np.concatenate([self.option, blank - 1])
        self.offering_bits = np.concatenate([self.offering_bits, np.full_like(self.offering_bits, ALL_OFFERINGS)])
        self.signature = np.concatenate([self.signature, blank])
        self.pods = np.concatenate([self.pods, blank])
