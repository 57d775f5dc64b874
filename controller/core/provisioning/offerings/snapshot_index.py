"""Indices over one snapshot's nodes and running pods, computed once and shared by many solves.

Consolidation simulates the removal of one node after the other, and each simulation needs free resources, pods with
anti-affinity and pods by labels. These depend only on the snapshot, so plans are the same whether an index is shared
or built anew. Arrays have one entry for each of the C nodes, in the order of `nodes` (sorted by name).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import OwnerReference, Pod, PodSpec
from controller.core.api.workloads import DaemonSet
from controller.core.provisioning.offerings.label_masks import BoundedCache
from controller.core.provisioning.offerings.node_table import ClusterNodes, ExistingNodes
from controller.core.provisioning.offerings.option_table import TableCache
from controller.core.provisioning.pods.daemons import Daemon, daemons, owned_by
from controller.core.provisioning.problem import provisionable
from controller.core.provisioning.resource_space import Bools, Floats, Ints, ResourceSpace
from controller.core.state.snapshot import Snapshot, StateNode

MOST_SPACES = 16
"""Sets of resource names for which free resources are cached."""


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod, and the place of its node in `SnapshotIndex.nodes`."""

    node: int
    pod: Pod


class SnapshotIndex:
    """Computed on first use. Everything in it is shared: do not change it."""

    def __init__(self, snapshot: Snapshot, tables: TableCache | None = None) -> None:
        """`tables`: compiled catalogs, shared with solves on other snapshots; None: for this index only."""
        self.snapshot = snapshot
        self.tables = TableCache() if tables is None else tables
        self.nodes: tuple[StateNode, ...] = tuple(sorted(snapshot.nodes.values(), key=lambda node: node.name))
        self.place: dict[str, int] = {node.name: place for place, node in enumerate(self.nodes)}
        self._free: BoundedCache[tuple[str, ...], Floats] = BoundedCache(MOST_SPACES)
        self._allocatable: BoundedCache[tuple[str, ...], Floats] = BoundedCache(MOST_SPACES)

    def at(self, snapshot: Snapshot) -> SnapshotIndex:
        """Return this index if it was built from `snapshot`, else build one that shares its compiled catalogs."""
        return self if self.snapshot is snapshot else SnapshotIndex(snapshot, self.tables)

    @cached_property
    def cluster_nodes(self) -> ClusterNodes:
        """Labels and taints of every node."""
        return ClusterNodes(self.nodes)

    @cached_property
    def daemons(self) -> tuple[Daemon, ...]:
        """Every DaemonSet, with the requests that its pods have."""
        return daemons(self.snapshot)

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """Provisionable pods (see `provisionable`)."""
        return tuple(pod for pod in self.snapshot.pods.values() if provisionable(pod, self.snapshot))

    @cached_property
    def leaving(self) -> tuple[StateNode, ...]:
        """Nodes that are being removed."""
        return tuple(node for node in self.nodes if node.leaving)

    @cached_property
    def repelling(self) -> tuple[RunningPod, ...]:
        """Running pods with required anti-affinity, in the order of their nodes."""
        return tuple(one for one in self._running if one.pod.spec.required_pod_anti_affinity)

    @cached_property
    def with_ports(self) -> tuple[RunningPod, ...]:
        """Running pods with host ports."""
        return tuple(one for one in self._running if one.pod.spec.host_ports)

    @cached_property
    def alike(self) -> Mapping[tuple[str, FrozenMap[str, str]], list[RunningPod]]:
        """Running pods by namespace and labels: a selector matches all of a group or none."""
        groups: dict[tuple[str, FrozenMap[str, str]], list[RunningPod]] = defaultdict(list)
        for one in self._running:
            groups[(one.pod.namespace, one.pod.labels)].append(one)
        return groups

    @cached_property
    def replicas(self) -> Mapping[str, Counter[int]]:
        """By the uid of the first owner, its number of pods by the place of their node."""
        counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for place, node in enumerate(self.nodes):
            for pod in node.pods:
                if pod.owners:
                    counts[pod.owners[0].uid][place] += 1
        return counts

    @cached_property
    def _running(self) -> tuple[RunningPod, ...]:
        return tuple(
            RunningPod(place, pod) for place, node in enumerate(self.nodes) for pod in node.pods if not pod.terminal
        )

    def free(self, space: ResourceSpace) -> Floats:
        """Return R x C: allocatable less the requests of the node's pods; slot columns are 0."""
        if (free := self._free.get(space.names)) is None:
            free = self._free[space.names] = self.allocatable(space) - self._used(space)
        return free

    def allocatable(self, space: ResourceSpace) -> Floats:
        """Return R x C: what pods may request in all; slot columns are 0."""
        if (own := self._allocatable.get(space.names)) is None:
            own = self._allocatable[space.names] = space.matrix(node.allocatable for node in self.nodes)
        return own

    def existing(
        self,
        places: Ints,
        space: ResourceSpace,
        daemons: Iterable[Daemon],
        slots: Callable[[ResourceSpace, StateNode], Floats],
    ) -> ExistingNodes:
        """Return the nodes at these places, with what is free once all their daemons run, never less than 0.

        A daemon that asks for more than an empty node has stays pending, so that nothing is kept free for it.
        A node with less of a resource than its pods request still takes pods that do not ask for it (kube-scheduler).

        slots: what is left of a node's slots (host ports, volume attachments), as a vector of R.
        """
        free = self.free(space)[:, places]
        if space.slots and len(places):
            free += np.stack([slots(space, self.nodes[place]) for place in places.tolist()], axis=1)
        for daemon in daemons:
            due = (self.cluster_nodes.daemon_due(daemon) & ~self._runs(daemon.daemon_set))[places]
            if due.any():
                asked = space.vector(daemon.requests)[:, None]
                too_large = (asked > self.allocatable(space)[:, places])[space.amounts].any(axis=0)
                free -= asked * (due & ~too_large)
        return ExistingNodes(self.cluster_nodes, places, np.maximum(free, 0.0))

    def _used(self, space: ResourceSpace) -> Floats:
        specs, spec_of, node_of = self._specs
        requests = space.matrix(spec.requests for spec in specs)
        sums = [np.bincount(node_of, weights=row[spec_of], minlength=len(self.nodes)) for row in requests]
        return np.array(sums, dtype=np.float64).reshape(len(space), len(self.nodes))

    @cached_property
    def _specs(self) -> tuple[list[PodSpec], Ints, Ints]:
        """The distinct specs, and for each pod on any node the number of its spec and the place of its node."""
        specs: dict[int, tuple[int, PodSpec]] = {}
        codes = [specs.setdefault(id(p.spec), (len(specs), p.spec))[0] for node in self.nodes for p in node.pods]
        places = np.repeat(np.arange(len(self.nodes)), [len(node.pods) for node in self.nodes])
        return [spec for _, spec in specs.values()], np.array(codes, dtype=np.int64), places

    def _runs(self, daemon: DaemonSet) -> Bools:
        """Return C flags: a pod of the DaemonSet is on the node already."""
        runs = np.zeros(len(self.nodes), dtype=np.bool_)
        for owner, places in self._made_by_daemon_sets.items():
            if owned_by(owner, daemon):
                runs[places] = True
        return runs

    @cached_property
    def _made_by_daemon_sets(self) -> Mapping[OwnerReference, list[int]]:
        """By owner reference to a DaemonSet, the places of the nodes with such a pod."""
        places_of: dict[OwnerReference, list[int]] = defaultdict(list)
        for place, node in enumerate(self.nodes):
            for owner in (owner for pod in node.pods for owner in pod.owners):
                if owner.kind == "DaemonSet":
                    places_of[owner].append(place)
        return places_of
