"""Host ports and volume attachments as resources (slots): a node has one of each port, attachments as its CSINode says.

Slot names have a colon, which no Kubernetes resource name has. A port on every address takes the slots of all addresses
that some pod names, and one more: two pods then exclude each other exactly if kube-scheduler's NodePorts does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import HostPort, PodSpec, Resources
from controller.core.provisioning.pods.volume_needs import Volumes
from controller.core.provisioning.resource_space import ATTACHMENT, Floats, ResourceSpace
from controller.core.state.snapshot import Snapshot, StateNode

PORT = "port:"
UNLIMITED = 1e6
"""Attachments of a driver without a known limit."""
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, never bound
"""hostIP values that stand for every address."""


def is_slot(name: str) -> bool:
    """Return whether a column is a slot, not a resource of Kubernetes."""
    return ":" in name


class Slots:
    """Slots of pods and of nodes."""

    def __init__(self, snapshot: Snapshot, specs: Iterable[PodSpec], volumes: Volumes) -> None:
        """`specs`: every pod spec of the problem, for the addresses that their host ports name."""
        self.volumes = volumes
        self._addresses: dict[tuple[str, int], set[str]] = defaultdict(set)
        for port in (port for spec in specs for port in spec.host_ports):
            self._addresses[(port.protocol, port.port)].add("" if port.ip in WILDCARDS else port.ip)
        self._limits: dict[tuple[str, str], float] = {}
        for name in snapshot.csi_nodes.keys() & snapshot.nodes.keys():
            kind = snapshot.nodes[name].node.labels.get(labels.INSTANCE_TYPE, "")
            for driver, limit in snapshot.csi_nodes[name].limits.items():
                key = (kind, driver)
                self._limits[key] = min(limit, self._limits.get(key, UNLIMITED))
        self._csi_nodes = snapshot.csi_nodes

    def _ports(self, ports: Iterable[HostPort]) -> dict[str, int]:
        """Return the slots that these host ports take."""
        taken: dict[str, int] = {}
        for port in ports:
            named = self._addresses.get((port.protocol, port.port), {""})
            addresses = {*named, ""} if port.ip in WILDCARDS else {port.ip}
            taken.update({f"{PORT}{port.protocol}/{port.port}/{address}": 1 for address in addresses})
        return taken

    def requests(self, spec: PodSpec, attachments: Resources) -> Resources:
        """Return the requests of a pod, slots included."""
        if not spec.host_ports and not attachments:
            return spec.requests
        drivers = {ATTACHMENT + driver: count for driver, count in attachments.items()}
        return FrozenMap({**spec.requests, **self._ports(spec.host_ports), **drivers})

    def on_new(self, space: ResourceSpace, instance_type: str) -> Resources:
        """Return the slots of a new node; attachment limits as in the CSINodes of existing nodes of its type."""
        slots: dict[str, int] = {}
        for name in filter(is_slot, space.names):
            driver = name.removeprefix(ATTACHMENT)
            limit = int(self._limits.get((instance_type, driver), UNLIMITED))
            slots[name] = 1 if name.startswith(PORT) else limit
        return FrozenMap(slots)

    def left_on(self, space: ResourceSpace, node: StateNode) -> Floats:
        """Return what an existing node has left of the slots, as a vector of R; 0 where its pods hold too many."""
        left: dict[str, int] = {}
        held = Counter(name for pod in node.pods for name in self._ports(pod.spec.host_ports))
        csi_node = self._csi_nodes.get(node.name)
        for name in filter(is_slot, space.names):
            driver = name.removeprefix(ATTACHMENT)
            limit = csi_node.limits.get(driver) if csi_node else None
            if name.startswith(PORT):
                left[name] = 1 - held[name]
            else:
                left[name] = int(UNLIMITED) if limit is None else max(0, limit - self.volumes.attached(node, driver))
        return space.vector(left)
