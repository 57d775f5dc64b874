"""What AWS charges for a node beside its instance: volumes, a public IPv4 address, detailed monitoring.

Sources: the pages Amazon EBS pricing, Amazon VPC pricing and Amazon CloudWatch pricing, November 2026. EBS prices are
those of us-east-1 times the region's price of gp3 over that of us-east-1; a region that is not listed has `ELSEWHERE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.aws.amifamily import family_of
from controller.aws.amifamily.family import GIB
from controller.core.api.nodetemplate import AWSNodeTemplate, BlockDevice

HOURS_A_MONTH = 730.0
PUBLIC_ADDRESS = 0.005
"""$/hour of a public IPv4 address, in every region."""
DETAILED_MONITORING = 7 * 0.30 / HOURS_A_MONTH
"""$/hour of the seven metrics of an instance."""
DEFAULT_GIB = 20.0
"""Of a volume whose size its snapshot or its image decides."""


@dataclass(frozen=True, slots=True)
class VolumePrice:
    """$ a month in us-east-1, of a GiB, and of each IOPS and MiB/s beyond those that are included."""

    gib: float
    iops: float = 0.0
    free_iops: int = 0
    throughput: float = 0.0
    free_throughput: int = 0


VOLUME_PRICES: Final = {
    "gp3": VolumePrice(0.08, iops=0.005, free_iops=3000, throughput=0.04, free_throughput=125),
    "gp2": VolumePrice(0.10),
    "io1": VolumePrice(0.125, iops=0.065),
    "io2": VolumePrice(0.125, iops=0.065),
    "st1": VolumePrice(0.045),
    "sc1": VolumePrice(0.015),
    "standard": VolumePrice(0.05),
}
EC2_DEFAULT = "gp2"
"""The type of a volume that names none."""
GP3_PRICES: Final = {
    "us-east-1": 0.08, "us-east-2": 0.08, "us-west-2": 0.08, "us-west-1": 0.096, "ca-central-1": 0.088,
    "eu-west-1": 0.088, "eu-west-2": 0.0928, "eu-west-3": 0.0928, "eu-central-1": 0.0952, "eu-north-1": 0.0836,
    "eu-south-1": 0.0924, "ap-south-1": 0.0912, "ap-southeast-1": 0.096, "ap-southeast-2": 0.096,
    "ap-northeast-1": 0.096, "ap-northeast-2": 0.0912, "ap-northeast-3": 0.096, "sa-east-1": 0.152,
    "us-gov-west-1": 0.096, "us-gov-east-1": 0.096,
}  # fmt: skip
"""$ a GiB and month."""
ELSEWHERE = 0.1


def node_charges(template: AWSNodeTemplate, region: str) -> float:
    """Return the $/hour of a template's volumes and monitoring. Raises NodeTemplateError for an unknown AMI family.

    Volumes that its image or its launch template decides count as one of `DEFAULT_GIB`, gp3.
    """
    mappings = template.block_device_mappings
    if mappings is None and not template.launch_template:
        mappings = family_of(template).block_devices
    devices = [mapping.ebs for mapping in mappings or ()] or [BlockDevice(volume_type="gp3")]
    factor = GP3_PRICES.get(region, ELSEWHERE) / GP3_PRICES["us-east-1"]
    volumes = factor * sum(map(_month, devices)) / HOURS_A_MONTH
    return volumes + (DETAILED_MONITORING if template.detailed_monitoring else 0.0)


def _month(device: BlockDevice) -> float:
    """Return the $ a month in us-east-1. A volume type that is not known is priced as gp3."""
    price = VOLUME_PRICES.get(device.volume_type or EC2_DEFAULT, VOLUME_PRICES["gp3"])
    size = DEFAULT_GIB if device.volume_size_bytes is None else device.volume_size_bytes / GIB
    iops = max(0, (device.iops or 0) - price.free_iops)
    throughput = max(0, (device.throughput or 0) - price.free_throughput)
    return size * price.gib + iops * price.iops + throughput * price.throughput
