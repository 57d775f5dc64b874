"""Instance types that moto's copy of EC2's answers lacks, as AWS describes them in its guide to instance types.

AWS still prices them in us-east-1. Interfaces and bandwidths come from facts where those have the type
(scripts/aws_facts.py). Which zones still sell them is not known.
"""

from __future__ import annotations

from typing import Any, Final

NVIDIA, BOTH, ON_DEMAND = "NVIDIA", ("on-demand", "spot"), ("on-demand",)


def _type(
    vcpus: int,
    gib: int,
    interfaces: tuple[int, int],
    *,
    gpus: tuple[int, str, str, int] | None = None,
    nvme_gb: int | None = None,
    hypervisor: str = "nitro",
    encrypted: bool = False,
    capacity_types: tuple[str, ...] = BOTH,
) -> dict[str, Any]:
    """`interfaces`: (of the default card, IPv4 addresses of each). `gpus`: (count, manufacturer, name, MiB of each)."""
    devices = [{"name": gpus[2], "manufacturer": gpus[1], "count": gpus[0], "memory_mib": gpus[3]}] if gpus else []
    return {
        "architecture": "amd64",
        "vcpus": vcpus,
        "memory_mib": gib * 1024,
        "capacity_types": list(capacity_types),
        "hypervisor": hypervisor,
        "bare_metal": not hypervisor,
        "encryption_in_transit": encrypted,
        "max_interfaces": interfaces[0],
        "ipv4_per_interface": interfaces[1],
        "local_nvme_gb": nvme_gb,
        "gpus": devices,
        "accelerators": [],
    }


def _xen(vcpus: int, gib: int, interfaces: tuple[int, int], gpus: int, name: str, memory_mib: int) -> dict[str, Any]:
    return _type(vcpus, gib, interfaces, gpus=(gpus, NVIDIA, name, memory_mib), hypervisor="xen")


def _g4ad(vcpus: int, interfaces: tuple[int, int], gpus: int, nvme_gb: int) -> dict[str, Any]:
    own = (gpus, "AMD", "Radeon Pro V520", 8192)
    return _type(vcpus, 4 * vcpus, interfaces, gpus=own, nvme_gb=nvme_gb, encrypted=True)


def _high_memory(tib: int) -> dict[str, Any]:
    return _type(448, tib * 1024, (15, 50), encrypted=True, capacity_types=ON_DEMAND)


_ROWS: Final[dict[str, dict[str, Any]]] = {
    "dl1.24xlarge": _type(96, 768, (15, 50), gpus=(8, "Habana", "Gaudi HL-205", 32_768), nvme_gb=4000, encrypted=True),
    "f1.2xlarge": _type(8, 122, (4, 15), nvme_gb=470, hypervisor="xen"),
    "f1.4xlarge": _type(16, 244, (8, 30), nvme_gb=940, hypervisor="xen"),
    "f1.16xlarge": _type(64, 976, (8, 50), nvme_gb=3760, hypervisor="xen"),
    "g3s.xlarge": _xen(4, 30, (4, 15), 1, "M60", 8192),
    "g3.4xlarge": _xen(16, 122, (8, 30), 1, "M60", 8192),
    "g3.8xlarge": _xen(32, 244, (8, 30), 2, "M60", 8192),
    "g3.16xlarge": _xen(64, 488, (15, 50), 4, "M60", 8192),
    "g4ad.xlarge": _g4ad(4, (2, 4), 1, 150),
    "g4ad.2xlarge": _g4ad(8, (2, 4), 1, 300),
    "g4ad.4xlarge": _g4ad(16, (3, 10), 1, 600),
    "g4ad.8xlarge": _g4ad(32, (4, 15), 2, 1200),
    "g4ad.16xlarge": _g4ad(64, (8, 30), 4, 2400),
    "i3.metal": _type(72, 512, (15, 50), nvme_gb=15_200, hypervisor=""),
    "p2.xlarge": _xen(4, 61, (4, 15), 1, "K80", 12_288),
    "p2.8xlarge": _xen(32, 488, (8, 30), 8, "K80", 12_288),
    "p2.16xlarge": _xen(64, 732, (8, 30), 16, "K80", 12_288),
    "p3.2xlarge": _xen(8, 61, (4, 15), 1, "V100", 16_384),
    "p3.8xlarge": _xen(32, 244, (8, 30), 4, "V100", 16_384),
    "p3.16xlarge": _xen(64, 488, (8, 30), 8, "V100", 16_384),
    "u-9tb1.112xlarge": _high_memory(9),
    "u-12tb1.112xlarge": _high_memory(12),
    "u-18tb1.112xlarge": _high_memory(18),
    "u-24tb1.112xlarge": _high_memory(24),
}
LACKING: Final = {name: {"name": name, **row} for name, row in _ROWS.items()}
"""Rows of the shipped table by name, but for the bandwidth."""
