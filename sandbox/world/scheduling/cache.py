"""The scheduler's picture of the cluster, kept by watch events, with pods assumed onto nodes before the API server
knows.

It also remembers what changed, so that a pod which found no room is tried again only after a change that could help it
(kube-scheduler's queueing hints).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sandbox.world.informer import Informers
from sandbox.world.resources import CSI_NODES, NAMESPACES, NODES, PODS, PVCS, PVS, STORAGE_CLASSES, Obj, Resource
from sandbox.world.scheduling.filters import first_rejection
from sandbox.world.scheduling.node import NodeInfo, scheduling_fields
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.view import ClusterView

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

TERMINAL = ("Succeeded", "Failed")
ANYTHING = "*"
"""A change that may help any pod (storage, namespaces, a node that went)."""
CROWD = "+"
"""A pod was placed: that helps only pods with affinity or spread."""


class SchedulerCache:
    """`view` for the filters; `changes` counts what happened; `on_change` is called after each."""

    def __init__(self, informers: Informers, on_change: Callable[[], None]) -> None:
        self.view = ClusterView()
        self._on_change = on_change
        self._pods = informers.of(PODS)
        self._pods.add_index("node", lambda pod: [name] if (name := pod["spec"].get("nodeName")) else [])
        self._placed: dict[str, str] = {}
        self._assumed: set[str] = set()
        self._nominated: dict[str, tuple[PodInfo, str]] = {}
        self._log: list[str] = []
        self._log_start = 0
        for resource in (PVCS, PVS, STORAGE_CLASSES, NAMESPACES, CSI_NODES):
            informers.of(resource).add_handler(self._other_handler(resource))
        informers.of(NODES).add_handler(self._on_node)
        self._pods.add_handler(self._on_pod)
        self._claims: dict[tuple[str, str], Obj] = {}
        self._volumes: dict[str, Obj] = {}
        self._classes: dict[str, Obj] = {}
        self._namespaces: dict[str, dict[str, str]] = {}
        self._limits: dict[str, dict[str, int]] = {}
        self.view.claims, self.view.volumes, self.view.storage_classes = self._claims, self._volumes, self._classes
        self.view.namespace_labels, self.view.volume_limits = self._namespaces, self._limits

    # Changes

    @property
    def position(self) -> int:
        """How many changes there have been."""
        return self._log_start + len(self._log)

    def helps(self, pod: PodInfo, since: int) -> bool:
        """Whether a change after position `since` could have made room for `pod`."""
        crowd = bool(pod.spread or pod.affinity or pod.anti_affinity)
        if since < self._log_start:
            return True
        for change in set(self._log[since - self._log_start :]):
            if change == ANYTHING or (crowd and change == CROWD):
                return True
            node = self.view.nodes.get(change)
            if node is not None and (crowd or first_rejection(pod, node) is None):
                return True
        return False

    def forget_changes(self) -> None:
        """Drop the log (when nothing waits)."""
        self._log_start += len(self._log)
        self._log.clear()

    def repelling(self) -> Iterator[NodeInfo]:
        """Nodes that hold pods with anti-affinity."""
        for node in self.view.nodes.values():
            if any(pod.anti_affinity for pod in node.pods.values()):
                yield node

    def _changed(self, what: str) -> None:
        self._log.append(what)
        self._on_change()

    # Assuming

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count `pod` on the node until the watch confirms it or `unassume` takes it back."""
        self._assumed.add(pod.uid)
        self._place(pod, node_name)

    def unassume(self, pod: PodInfo) -> None:
        """The binding failed: free the room."""
        if pod.uid in self._assumed:
            self._assumed.discard(pod.uid)
            self._unplace(pod.uid)

    def is_placed(self, uid: str) -> bool:
        """Whether the pod is bound or assumed."""
        return uid in self._placed

    # Nominating

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Keep the room that a preemption makes on a node from pods of lower priority."""
        self._nominated[pod.uid] = (pod, node_name)

    def nominated_node(self, pod: PodInfo) -> str:
        """Where the pod was nominated; empty if nowhere."""
        return self._nominated.get(pod.uid, (pod, ""))[1]

    @contextmanager
    def room_reserved_from(self, pod: PodInfo) -> Iterator[None]:
        """Within the block, nominated pods of at least the same priority count as if they were on their nodes."""
        added: list[tuple[NodeInfo, str]] = []
        for other, node_name in self._nominated.values():
            node = self.view.nodes.get(node_name)
            if node is not None and other.uid != pod.uid and other.priority >= pod.priority:
                node.add(other)
                added.append((node, other.uid))
        try:
            yield
        finally:
            for node, uid in added:
                node.remove(uid)

    # Watch events

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            if old is not None:
                self.view.nodes.pop(old["metadata"]["name"], None)
                self._changed(ANYTHING)
            return
        name = new["metadata"]["name"]
        node = self.view.nodes.get(name)
        if node is None:
            node = self.view.nodes[name] = NodeInfo(new)
            for pod in self._pods.by("node", name):
                if not is_terminal(pod):
                    self._place(PodInfo(pod), name)
            self._changed(name)
        elif scheduling_fields(node.obj) != scheduling_fields(new):
            node.update(new)
            self._changed(name)

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        pod = new or old
        if pod is None:
            return
        uid, node_name = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if new is None or is_terminal(new):
            self._assumed.discard(uid)
            self._nominated.pop(uid, None)
            self._unplace(uid)
        elif node_name:
            self._assumed.discard(uid)
            unchanged = old is not None and uid in self._placed and _same(old, new)
            if not unchanged:
                self._place(PodInfo(new), node_name)

    def _place(self, pod: PodInfo, node_name: str) -> None:
        before = self._placed.get(pod.uid)
        if before is not None and before != node_name and before in self.view.nodes:
            self.view.nodes[before].remove(pod.uid)
        self._placed[pod.uid] = node_name
        self._nominated.pop(pod.uid, None)
        self.view.place(pod, node_name)
        self._changed(CROWD)

    def _unplace(self, uid: str) -> None:
        node = self.view.nodes.get(self._placed.pop(uid, ""))
        if node is None:
            return
        pod = node.pods.get(uid)
        node.remove(uid)
        self._changed(ANYTHING if pod is not None and pod.anti_affinity else node.name)

    def _other_handler(self, resource: Resource) -> Callable[[Obj | None, Obj | None], None]:
        def handle(old: Obj | None, new: Obj | None) -> None:
            self._take_over(resource, old, new)
            self._changed(ANYTHING)

        return handle

    def _take_over(self, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        meta = (new or old or {})["metadata"]
        name = meta["name"]
        if resource is PVCS:
            _set(self._claims, (meta["namespace"], name), new)
        elif resource is PVS:
            _set(self._volumes, name, new)
        elif resource is STORAGE_CLASSES:
            _set(self._classes, name, new)
        elif resource is NAMESPACES:
            _set(self._namespaces, name, None if new is None else (new["metadata"].get("labels") or {}))
        else:
            _set(self._limits, name, None if new is None else _attach_limits(new))


def is_terminal(pod: Obj) -> bool:
    """A pod that has ended holds no room."""
    return (pod.get("status") or {}).get("phase") in TERMINAL


def _same(old: Obj, new: Obj) -> bool:
    """Whether nothing changed that another pod's verdict could depend on."""
    one, two = old["metadata"], new["metadata"]
    return (
        one.get("labels") == two.get("labels")
        and bool(one.get("deletionTimestamp")) == bool(two.get("deletionTimestamp"))
        and old["spec"] == new["spec"]
    )


def _attach_limits(csi_node: Obj) -> dict[str, int]:
    drivers = (csi_node.get("spec") or {}).get("drivers") or ()
    return {d["name"]: int(d["allocatable"]["count"]) for d in drivers if (d.get("allocatable") or {}).get("count")}


def _set(mapping: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
