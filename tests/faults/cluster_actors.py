"""The other actors of a cluster, turn by turn: kubelets, a scheduler, workload controllers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controller.core.api.labels import INSTANCE_TYPE, PROVISIONER_NAME
from controller.core.api.quantity import resources
from controller.core.deprovisioning.surge import RESTARTED_FOR
from controller.errors import ConflictError
from controller.kube.resources import DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from tests.reconcilers.conftest import READY, World

REFERENCE = {"apiVersion": "apps/v1", "controller": True}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}


@dataclass
class ClusterActors:
    """They act in `turn` only, so that a test knows when. `wanted`: pods and cpu of each by name of the workload."""

    world: World
    wanted: dict[str, tuple[int, str]] = field(default_factory=dict)
    pools: dict[str, str] = field(default_factory=dict)
    """By workload: the one Provisioner on whose nodes its pods may run."""
    joining: bool = True
    """Whether new instances join the cluster."""
    ending: bool = True
    """Whether terminating pods end."""
    grace_seconds: int = 0
    deployments: dict[str, str] = field(default_factory=dict)
    """Workloads of one replica that are Deployments, each with the ReplicaSet that makes its pods now."""
    _made: int = 0
    _deployment: dict[str, Any] = field(default_factory=dict)
    _owners: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def turn(self) -> None:
        """Let each actor act once."""
        nodes = {node["metadata"]["name"]: node for node in self.world.kube.list(NODES)}
        pods = [pod for pod in self.world.kube.list(PODS, "default") if "app" in (pod["metadata"].get("labels") or {})]
        self._join(nodes)
        staying = [pod for pod in pods if not self._ended(pod, nodes)]
        for app in self.deployments:
            self._roll_out(app, staying)
        self._replace(staying)
        for pod in staying:
            if not pod["spec"].get("nodeName"):
                self._schedule(pod, staying, nodes)
            elif pod["status"].get("phase") != "Running":
                self._run(pod)

    def deploy(self, app: str, cpu: str) -> None:
        """A Deployment of one; its pod is made at the next turn, unless it is made by hand after this."""
        self.wanted[app] = (1, cpu)
        containers = [{"name": "c", "image": "i"}]
        template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": app}}, "template": template}
        made = {"metadata": {"name": app, "namespace": "default"}, "spec": spec}
        self._deployment = self.world.kube.create(DEPLOYMENTS, made, "default")
        self._replica_set(app, "first")

    def _replica_set(self, app: str, revision: str) -> None:
        """One of that revision makes the pods from now on."""
        owner = {**REFERENCE, "kind": "Deployment", "name": app, "uid": self._deployment["metadata"]["uid"]}
        metadata = {"name": f"{app}-{revision}", "namespace": "default", "ownerReferences": [owner]}
        spec = {"replicas": 1, **{key: self._deployment["spec"][key] for key in ("selector", "template")}}
        made = self.world.kube.create(REPLICA_SETS, {"metadata": metadata, "spec": spec}, "default")["metadata"]
        self._owners[app] = [{**REFERENCE, "kind": "ReplicaSet", "name": made["name"], "uid": made["uid"]}]
        self.deployments[app] = made["name"]

    def _roll_out(self, app: str, pods: list[dict[str, Any]]) -> None:
        """Where a rollout was asked for: the new pod first, then the old one's end (maxSurge 1, maxUnavailable 0)."""
        template = self.world.kube.get(DEPLOYMENTS, app, "default")["spec"]["template"]
        asked = (template["metadata"].get("annotations") or {}).get(RESTARTED_FOR)
        if asked and self.deployments[app] != f"{app}-{asked}":
            self._replica_set(app, asked)
        mine = [pod for pod in pods if pod["metadata"]["labels"]["app"] == app]
        old = [pod for pod in mine if pod["metadata"]["ownerReferences"][0]["name"] != self.deployments[app]]
        if old and len(old) == len(mine):
            self._made += 1
            pods.append(self.make(f"{app}-{self._made}", app, self.wanted[app][1]))
        elif any(pod["spec"].get("nodeName") for pod in mine if pod not in old):
            for pod in old:
                self.world.kube.delete(PODS, pod["metadata"]["name"], "default", grace_period_seconds=0)
                pods.remove(pod)

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
        if ("deletionTimestamp" in pod["metadata"] and self.ending) or (node and node not in nodes):
            self.world.kube.delete(PODS, name, "default", grace_period_seconds=0)
            return True
        return False

    def _replace(self, pods: list[dict[str, Any]]) -> None:
        for app, (count, cpu) in self.wanted.items():
            mine = [pod["metadata"] for pod in pods if pod["metadata"]["labels"]["app"] == app]
            have = sum("deletionTimestamp" not in metadata for metadata in mine)
            for _ in range(count - have):
                self._made += 1
                pods.append(self.make(f"{app}-{self._made}", app, cpu))

    def make(self, name: str, app: str, cpu: str, node: str = "") -> dict[str, Any]:
        """A pod of a workload, bound to a node if one is named."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {
            "containers": [container],
            "terminationGracePeriodSeconds": self.grace_seconds,
            **({"nodeName": node} if node else {}),
        }
        if app in self.pools:
            spec["nodeSelector"] = {PROVISIONER_NAME: self.pools[app]}
        metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"app": app}}
        if app in self.deployments:
            metadata["ownerReferences"] = self._owners[app]
        made = self.world.kube.create(PODS, {"metadata": metadata, "spec": spec}, "default")
        status = {"phase": "Running", "conditions": [READY]} if node else {"conditions": [UNSCHEDULABLE]}
        self.world.kube.patch(PODS, name, {"status": status}, namespace="default", subresource="status")
        return made

    def _schedule(self, pod: dict[str, Any], pods: list[dict[str, Any]], nodes: dict[str, Any]) -> None:
        for node in nodes.values():
            if self._fits(pod, pods, node):
                target = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}
                name = pod["metadata"]["name"]
                binding = {"metadata": {"name": name}, "target": target}
                try:
                    self.world.kube.create(PODS, binding, "default", subresource="binding", name=name)
                except ConflictError:  # the controller has bound it meanwhile
                    return
                self._run(pod)
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                return

    def _run(self, pod: dict[str, Any]) -> None:
        status = {"phase": "Running", "conditions": [SCHEDULED, READY]}
        name = pod["metadata"]["name"]
        self.world.kube.patch(PODS, name, {"status": status}, namespace="default", subresource="status")

    def _fits(self, pod: dict[str, Any], pods: list[dict[str, Any]], node: dict[str, Any]) -> bool:
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in (node["status"].get("conditions") or ()))
        barred = node["spec"].get("unschedulable") or node["spec"].get("taints") or not ready
        if barred or "deletionTimestamp" in node["metadata"]:
            return False
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        if any(labels.get(key) != value for key, value in (pod["spec"].get("nodeSelector") or {}).items()):
            return False
        used = sum(_cpu(other) for other in pods if other["spec"].get("nodeName") == name)
        return used + _cpu(pod) <= resources({"cpu": node["status"]["allocatable"]["cpu"]})["cpu"]


def _cpu(pod: dict[str, Any]) -> int:
    return resources(pod["spec"]["containers"][0]["resources"]["requests"])["cpu"]


def instance_type_of(node: dict[str, Any]) -> str:
    """Its instance type by its label."""
    return str(node["metadata"]["labels"][INSTANCE_TYPE])
