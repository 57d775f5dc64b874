"""What a kubelet reports of its machine: capacity as the kernel sees it, allocatable as the AMI's bootstrap reserves
it.

Rules: EKS AMI bootstrap (kube-reserved memory 11 Mi a pod + 255 Mi, the cpu ladder, 1 Gi of disk), the kubelet's
default
hard eviction thresholds of EKS AMIs (memory.available 100Mi, nodefs.available 10 %), the VPC CNI's pods per ENI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.world.machines.userdata import BOTTLEROCKET, KubeletOptions
from sandbox.world.scheduling.quantity import parse, value

MI, GI = 1024**2, 1024**3
KERNEL_SHARE_PERCENT = 5
"""Memory that firmware and kernel keep, so that capacity is below the type's nominal size. EKS nodes show 2 to 8 %."""
FILESYSTEM_SHARE_KIB = 12_308
"""What XFS takes of a volume: a 20 GiB root shows 20959212Ki."""
CPU_LADDER = ((1, 60), (1, 10), (2, 5))
"""(cores, millicores reserved per core); 2.5 millicores for each core beyond."""
GPU_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}
NEURON_RESOURCE = "aws.amazon.com/neuron"


@dataclass(frozen=True, slots=True)
class MachineShape:
    """One instance type in plain numbers."""

    instance_type: str
    architecture: str
    vcpus: int
    memory_bytes: int
    eni_pods: int
    devices: Mapping[str, int]
    """Extended resources that device plugins will offer."""
    nitro: bool = True

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> MachineShape:
        """From one entry of DescribeInstanceTypes."""
        network = row["NetworkInfo"]
        card = network.get("DefaultNetworkCardIndex") or 0
        cards = {c["NetworkCardIndex"]: c["MaximumNetworkInterfaces"] for c in network.get("NetworkCards") or ()}
        interfaces = cards.get(card, network["MaximumNetworkInterfaces"])
        architectures = row["ProcessorInfo"]["SupportedArchitectures"]
        return cls(
            instance_type=row["InstanceType"],
            architecture="arm64" if "arm64" in architectures else "amd64",
            vcpus=row["VCpuInfo"]["DefaultVCpus"],
            memory_bytes=row["MemoryInfo"]["SizeInMiB"] * MI,
            eni_pods=interfaces * (network["Ipv4AddressesPerInterface"] - 1) + 2,
            devices=_devices(row),
            nitro=row.get("Hypervisor") != "xen",
        )


def _devices(row: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for gpu in (row.get("GpuInfo") or {}).get("Gpus") or ():
        resource = GPU_RESOURCES.get(gpu["Manufacturer"])
        if resource:
            found[resource] = found.get(resource, 0) + gpu["Count"]
    neurons = (row.get("InferenceAcceleratorInfo") or {}).get("Accelerators") or ()
    if neurons:
        found[NEURON_RESOURCE] = sum(accelerator["Count"] for accelerator in neurons)
    return found


def capacity(shape: MachineShape, options: KubeletOptions, disk_gib: int) -> dict[str, str]:
    """status.capacity without devices."""
    memory_kib = shape.memory_bytes * (100 - KERNEL_SHARE_PERCENT) // 100 // 1024
    return {
        "cpu": str(shape.vcpus),
        "memory": f"{memory_kib}Ki",
        "ephemeral-storage": f"{disk_gib * 1024 * 1024 - FILESYSTEM_SHARE_KIB}Ki",
        "pods": str(pod_limit(shape, options)),
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }


def pod_limit(shape: MachineShape, options: KubeletOptions) -> int:
    """max-pods if set, else what the ENIs allow; no more than pods-per-core allows."""
    limit = options.max_pods or shape.eni_pods
    return min(limit, options.pods_per_core * shape.vcpus) if options.pods_per_core else limit


def allocatable(shape: MachineShape, options: KubeletOptions, total: Mapping[str, str]) -> dict[str, str]:
    """status.allocatable: capacity less kube-reserved, system-reserved and the hard eviction thresholds."""
    kept = _reserved(shape, options)
    memory, disk = value(total["memory"]), value(total["ephemeral-storage"])
    signals = options.eviction_hard
    memory -= kept["memory"] + _threshold(signals.get("memory.available", "100Mi"), memory)
    disk -= kept["ephemeral-storage"] + _threshold(signals.get("nodefs.available", "10%"), disk)
    return {
        **total,
        "cpu": f"{shape.vcpus * 1000 - kept['cpu']}m",
        "memory": f"{max(0, memory) // 1024}Ki",
        "ephemeral-storage": str(max(0, disk)),
    }


def _reserved(shape: MachineShape, options: KubeletOptions) -> dict[str, int]:
    """Millicores and bytes."""
    pods = pod_limit(shape, options) if options.family == BOTTLEROCKET else shape.eni_pods
    kept = {"cpu": reserved_millicores(shape.vcpus), "memory": (11 * pods + 255) * MI, "ephemeral-storage": GI}
    for name, text in options.kube_reserved.items():
        kept[name] = int(parse(text) * 1000) if name == "cpu" else value(text)
    for name, text in options.system_reserved.items():
        kept[name] = kept.get(name, 0) + (int(parse(text) * 1000) if name == "cpu" else value(text))
    return kept


def reserved_millicores(vcpus: int) -> int:
    """6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest."""
    left, kept = vcpus, 0.0
    for cores, each in CPU_LADDER:
        step = min(left, cores)
        kept += step * each
        left -= step
    return int(kept + left * 2.5)


def _threshold(text: str, total: int) -> int:
    if text.endswith("%"):
        return int(total * parse(text[:-1]) / 100)
    return value(text)
