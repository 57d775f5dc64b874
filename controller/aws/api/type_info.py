"""One EC2 instance type as described by DescribeInstanceTypes, and the labels of its nodes.

Sources: EC2 API reference (InstanceTypeInfo), Karpenter v0.27's well-known labels. Unlike in v0.27, Trainium and
Inferentia2 are read from NeuronInfo, and the network bandwidth from NetworkInfo instead of a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.core.api import labels as keys

ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
"""EC2's names to Kubernetes' (GOARCH)."""

_NAME = re.compile(r"^(?P<category>[a-z]+)(?:-[0-9]+tb)?(?P<generation>[0-9]+)[^.]*\.[^.]+$")
_FIXED_BANDWIDTH = re.compile(r"^(?:(?P<cards>[0-9]+)x )?(?P<gigabits>[0-9.]+) Gigabit$")

DERIVED = keys.WELL_KNOWN - {keys.PROVISIONER_NAME, keys.ZONE, keys.CAPACITY_TYPE}
"""The labels that an instance type decides; those that a type lacks are absent from its nodes."""


@dataclass(frozen=True, slots=True)
class Device:
    """GPUs or accelerators of one kind; `memory_mib` is of each, 0 when the API does not say."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """What scheduling and launching need of an instance type."""

    name: str
    architecture: str
    """amd64, arm64, or EC2's name of an architecture that Kubernetes does not support."""
    vcpus: int
    memory_mib: int
    capacity_types: tuple[str, ...]
    """spot, on-demand; sorted."""
    hypervisor: str
    """nitro, xen; empty on bare metal."""
    bare_metal: bool
    encryption_in_transit: bool
    bandwidth_mbps: int | None
    max_interfaces: int
    """Network interfaces of the default network card."""
    ipv4_per_interface: int
    local_nvme_gb: int | None
    gpus: tuple[Device, ...] = ()
    accelerators: tuple[Device, ...] = ()

    @property
    def category(self) -> str | None:
        """The letters that the name begins with: c, m, r, inf, trn, hpc, u; None when the name has another form."""
        match = _NAME.match(self.name)
        return match["category"] if match else None

    @property
    def generation(self) -> int | None:
        """The first number after the category (after `-6tb` of high-memory types)."""
        match = _NAME.match(self.name)
        return int(match["generation"]) if match else None

    @property
    def family(self) -> str:
        """The part before the dot."""
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        """The part after the dot."""
        return self.name.partition(".")[2]

    def devices(self, manufacturer: str) -> int:
        """How many GPUs of this manufacturer (as EC2 writes it)."""
        return sum(gpu.count for gpu in self.gpus if gpu.manufacturer == manufacturer)

    def labels(self, region: str, pods: int) -> dict[str, str]:
        """The well-known labels of a node of this type; `pods` is the capacity that kubelet settings leave."""
        labels = {
            keys.INSTANCE_TYPE: self.name,
            keys.ARCH: self.architecture,
            keys.OS: "linux",
            keys.REGION: region,
            keys.INSTANCE_CPU: self.vcpus,
            keys.INSTANCE_MEMORY: self.memory_mib,
            keys.INSTANCE_PODS: pods,
            keys.INSTANCE_HYPERVISOR: self.hypervisor,
            keys.INSTANCE_ENCRYPTION: "true" if self.encryption_in_transit else "false",
            keys.INSTANCE_FAMILY: self.family,
            keys.INSTANCE_SIZE: self.size,
            keys.INSTANCE_CATEGORY: self.category,
            keys.INSTANCE_GENERATION: self.generation,
            keys.INSTANCE_NETWORK_BANDWIDTH: self.bandwidth_mbps,
            keys.INSTANCE_LOCAL_NVME: self.local_nvme_gb,
        }
        if len(self.gpus) == 1:
            gpu = self.gpus[0]
            labels[keys.INSTANCE_GPU_NAME] = _label_value(gpu.name)
            labels[keys.INSTANCE_GPU_MANUFACTURER] = _label_value(gpu.manufacturer)
            labels[keys.INSTANCE_GPU_COUNT] = gpu.count
            labels[keys.INSTANCE_GPU_MEMORY] = gpu.memory_mib
        if len(devices := self.gpus or self.accelerators) == 1:
            labels[keys.INSTANCE_ACCELERATOR_NAME] = _label_value(devices[0].name)
            labels[keys.INSTANCE_ACCELERATOR_MANUFACTURER] = _label_value(devices[0].manufacturer)
            labels[keys.INSTANCE_ACCELERATOR_COUNT] = devices[0].count
            labels[keys.INSTANCE_ACCELERATOR_MEMORY] = devices[0].memory_mib or None
        return {key: str(value) for key, value in labels.items() if value is not None}


def parse_type(info: Mapping[str, Any]) -> TypeInfo:
    """Read one entry of DescribeInstanceTypes. Raises KeyError when a field that every type has is missing."""
    network = info["NetworkInfo"]
    card = _default_card(network)
    storage = info.get("InstanceStorageInfo") or {}
    has_nvme = bool(storage) and storage.get("NvmeSupport") != "unsupported"
    return TypeInfo(
        name=info["InstanceType"],
        architecture=_architecture(info["ProcessorInfo"].get("SupportedArchitectures", ())),
        vcpus=info["VCpuInfo"]["DefaultVCpus"],
        memory_mib=info["MemoryInfo"]["SizeInMiB"],
        capacity_types=tuple(sorted(set(info.get("SupportedUsageClasses", ())) & {keys.SPOT, keys.ON_DEMAND})),
        hypervisor=info.get("Hypervisor", ""),
        bare_metal=bool(info.get("BareMetal")),
        encryption_in_transit=bool(network.get("EncryptionInTransitSupported")),
        bandwidth_mbps=_bandwidth_mbps(network, card),
        max_interfaces=card.get("MaximumNetworkInterfaces", network.get("MaximumNetworkInterfaces", 0)),
        ipv4_per_interface=network.get("Ipv4AddressesPerInterface", 0),
        local_nvme_gb=storage.get("TotalSizeInGB") if has_nvme else None,
        gpus=tuple(_device(gpu) for gpu in (info.get("GpuInfo") or {}).get("Gpus", ())),
        accelerators=_accelerators(info),
    )


def _architecture(supported: list[str]) -> str:
    """The first that Kubernetes supports, else EC2's names."""
    known = [ARCHITECTURES[name] for name in supported if name in ARCHITECTURES]
    return known[0] if known else ",".join(supported)


def _default_card(network: Mapping[str, Any]) -> Mapping[str, Any]:
    index = network.get("DefaultNetworkCardIndex", 0)
    cards = {card.get("NetworkCardIndex"): card for card in network.get("NetworkCards", ())}
    card: Mapping[str, Any] = cards.get(index, {})
    return card


def _bandwidth_mbps(network: Mapping[str, Any], card: Mapping[str, Any]) -> int | None:
    """Megabits/s: the stated rate where it is fixed, else the default network card's baseline."""
    fixed = _FIXED_BANDWIDTH.match(network.get("NetworkPerformance", ""))
    if fixed:
        return round(int(fixed["cards"] or 1) * float(fixed["gigabits"]) * 1000)
    baseline = card.get("BaselineBandwidthInGbps")
    return None if baseline is None else round(baseline * 1000)


def _accelerators(info: Mapping[str, Any]) -> tuple[Device, ...]:
    """Accelerators from InferenceAcceleratorInfo, else from NeuronInfo (Trainium, Inferentia2)."""
    listed = (info.get("InferenceAcceleratorInfo") or {}).get("Accelerators", ())
    if listed:
        return tuple(_device(entry) for entry in listed)
    neuron = (info.get("NeuronInfo") or {}).get("NeuronDevices", ())
    return tuple(_device({"Manufacturer": "AWS", **entry}) for entry in neuron)


def _device(entry: Mapping[str, Any]) -> Device:
    return Device(
        name=entry.get("Name", ""),
        manufacturer=entry.get("Manufacturer", ""),
        count=entry.get("Count", 0),
        memory_mib=(entry.get("MemoryInfo") or {}).get("SizeInMiB", 0),
    )


def _label_value(text: str) -> str:
    return text.lower().replace(" ", "-")
