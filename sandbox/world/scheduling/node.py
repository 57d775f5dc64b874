"""A node as the scheduler sees it, with the pods on it; mutable, because pods are assumed onto it before they are
bound."""

from __future__ import annotations

from sandbox.world.resources import Obj
from sandbox.world.scheduling.pod import HostPort, PodInfo
from sandbox.world.scheduling.quantity import amounts
from sandbox.world.scheduling.taints import Taint


class NodeInfo:
    """Labels, taints and free room of one node. `requested` is the sum over `pods` (millicores, bytes, counts)."""

    __slots__ = ("allocatable", "labels", "name", "obj", "pods", "requested", "taints", "unschedulable")

    def __init__(self, obj: Obj) -> None:
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {}
        self.update(obj)

    def update(self, obj: Obj) -> None:
        """Take over a new state of the Node object; the pods stay."""
        self.obj = obj
        self.name: str = obj["metadata"]["name"]
        self.labels: dict[str, str] = obj["metadata"].get("labels") or {}
        self.taints = Taint.parse_all(obj)
        self.unschedulable = bool((obj.get("spec") or {}).get("unschedulable"))
        status = obj.get("status") or {}
        self.allocatable = amounts(status.get("allocatable") or status.get("capacity"))

    def add(self, pod: PodInfo) -> None:
        """Count a pod; adding it again replaces it."""
        self.remove(pod.uid)
        self.pods[pod.uid] = pod
        for name, quantity in pod.requests.items():
            self.requested[name] = self.requested.get(name, 0) + quantity

    def remove(self, uid: str) -> bool:
        """Forget a pod; whether it was there."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return False
        for name, quantity in pod.requests.items():
            self.requested[name] -= quantity
        return True

    def used_ports(self) -> set[HostPort]:
        """Host ports that the pods here hold."""
        return {port for pod in self.pods.values() for port in pod.host_ports}


def scheduling_fields(obj: Obj) -> tuple[object, ...]:
    """What of a Node can change a verdict: heartbeats and conditions do not."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    return meta.get("labels"), spec.get("taints"), spec.get("unschedulable"), status.get("allocatable")
