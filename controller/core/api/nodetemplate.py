"""A node template: how instances are made on AWS. Spelled by a front end (core.api.front_end)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from controller.core.api.frozen import EMPTY, FrozenMap

ID_KEYS = ("aws-ids", "aws::ids")
"""Keys of a selector whose value is a comma list of ids, as opposed to tags."""
AL2_LAST: Final = (1, 32)
"""The last Kubernetes version for which EKS publishes AL2 images."""


@dataclass(frozen=True, slots=True)
class MetadataOptions:
    """spec.metadataOptions. None: not set; the secure default holds for that member (IMDSv2, hop limit 2)."""

    http_endpoint: str | None = None
    http_protocol_ipv6: str | None = None
    http_put_response_hop_limit: int | None = None
    http_tokens: str | None = None


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """ebs of a block device mapping. `volume_size_bytes` None: the snapshot's size."""

    delete_on_termination: bool | None = None
    encrypted: bool | None = None
    iops: int | None = None
    kms_key_id: str | None = None
    snapshot_id: str | None = None
    throughput: int | None = None
    volume_size_bytes: int | None = None
    volume_type: str | None = None


@dataclass(frozen=True, slots=True)
class BlockDeviceMapping:
    device_name: str
    ebs: BlockDevice


@dataclass(frozen=True, slots=True)
class AWSNodeTemplate:
    """A node template as the controller uses it. None: not set."""

    name: str
    uid: str = ""
    generation: int = 0
    ami_family: str | None = None
    ami_selector: FrozenMap[str, str] = EMPTY
    subnet_selector: FrozenMap[str, str] = EMPTY
    security_group_selector: FrozenMap[str, str] = EMPTY
    instance_profile: str | None = None
    launch_template: str | None = None
    user_data: str | None = None
    tags: FrozenMap[str, str] = EMPTY
    metadata_options: MetadataOptions = field(default_factory=MetadataOptions)
    block_device_mappings: tuple[BlockDeviceMapping, ...] | None = None
    context: str | None = None
    detailed_monitoring: bool | None = None
    deleted_at: float | None = None
    resource_version: str = field(default="", compare=False)


def has_al2(version: str) -> bool:
    """Return whether EKS publishes AL2 images for a Kubernetes version such as 1.32; False if it cannot be parsed."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) <= AL2_LAST


def default_ami_family(version: str) -> str:
    """Return the family of a template that names none: AL2, as in Karpenter v0.27, where EKS has it, else AL2023."""
    return "AL2" if has_al2(version) else "AL2023"


def comma_list(text: str) -> list[str]:
    """Return the trimmed parts of a selector's value between commas, empty ones left out."""
    return [part.strip() for part in text.split(",") if part.strip()]
