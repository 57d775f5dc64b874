"""Problems made up from a seed of 400 pods whose volumes nearly fill what nodes can attach.

Standing nodes have a few attachments left, or none, or hold more than their CSINode allows; workloads share claims,
mount several volumes each, or both. In half of the problems so few types are sold that all have limits.
"""

from __future__ import annotations

import random

from bench.generate import ZONES, Object, instance_types
from bench.standing import CAPACITY_TYPE, DRIVER, HOST, POOL, ZONE

TYPES, LIMITED, NODES, PODS, WORKLOADS, SHARED = 30, 3, 24, 400, 20, 14
OTHER = "efs.csi.aws.com"
"""A second driver, without a limit on most nodes."""


def problem(seed: int, pods: int = PODS, workloads: int = WORKLOADS) -> Object:
    """One problem document."""
    chance = random.Random(f"attachments {seed}")
    types = chance.sample(instance_types(chance), chance.choice((LIMITED, TYPES)))
    made = _Made(chance)
    nodes = [_node(number, types, chance) for number in range(chance.randrange(6, NODES))]
    csi_nodes = [made.standing(node) for node in nodes]
    for number in range(workloads):
        made.workload(f"app-{number}", pods // workloads)
    return {
        "instanceTypes": types,
        "nodePools": [{"name": "default", "requirements": []}],
        "nodes": nodes,
        "pods": made.pods,
        "daemonSets": [],
        "namespaces": [{"metadata": {"name": "default", "labels": {}}}],
        "persistentVolumes": made.volumes,
        "persistentVolumeClaims": list(made.claims.values()),
        "storageClasses": [made.storage_class],
        "csiNodes": csi_nodes,
    }


class _Made:
    """Pods, and the claims and volumes that they mount; shared claims are drawn again and again."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.pods: list[Object] = []
        self.volumes: list[Object] = []
        self.claims: dict[str, Object] = {}
        self.storage_class = {
            "metadata": {"name": "wait"},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
        }

    def workload(self, app: str, replicas: int) -> None:
        """Add pods that mount volumes of their own, of others, or of both; some none."""
        requests = {"cpu": self.chance.choice(("100m", "0.5", "1")), "memory": self.chance.choice(("256Mi", "2Gi"))}
        shared = self.chance.sample(range(SHARED), self.chance.choice((0, 0, 1, 1, 2, 3)))
        own, bound = self.chance.choice((0, 0, 1, 1, 2)), self.chance.random() < 0.5
        for number in range(replicas):
            name = f"{app}-{number}"
            mounted = [self.claim(f"shared-{each}", True) for each in shared]
            mounted += [self.claim(f"{name}-{each}", bound) for each in range(own)]
            self.pods.append(_pod(name, requests, mounted))

    def standing(self, node: Object) -> Object:
        """Add the pods that run on a node; its CSINode, which leaves few attachments."""
        name = node["metadata"]["name"]
        held = self.chance.sample(range(SHARED), self.chance.randrange(5))
        mounted = [self.claim(f"shared-{each}", True) for each in held]
        mounted += [self.claim(f"{name}-{each}", True) for each in range(self.chance.randrange(6))]
        for number, claim in enumerate(mounted):
            pod = _pod(f"old-{name}-{number}", {"cpu": "50m", "memory": "64Mi"}, [claim])
            pod["spec"]["nodeName"], pod["status"] = name, {"phase": "Running"}
            self.pods.append(pod)
        count = max(1, len(mounted) + self.chance.choice((-1, 0, 1, 1, 2, 3, 8)))
        drivers = [{"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": count}}]
        return {"metadata": {"name": name}, "spec": {"drivers": drivers}}

    def claim(self, name: str, bound: bool) -> str:
        """A claim of this name, made on first use: bound to a volume that is reached from everywhere, or waiting."""
        if name in self.claims:
            return name
        spec: Object = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "wait",
        }
        metadata: Object = {"name": name, "namespace": "default", "uid": name}
        claim = self.claims[name] = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        if bound:
            driver = OTHER if name == "shared-1" else DRIVER
            self.volumes.append(_volume(name, driver))
            spec["volumeName"] = f"pv-{name}"
            metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            claim["status"] = {"phase": "Bound"}
        return name


def _volume(claim: str, driver: str) -> Object:
    spec: Object = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "wait",
        "csi": {"driver": driver, "volumeHandle": f"vol-{claim}"},
        "claimRef": {"namespace": "default", "name": claim, "uid": claim},
    }
    return {"metadata": {"name": f"pv-{claim}", "labels": {}}, "spec": spec, "status": {"phase": "Bound"}}


def _pod(name: str, requests: Object, claims: list[str]) -> Object:
    spec: Object = {"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]}
    if claims:
        spec["volumes"] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name.rpartition("-")[0]}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _node(number: int, types: list[Object], chance: random.Random) -> Object:
    """A standing node; most are of a type that is sold, so that its CSINode tells what new ones can attach."""
    name = f"node-{number}"
    sold = chance.random() < 0.6
    kind = chance.choice(types)["name"] if sold else "old.large"
    own = {
        "node.kubernetes.io/instance-type": kind,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        ZONE: chance.choice(ZONES),
        CAPACITY_TYPE: chance.choice(("spot", "on-demand")),
        HOST: name,
        POOL: "default",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    }
    size = {"cpu": "16", "memory": "64Gi", "pods": "58", "ephemeral-storage": "20Gi"}
    status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {"providerID": f"aws:///{own[ZONE]}/{name}"}
    return {"metadata": {"name": name, "uid": name, "labels": own}, "spec": spec, "status": status}
