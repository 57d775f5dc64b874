"""Who lives in a cluster beside the controller, turn by turn: kubelets, a scheduler, and who makes pods again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controller.core.api.labels import INSTANCE_TYPE
from controller.core.api.quantity import resources
from controller.kube.resources import NODES, PODS
from tests.reconcilers.conftest import READY, World

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


@dataclass
class Inhabitants:
    """All that they do is done in `turn`, so that a test knows when. `wanted` are workloads: name → pods, cpu each."""

    world: World
    wanted: dict[str, tuple[int, str]] = field(default_factory=dict)
    joining: bool = True
    """Whether kubelets of new instances come up."""
    _made: int = 0

    def turn(self) -> None:
        """Once around."""
        nodes = {node["metadata"]["name"]: node for node in self.world.kube.list(NODES)}
        pods = [pod for pod in self.world.kube.list(PODS, "default") if "app" in (pod["metadata"].get("labels") or {})]
        self._join(nodes)
        staying = [pod for pod in pods if not self._ended(pod, nodes)]
        self._replace(staying)
        for pod in staying:
            if not pod["spec"].get("nodeName"):
                self._schedule(pod, staying, nodes)

    def running(self) -> int:
        """Pods that run on a node that exists."""
        nodes = {node["metadata"]["name"] for node in self.world.kube.list(NODES)}
        pods = [pod for pod in self.world.kube.list(PODS, "default") if pod["status"].get("phase") == "Running"]
        return sum(pod["spec"]["nodeName"] in nodes and "deletionTimestamp" not in pod["metadata"] for pod in pods)

    def _join(self, nodes: dict[str, Any]) -> None:
        running = {instance.provider_id: instance for instance in self.world.cloud.running}
        for node in nodes.values():
            instance = running.get(node["spec"].get("providerID", ""))
            if instance is None or not self.joining or (node.get("status") or {}).get("capacity"):
                continue
            capacity = next(t.capacity for t in self.world.cloud.types if t.name == instance.instance_type)
            room = {"cpu": f"{capacity['cpu']}m", "memory": str(capacity["memory"]), "pods": str(capacity["pods"])}
            status = {"capacity": room, "allocatable": room, "conditions": [READY]}
            name = node["metadata"]["name"]
            node["status"] = self.world.kube.patch(NODES, name, {"status": status}, subresource="status")["status"]
            taints = [t for t in node["spec"].get("taints") or [] if t["key"] != "node.kubernetes.io/not-ready"]
            self.world.kube.patch(NODES, name, {"spec": {"taints": taints or None}})

    def _ended(self, pod: dict[str, Any], nodes: dict[str, Any]) -> bool:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if "deletionTimestamp" in pod["metadata"] or (node and node not in nodes):
            self.world.kube.delete(PODS, name, "default", grace_period_seconds=0)
            return True
        return False

    def _replace(self, pods: list[dict[str, Any]]) -> None:
        for app, (count, cpu) in self.wanted.items():
            have = sum(pod["metadata"]["labels"]["app"] == app for pod in pods)
            for _ in range(count - have):
                self._made += 1
                pods.append(self.make(f"{app}-{self._made}", app, cpu))

    def make(self, name: str, app: str, cpu: str, node: str = "") -> dict[str, Any]:
        """A pod of a workload, bound to a node if one is named."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **({"nodeName": node} if node else {})}
        metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
        made = self.world.kube.create(PODS, {"metadata": metadata, "spec": spec}, "default")
        status = {"phase": "Running"} if node else {"conditions": [UNSCHEDULABLE]}
        self.world.kube.patch(PODS, name, {"status": status}, namespace="default", subresource="status")
        return made

    def _schedule(self, pod: dict[str, Any], pods: list[dict[str, Any]], nodes: dict[str, Any]) -> None:
        for node in nodes.values():
            if self._fits(pod, pods, node):
                target = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}
                name = pod["metadata"]["name"]
                binding = {"metadata": {"name": name}, "target": target}
                self.world.kube.create(PODS, binding, "default", subresource="binding", name=name)
                status = {"phase": "Running", "conditions": [SCHEDULED]}
                self.world.kube.patch(PODS, name, {"status": status}, namespace="default", subresource="status")
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                return

    def _fits(self, pod: dict[str, Any], pods: list[dict[str, Any]], node: dict[str, Any]) -> bool:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in (node["status"].get("conditions") or ()))
        barred = node["spec"].get("unschedulable") or node["spec"].get("taints") or not ready
        if barred or "deletionTimestamp" in node["metadata"]:
            return False
        name = node["metadata"]["name"]
        used = sum(_cpu(other) for other in pods if other["spec"].get("nodeName") == name)
        return used + _cpu(pod) <= resources({"cpu": node["status"]["allocatable"]["cpu"]})["cpu"]


def _cpu(pod: dict[str, Any]) -> int:
    return resources(pod["spec"]["containers"][0]["resources"]["requests"])["cpu"]


def instance_type_of(node: dict[str, Any]) -> str:
    """Its instance type by its label."""
    return str(node["metadata"]["labels"][INSTANCE_TYPE])
