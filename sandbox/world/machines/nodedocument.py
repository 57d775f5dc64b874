"""The Node documents that a kubelet writes: what it creates when there is none, what it reconciles when there is
one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sandbox.world.machines.capacity import MachineShape, allocatable, capacity
from sandbox.world.machines.instances import Instance
from sandbox.world.machines.userdata import AL2, AL2023, BOTTLEROCKET, KubeletOptions
from sandbox.world.resources import Obj

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
ATTACH_DETACH = "volumes.kubernetes.io/controller-managed-attach-detach"
OS_IMAGES = {
    AL2: ("Amazon Linux 2", "5.10.239-236.958.amzn2"),
    AL2023: ("Amazon Linux 2023.8.20250915", "6.12.40-64.114.amzn2023"),
    BOTTLEROCKET: ("Bottlerocket OS 1.46.0 (aws-k8s)", "6.12.37"),
}
NOT_READY = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that is known of one instance when its kubelet starts."""

    instance: Instance
    shape: MachineShape
    options: KubeletOptions
    kubelet_version: str

    @property
    def node_name(self) -> str:
        """The instance's private DNS name, as with the AWS cloud provider."""
        return self.instance.private_dns_name


@dataclass(slots=True)
class Kubelet:
    """What one booted kubelet knows: whether it reports Ready, and which devices their plugins have registered."""

    machine: Machine
    ready: bool = False
    devices: dict[str, int] = field(default_factory=dict)


def default_labels(machine: Machine) -> dict[str, str]:
    """Labels that a kubelet owns and corrects on a Node that it finds."""
    architecture = machine.shape.architecture
    return {
        "kubernetes.io/hostname": machine.node_name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture,
    }


def cloud_labels(instance: Instance) -> dict[str, str]:
    """Labels that the AWS cloud controller adds when it initializes a node."""
    return {
        "node.kubernetes.io/instance-type": instance.instance_type,
        "beta.kubernetes.io/instance-type": instance.instance_type,
        "topology.kubernetes.io/zone": instance.zone,
        "topology.kubernetes.io/region": instance.region,
        "failure-domain.beta.kubernetes.io/zone": instance.zone,
        "failure-domain.beta.kubernetes.io/region": instance.region,
    }


def new_node(machine: Machine, now: str) -> Obj:
    """What the kubelet creates: its own labels and taints, and the taint that the cloud controller takes off."""
    taints = [*machine.options.taints, {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]
    return {
        "metadata": {
            "name": machine.node_name,
            "labels": {**machine.options.labels, **default_labels(machine)},
            "annotations": {ATTACH_DETACH: "true"},
        },
        "spec": {"providerID": machine.instance.provider_id, "taints": taints},
        "status": node_status(machine, ready=False, now=now),
    }


def adoption_patch(machine: Machine, node: Obj) -> Obj | None:
    """What the kubelet corrects on a Node that exists already: default labels and its annotation, no taints, no
    spec."""
    meta = node["metadata"]
    labels = {k: v for k, v in default_labels(machine).items() if (meta.get("labels") or {}).get(k) != v}
    annotated = (meta.get("annotations") or {}).get(ATTACH_DETACH) == "true"
    if not labels and annotated:
        return None
    return {"metadata": {"labels": labels, "annotations": {ATTACH_DETACH: "true"}}}


def node_status(machine: Machine, *, ready: bool, now: str, devices: Mapping[str, int] | None = None) -> Obj:
    """status as a kubelet posts it; `devices` once their plugins have registered."""
    total = capacity(machine.shape, machine.options, machine.instance.disk_gib)
    offered = {name: str(count) for name, count in (devices or {}).items()}
    os_image, kernel = OS_IMAGES[machine.options.family]
    instance = machine.instance
    return {
        "capacity": {**total, **offered},
        "allocatable": {**allocatable(machine.shape, machine.options, total), **offered},
        "conditions": conditions(ready=ready, now=now),
        "addresses": [
            {"type": "InternalIP", "address": instance.private_ip},
            {"type": "InternalDNS", "address": instance.private_dns_name},
            {"type": "Hostname", "address": instance.private_dns_name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": machine.shape.architecture,
            "bootID": f"boot-{instance.instance_id}",
            "containerRuntimeVersion": "containerd://1.7.27",
            "kernelVersion": f"{kernel}.{'aarch64' if machine.shape.architecture == 'arm64' else 'x86_64'}",
            "kubeProxyVersion": "",
            "kubeletVersion": machine.kubelet_version,
            "machineID": instance.instance_id.removeprefix("i-").ljust(32, "0")[:32],
            "operatingSystem": "linux",
            "osImage": os_image,
            "systemUUID": f"ec2{instance.instance_id.removeprefix('i-')}",
        },
    }


def conditions(*, ready: bool, now: str) -> list[Obj]:
    """The four conditions of a kubelet in good health, Ready or waiting for its network."""
    facts = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ]
    calm = [_condition(kind, "False", reason, message, now) for kind, reason, message in facts]
    return [*calm, ready_condition(ready=ready, now=now)]


def ready_condition(*, ready: bool, now: str) -> Obj:
    """Condition Ready: True, or False until the network plugin is there."""
    if ready:
        return _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)
    return _condition("Ready", "False", "KubeletNotReady", NOT_READY, now)


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
