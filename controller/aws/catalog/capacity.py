"""Capacity of a node of an instance type, and the overhead that kubelet, system and eviction threshold keep.

Pure formulas. Sources: the EKS AMIs' bootstrap script (kube-reserved), the VPC CNI's ENI formula, Kubernetes' "Reserve
Compute Resources" page, and Karpenter v0.27's rules. Unlike in v0.27, an evictionSoft never lowers the kubelet's hard
default: with evictionSoft 50Mi alone, v0.27 reserved 50Mi, and the node evicted pods that had been placed on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.aws.amifamily.family import GIB
from controller.aws.api.type_info import TypeInfo
from controller.aws.network.node_addresses import PREFIX_ADDRESSES
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Resources
from controller.core.api.provisioner import KubeletConfiguration
from controller.core.api.quantity import nanos, resources, units_ceil
from controller.core.cloud import Interfaces

MIB = 2**20
GB = 10**9
"""Unit in which EC2 states the size of instance stores."""

DEFAULT_STORAGE_BYTES = 20 * GIB
"""Size of the root or data device where the template sets none."""

DEFAULT_MAX_PODS = 110
"""The kubelet's default."""

LARGE_VCPUS = 30
LARGE_MAX_PODS = 250
"""AWS's recommendation for types with at least LARGE_VCPUS (max-pods-calculator.sh of awslabs/amazon-eks-ami)."""

EVICTION_MEMORY_BYTES = 100 * MIB
"""The kubelet's default evictionHard memory.available."""

EVICTION_STORAGE_PERCENT = "10"
"""The kubelet's default evictionHard nodefs.available."""

CPU_LADDER = ((1000, 600), (1000, 100), (2000, 50), (None, 25))
"""kube-reserved cpu: (width of the step in millicores, ten-thousandths reserved), from the EKS AMIs' bootstrap.sh."""


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """Everything beside the instance type that capacity depends on: settings, AMI family, kubelet, storage."""

    vm_memory_overhead: float = 0.075
    """Share of the nominal memory that hypervisor and kernel keep."""
    eni_limited_pods: bool = True
    pod_eni: bool = False
    storage_bytes: int = DEFAULT_STORAGE_BYTES
    kubelet: KubeletConfiguration = field(default_factory=KubeletConfiguration)
    eni_limited_memory_overhead: bool = True
    """kube-reserved memory follows from the ENI formula whatever number of pods is set (all but Bottlerocket)."""
    supports_pods_per_core: bool = True
    supports_eviction_soft: bool = True
    branch_interfaces: FrozenMap[str, int] = EMPTY
    """Branch network interfaces by instance type, of trunking-capable types."""
    prefix_delegation: bool = False
    """Interfaces get prefixes of 16 addresses (on Nitro types only)."""
    reserved_enis: int = 0
    """Interfaces without addresses of pods."""
    instance_store: bool = False
    """NVMe disks of a type that has some are its data device, as one array."""


def interfaces(info: TypeInfo, reserved: int, prefixes: bool) -> Interfaces:
    """Return the interfaces with addresses of pods, without `reserved` ones; prefixes are for Nitro types alone."""
    usable = max(0, info.max_interfaces - reserved)
    return Interfaces(usable, info.ipv4_per_interface, prefixes and info.hypervisor != "xen")


def eni_limited_pods(info: TypeInfo, reserved: int = 0) -> int:
    """Return the pods that the VPC CNI has addresses for: interfaces x (addresses per interface - 1) + 2.

    The 2 are pods of the host's network. `reserved`: interfaces without addresses of pods.
    """
    return max(0, info.max_interfaces - reserved) * (info.ipv4_per_interface - 1) + 2


def prefix_limited_pods(info: TypeInfo, reserved: int) -> int:
    """Return the pods that the VPC CNI has addresses for with delegated prefixes, up to AWS's recommendation.

    Source: max-pods-calculator.sh of awslabs/amazon-eks-ami. Types that are not Nitro have no prefixes.
    """
    if info.hypervisor == "xen":
        return eni_limited_pods(info, reserved)
    most = DEFAULT_MAX_PODS if info.vcpus < LARGE_VCPUS else LARGE_MAX_PODS
    interfaces = max(0, info.max_interfaces - reserved)
    return min(most, interfaces * (info.ipv4_per_interface - 1) * PREFIX_ADDRESSES + 2)


def pod_capacity(info: TypeInfo, rules: CapacityRules) -> int:
    """Return how many pods the kubelet admits."""
    if rules.kubelet.max_pods is not None:
        count = rules.kubelet.max_pods
    elif not rules.eni_limited_pods:
        count = DEFAULT_MAX_PODS
    else:
        limited = prefix_limited_pods if rules.prefix_delegation else eni_limited_pods
        count = limited(info, rules.reserved_enis)
    per_core = rules.kubelet.pods_per_core or 0
    if per_core > 0 and rules.supports_pods_per_core:
        count = min(count, per_core * info.vcpus)
    return count


def memory_bytes(info: TypeInfo, vm_memory_overhead: float) -> int:
    """Return the memory that the kubelet sees: nominal less the overhead, which is rounded up to whole MiB."""
    return (info.memory_mib - math.ceil(info.memory_mib * vm_memory_overhead)) * MIB


def storage_capacity(info: TypeInfo, rules: CapacityRules) -> int:
    """Return the bytes of the data device: the instance store where in use and the type has one, else the volume."""
    if rules.instance_store and info.local_nvme_gb:
        return info.local_nvme_gb * GB
    return rules.storage_bytes


def capacity(info: TypeInfo, rules: CapacityRules, memory: int | None = None) -> Resources:
    """Return Node.status.capacity: cpu in millicores, the rest in units; resources that the type lacks are left out.

    `memory` is the memory learned from joined nodes, in bytes; None: the nominal memory less the overhead.
    """
    amounts = {
        "cpu": info.vcpus * 1000,
        "memory": memory_bytes(info, rules.vm_memory_overhead) if memory is None else memory,
        "ephemeral-storage": storage_capacity(info, rules),
        "pods": pod_capacity(info, rules),
        "nvidia.com/gpu": info.devices("NVIDIA"),
        "amd.com/gpu": info.devices("AMD"),
        "habana.ai/gaudi": info.devices("Habana"),
        "aws.amazon.com/neuron": sum(device.count for device in info.accelerators),
        "vpc.amazonaws.com/pod-eni": rules.branch_interfaces.get(info.name, 0) if rules.pod_eni else 0,
    }
    return FrozenMap({name: amount for name, amount in amounts.items() if amount})


def overhead(info: TypeInfo, rules: CapacityRules, memory: int | None = None) -> Resources:
    """Return kube-reserved + system-reserved + eviction threshold; `memory` as in `capacity`.

    Raises ValueError for a quantity that cannot be read.
    """
    total: dict[str, int] = {}
    for part in (
        kube_reserved(info, rules),
        resources(rules.kubelet.system_reserved),
        eviction_threshold(info, rules, memory),
    ):
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return FrozenMap(total)


def kube_reserved(info: TypeInfo, rules: CapacityRules) -> Resources:
    """Return the AMI's defaults, each replaced where kubeletConfiguration.kubeReserved names it."""
    pods = eni_limited_pods(info) if rules.eni_limited_memory_overhead else pod_capacity(info, rules)
    reserved = {"cpu": reserved_millicores(info.vcpus), "memory": (11 * pods + 255) * MIB, "ephemeral-storage": GIB}
    reserved.update(resources(rules.kubelet.kube_reserved))
    return FrozenMap(reserved)


def reserved_millicores(vcpus: int) -> int:
    """Return 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest, each rounded down."""
    left = vcpus * 1000
    reserved = 0
    for width, share in CPU_LADDER:
        taken = left if width is None else min(left, width)
        reserved += taken * share // 10_000
        left -= taken
    return reserved


def eviction_threshold(info: TypeInfo, rules: CapacityRules, memory: int | None = None) -> Resources:
    """Return the memory and storage, in bytes, below which the kubelet evicts pods. `memory` as in `capacity`."""
    memory = memory_bytes(info, rules.vm_memory_overhead) if memory is None else memory
    storage = storage_capacity(info, rules)
    hard, soft = rules.kubelet.eviction_hard, rules.kubelet.eviction_soft
    if not rules.supports_eviction_soft:
        soft = FrozenMap()
    return FrozenMap(
        {
            "memory": max(
                _signal(hard, "memory.available", memory, EVICTION_MEMORY_BYTES),
                _signal(soft, "memory.available", memory, 0),
            ),
            "ephemeral-storage": max(
                _signal(hard, "nodefs.available", storage, percent_of(EVICTION_STORAGE_PERCENT, storage)),
                _signal(soft, "nodefs.available", storage, 0),
            ),
        }
    )


def _signal(thresholds: Mapping[str, str], signal: str, total: int, default: int) -> int:
    """Return the bytes of a threshold given as a quantity or a percentage; 100 % switches the signal off (0)."""
    text = thresholds.get(signal)
    if text is None:
        return default
    if text.endswith("%"):
        return 0 if nanos(text[:-1]) >= nanos(100) else percent_of(text[:-1], total)
    return units_ceil(nanos(text))


def percent_of(percent: str, total: int) -> int:
    """Return ceil(total x percent / 100), exactly. Raises ValueError when `percent` is not a number."""
    return -(-total * nanos(percent) // nanos(100))
