"""The cluster state: applies the changes that watches report, and publishes immutable snapshots.

One thread owns a `Cluster`. A snapshot shares everything unchanged with the one before: maps of kinds, and StateNodes.
A change of nothing that the controller reads (most heartbeats and status updates) gives a snapshot with new resource
versions under the old `version`, so that it wakes no loop.

Nominations and deletion marks exist only here, in memory, by node name: they may precede the node, survive its updates,
and end with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from controller.core.api.devices import devices_by_node
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import INITIALIZED, PROVISIONER_NAME
from controller.core.api.node import Node, Taint
from controller.core.api.pod import Pod, PodKey, Resources
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.state.change import Change
from controller.core.state.claim_resolution import Resolution, resolve
from controller.core.state.effective import effective_taints, end_of_room, filled, with_devices, without
from controller.core.state.evictions import STORAGE, StorageEvictions
from controller.core.state.kinds import ALWAYS_SERVED, KINDS
from controller.core.state.nominations import Nominations
from controller.core.state.snapshot import InvalidObject, Snapshot, StateNode
from controller.core.state.store import Delta, Store

INITIALIZATION_SECONDS: Final = 900.0
"""The default of the setting `initializationDeadline`: as long as an instance has to register."""


class Cluster:
    """Stores by kind, the index of pods by node, and facts about nodes that are not in their objects."""

    def __init__(
        self,
        kinds: Collection[str] = ALWAYS_SERVED,
        initialization_seconds: float = INITIALIZATION_SECONDS,
        device_classes: Mapping[str, str] = EMPTY,
    ) -> None:
        """`kinds` are those that are watched: the snapshot is synced when each has been listed.

        `initialization_seconds`: a node of a Provisioner that takes longer to initialize is no room for pods any more.
        `device_classes`: the extended resource that stands for the devices of each DeviceClass.
        """
        if unknown := sorted(set(kinds) - set(KINDS)):
            raise ValueError(f"Cluster state has no parser for {', '.join(unknown)}; it knows {', '.join(KINDS)}")
        self._stores: dict[str, Store[Any, Any]] = {
            kind: Store(kind, spec.parse, spec.key) for kind, spec in KINDS.items()
        }
        self._watched = frozenset(kinds)
        self._pods_by_node: dict[str, dict[PodKey, Pod]] = {}
        self._unbound: dict[PodKey, Pod] = {}
        """Pods without a node, by key, so that snapshots need no scan of all pods; `_sorted_unbound` sorts them."""
        self._unbound_unsorted = False
        self._nominations = Nominations()
        self._marked: set[str] = set()
        self._startup_taints: dict[str, tuple[Taint, ...]] = {}
        self._instance_types: dict[str, Mapping[str, InstanceType]] = {}
        self._evictions = StorageEvictions()
        self._device_classes = device_classes
        self._devices: Mapping[str, Resources] = EMPTY
        """By node, what the slices of its drivers amount to as extended resources."""
        self._claiming: dict[PodKey, Pod] = {}
        """Pods with claims of devices, as their objects are."""
        self._claims = Resolution()
        self._claims_changed = self._devices_changed = False
        self._pods: tuple[FrozenMap[PodKey, Pod], Mapping[PodKey, Pod], FrozenMap[PodKey, Pod]] = (EMPTY, EMPTY, EMPTY)
        """Pods of the last snapshot: as their objects are, those with claims resolved, and both together."""
        self._state_nodes: dict[str, StateNode] = {}
        self._initialization_seconds = initialization_seconds
        self._room_ends: dict[str, float] = {}
        """When nodes stop counting as room, by name, Unix seconds; only times to come."""
        self._known_since: dict[str, float] = {}
        """When each node was first seen, by name; the time is that of the last `expire`."""
        self._now = 0.0
        """The time of the last `expire`, Unix seconds."""
        self._touched: set[str] = set()
        self._published = Snapshot()
        self._changed = self._loud = False
        self._observers: dict[str, Callable[[Delta[Any, Any]], None]] = {
            "Pod": self._pod_changed,
            "Node": self._node_changed,
            "Provisioner": self._provisioner_changed,
            "ResourceClaim": self._claim_changed,
            "ResourceClaimTemplate": self._claim_changed,
            "DeviceClass": self._device_changed,
            "ResourceSlice": self._device_changed,
        }

    @property
    def synced(self) -> bool:
        """Every watched kind has been listed once."""
        return not self.unsynced()

    def unsynced(self) -> tuple[str, ...]:
        """Return the watched kinds that were not listed yet, sorted."""
        return tuple(sorted(kind for kind in self._watched if not self._stores[kind].synced))

    def apply(self, change: Change) -> tuple[InvalidObject, ...]:
        """Apply a change. Returns the objects that are refused, each once per error.

        Raises KeyError for a kind that is not in KINDS.
        """
        store = self._stores[change.kind]
        was_synced = store.synced
        deltas, refused = store.apply(change)
        if (observer := self._observers.get(change.kind)) is not None:
            for delta in deltas:
                observer(delta)
        self._changed = self._changed or bool(deltas)
        if refused or store.synced != was_synced or any(not delta.quiet for delta in deltas):
            self._changed = self._loud = True
        return tuple(refused)

    def nominate(self, node_name: str, until: float, pods: Iterable[Pod] = ()) -> None:
        """Note that pods are expected on this node until then (Unix seconds); a later time extends an earlier one.

        With `pods`, the nomination ends as soon as none of the pods of any nomination waits.
        """
        known: Mapping[PodKey, Pod] = self._stores["Pod"].values()
        named = tuple(pods)
        waiting = [pod for pod in named if (now := known.get(pod.key)) and now.uid == pod.uid and not now.node_name]
        self._touch_all(self._nominations.nominate(node_name, until, waiting if named else None))

    def expire(self, now: float) -> None:
        """End what expired by `now` (Unix seconds): nominations, and the room of unhealthy nodes."""
        self._now = now
        self._touch_all(self._nominations.expire(now))
        self._touch_all([name for name, at in self._room_ends.items() if at <= now])

    def mark_for_deletion(self, names: Iterable[str]) -> None:
        """Mark nodes that will be removed: they take no more pods."""
        new = set(names) - self._marked
        self._marked |= new
        self._touch_all(new)

    def unmark(self, names: Iterable[str]) -> None:
        """Remove the marks of these nodes."""
        ended = self._marked.intersection(names)
        self._marked -= ended
        self._touch_all(ended)

    def set_instance_types(self, provisioner: str, instance_types: Mapping[str, InstanceType]) -> None:
        """Set the types, by name, that replace what the Provisioner's uninitialized nodes have not reported yet.

        A type that is not sold any more stays known: nodes of it may still start.
        """
        known = self._instance_types.get(provisioner, EMPTY)
        types = {**known, **instance_types}
        if types == known:
            return
        self._instance_types[provisioner] = types
        self._touch_nodes_of(provisioner)

    def snapshot(self) -> Snapshot:
        """Return an immutable snapshot of the present state; the same object as before if nothing changed."""
        if not self._changed:
            return self._published
        if self._devices_changed:
            self._count_devices()
        if self._claims_changed:
            self._resolve_claims()
        before, frozen = self._published, {kind: store.frozen() for kind, store in self._stores.items()}
        frozen["Pod"] = self._with_resolved(frozen["Pod"])
        nodes = self._frozen_nodes()
        pods = frozen["Pod"]
        self._published = Snapshot(
            version=before.version + 1 if self._loud else before.version,
            synced=self.synced,
            nodes=nodes,
            invalid=self._frozen_invalid(),
            storage_loops=self._evictions.loops,
            unbound_of=before.unbound_of if pods is before.pods else (pods, self._sorted_unbound(pods)),
            **{spec.field: frozen[kind] for kind, spec in KINDS.items() if spec.field},
        )
        self._changed = self._loud = False
        return self._published

    def _sorted_unbound(self, pods: Mapping[PodKey, Pod]) -> tuple[Pod, ...]:
        """The pods without a node, by key, as they are in `pods`; sorted anew only once there are others."""
        if self._unbound_unsorted:
            self._unbound = {key: self._unbound[key] for key in sorted(self._unbound)}
            self._unbound_unsorted = False
        if not self._claims.pods:
            return tuple(self._unbound.values())
        return tuple(map(pods.__getitem__, self._unbound))

    def _resolve_claims(self) -> None:
        """Resolve the claims of pods, and touch the nodes where that changes something."""
        before, self._claims_changed = self._claims, False
        claims, templates = (self._stores[kind].values() for kind in ("ResourceClaim", "ResourceClaimTemplate"))
        self._claims = now = resolve(self._claiming, claims, templates, self._device_classes, before)
        for key, pod in now.pods.items():
            if pod.node_name and pod is not before.pods.get(key):
                self._touch(pod.node_name)
        self._touch_all(node for node in {*before.held, *now.held} if before.held.get(node) != now.held.get(node))

    def _with_resolved(self, pods: FrozenMap[PodKey, Pod]) -> FrozenMap[PodKey, Pod]:
        resolved = self._claims.pods
        if not resolved:
            return pods
        if self._pods[0] is not pods or self._pods[1] is not resolved:
            self._pods = (pods, resolved, FrozenMap({**pods, **resolved}))
        return self._pods[2]

    def _count_devices(self) -> None:
        """Count the devices of the nodes, and touch those where that changes something."""
        slices, classes = (self._stores[kind].values() for kind in ("ResourceSlice", "DeviceClass"))
        before, self._devices_changed = self._devices, False
        self._devices = now = devices_by_node(slices, classes, self._device_classes)
        self._touch_all(node for node in {*before, *now} if before.get(node) != now.get(node))

    def _frozen_nodes(self) -> Mapping[str, StateNode]:
        if not self._touched:
            return self._published.nodes
        nodes: Mapping[str, Node] = self._stores["Node"].values()
        unsorted = False
        for name in self._touched:
            if (node := nodes.get(name)) is None:
                self._state_nodes.pop(name, None)
                self._room_ends.pop(name, None)
                self._known_since.pop(name, None)
            else:
                unsorted = unsorted or name not in self._state_nodes
                self._state_nodes[name] = self._state_node(node)
        self._touched.clear()
        if unsorted:
            self._state_nodes = dict(sorted(self._state_nodes.items()))
        return FrozenMap(self._state_nodes)

    def _frozen_invalid(self) -> Mapping[tuple[str, str], InvalidObject]:
        stores = self._stores.items()
        found = {(kind, refused.name): refused for kind, store in stores for refused in store.invalid.values()}
        before, now = self._published.invalid, dict(sorted(found.items()))
        return before if now == before else FrozenMap(now)

    def _state_node(self, node: Node) -> StateNode:
        owner = node.labels.get(PROVISIONER_NAME, "")
        initialized = node.labels.get(INITIALIZED) == "true"
        types = self._instance_types.get(owner, EMPTY) if owner else EMPTY
        instance_type = types.get(node.instance_type)
        node = with_devices(node, self._devices.get(node.name, EMPTY), instance_type)
        capacity, allocatable = node.capacity, node.allocatable
        if instance_type is not None and not initialized:
            capacity = filled(capacity, instance_type.capacity)
            allocatable = filled(allocatable, instance_type.allocatable)
        allocatable = without(allocatable, self._claims.held.get(node.name, EMPTY))
        pods = self._pods_by_node.get(node.name, EMPTY)
        resolved = self._claims.pods
        end = end_of_room(node, self._initialization_seconds, self._known_since.setdefault(node.name, self._now))
        if self._now < end.at < math.inf:
            self._room_ends[node.name] = end.at
        else:
            self._room_ends.pop(node.name, None)
        return StateNode(
            node=node,
            pods=tuple(resolved.get(key, pods[key]) for key in sorted(pods)),
            capacity=capacity,
            allocatable=allocatable,
            taints=effective_taints(node, self._startup_taints.get(owner, ()), initialized),
            nominated_until=self._nominations.until(node.name),
            marked_for_deletion=node.name in self._marked,
            no_room=end.because if end.at <= self._now else "",
        )

    def _touch(self, node_name: str, quiet: bool = False) -> None:
        if node_name in self._stores["Node"].values() or node_name in self._state_nodes:
            self._touched.add(node_name)
            self._changed = True
            self._loud = self._loud or not quiet

    def _touch_all(self, node_names: Iterable[str]) -> None:
        for name in node_names:
            self._touch(name)

    def _touch_nodes_of(self, provisioner: str) -> None:
        for name, node in self._stores["Node"].values().items():
            if node.labels.get(PROVISIONER_NAME) == provisioner and node.labels.get(INITIALIZED) != "true":
                self._touch(name)

    def _pod_changed(self, delta: Delta[PodKey, Pod]) -> None:
        if delta.new is None or delta.new.node_name or delta.new.terminal:
            self._unbound.pop(delta.key, None)
        else:
            self._unbound_unsorted = self._unbound_unsorted or delta.key not in self._unbound
            self._unbound[delta.key] = delta.new
        old, new = _bound_to(delta.old), _bound_to(delta.new)
        if old and old != new:
            pods = self._pods_by_node.get(old, {})
            pods.pop(delta.key, None)
            if not pods:
                self._pods_by_node.pop(old, None)
            self._touch(old)
        if new and delta.new is not None:
            self._pods_by_node.setdefault(new, {})[delta.key] = delta.new
            self._touch(new, delta.quiet)
        self._touch_all(self._nominations.pod_changed(delta.key, delta.new))
        if self._claiming.pop(delta.key, None) is not None:
            self._claims_changed = True
        if delta.new is not None and delta.new.spec.resource_claims:
            self._claiming[delta.key], self._claims_changed = delta.new, True
        if delta.new is not None and delta.new.evicted_for_storage:
            self._note_eviction(delta.new)

    def _claim_changed(self, _delta: Delta[PodKey, Any]) -> None:
        self._claims_changed = True

    def _device_changed(self, _delta: Delta[str, Any]) -> None:
        self._devices_changed = True

    def _note_eviction(self, pod: Pod) -> None:
        """Record the eviction with the pods of the same owner and the size of the disk that was too small."""
        node: Node | None = self._stores["Node"].values().get(pod.node_name)
        if node is None or not pod.owners:
            return
        uid = pod.owners[0].uid
        others: Iterable[Pod] = self._stores["Pod"].values().values()
        siblings = [other.uid for other in others if other.owners and other.owners[0].uid == uid]
        provisioner, size = node.labels.get(PROVISIONER_NAME, ""), node.allocatable.get(STORAGE, 0)
        if self._evictions.note(pod, siblings, provisioner, size):
            self._changed = self._loud = True

    def _node_changed(self, delta: Delta[str, Node]) -> None:
        if delta.reborn or delta.new is None:
            self._known_since.pop(delta.key, None)
            self._nominations.end((delta.key,))
            self._marked.discard(delta.key)
        self._touch(delta.key, delta.quiet)

    def _provisioner_changed(self, delta: Delta[str, Provisioner]) -> None:
        """A Provisioner that became invalid keeps its last good startup taints: its nodes are still coming up."""
        before = self._startup_taints.get(delta.key, ())
        if delta.new is not None:
            self._startup_taints[delta.key] = delta.new.startup_taints
        elif delta.key not in self._stores["Provisioner"].invalid:
            self._startup_taints.pop(delta.key, None)
            self._instance_types.pop(delta.key, None)
        if self._startup_taints.get(delta.key, ()) != before:
            self._touch_nodes_of(delta.key)


def _bound_to(pod: Pod | None) -> str:
    """Return the node whose resources the pod holds, or empty."""
    return "" if pod is None or pod.terminal else pod.node_name
