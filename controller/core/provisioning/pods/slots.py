"""Host ports and volume attachments as resources (slots): one of each port, attachments as in the CSINode.

Slot names have a colon, which no Kubernetes resource name has. A port on every address takes the slots of all addresses
that some pod names, and one of its own: so two pods exclude each other exactly if kube-scheduler's NodePorts says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import HostPort, PodSpec, Resources
from controller.core.provisioning.pods.volume_needs import Volumes
from controller.core.provisioning.resource_space import Floats, ResourceSpace
from controller.core.state.snapshot import Snapshot, StateNode

PORT = "port:"
ATTACHMENT = "csi:"
UNLIMITED = 1e6
"""Attachments of a driver of which no limit is known."""
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, never bound
"""hostIP values that stand for every address."""


def is_slot(name: str) -> bool:
    """Whether a column is a slot, not a resource of Kubernetes."""
    return ":" in name


class Ports:
    """Names the slots of host ports. `specs`: every pod spec of the problem, for the addresses that they name."""

    def __init__(self, specs: Iterable[PodSpec]) -> None:
        self._addresses: dict[tuple[str, int], set[str]] = defaultdict(set)
        for spec in specs:
            for port in spec.host_ports:
                self._addresses[(port.protocol, port.port)].add("" if port.ip in WILDCARDS else port.ip)

    def slots(self, ports: Iterable[HostPort]) -> dict[str, int]:
        """The slots that these ports take."""
        taken: dict[str, int] = {}
        for port in ports:
            named = self._addresses.get((port.protocol, port.port), {""})
            addresses = {*named, ""} if port.ip in WILDCARDS else {port.ip}
            taken.update({f"{PORT}{port.protocol}/{port.port}/{address}": 1 for address in addresses})
        return taken


class Slots:
    """Slots of pods and of nodes."""

    def __init__(self, snapshot: Snapshot, specs: Iterable[PodSpec], volumes: Volumes) -> None:
        self.ports = Ports(specs)
        self.volumes = volumes
        self._limits: dict[tuple[str, str], float] = {}
        for name in snapshot.csi_nodes.keys() & snapshot.nodes.keys():
            kind = snapshot.nodes[name].node.labels.get(labels.INSTANCE_TYPE, "")
            for driver, limit in snapshot.csi_nodes[name].limits.items():
                key = (kind, driver)
                self._limits[key] = min(limit, self._limits.get(key, UNLIMITED))
        self._csi_nodes = snapshot.csi_nodes

    def requests(self, spec: PodSpec, attachments: Resources) -> Resources:
        """Requests of a pod, slots included."""
        if not spec.host_ports and not attachments:
            return spec.requests
        drivers = {ATTACHMENT + driver: count for driver, count in attachments.items()}
        return FrozenMap({**spec.requests, **self.ports.slots(spec.host_ports), **drivers})

    def on_new(self, space: ResourceSpace, instance_type: str) -> Resources:
        """Slots of a new node. Attachment limits are those of CSINodes of existing nodes of this type."""
        have: dict[str, int] = {}
        for name in space.names:
            if name.startswith(PORT):
                have[name] = 1
            elif name.startswith(ATTACHMENT):
                driver = name.removeprefix(ATTACHMENT)
                limit = self._limits.get((instance_type, driver), UNLIMITED)
                have[name] = int(limit) - self.volumes.shared.get(driver, 0)
        return FrozenMap(have)

    def left_on(self, space: ResourceSpace, node: StateNode) -> Floats:
        """Slots of an existing node less those that its pods hold, as a vector."""
        left: dict[str, int] = {}
        held: dict[str, int] = defaultdict(int)
        for pod in node.pods:
            for name in self.ports.slots(pod.spec.host_ports):
                held[name] += 1
        csi_node = self._csi_nodes.get(node.name)
        for name in space.names:
            if name.startswith(PORT):
                left[name] = 1 - held[name]
            elif name.startswith(ATTACHMENT):
                driver = name.removeprefix(ATTACHMENT)
                limit = csi_node.limits.get(driver) if csi_node else None
                left[name] = int(UNLIMITED) if limit is None else limit - self.volumes.attached(node, driver)
        return space.vector(left)
