"""AMIs: the node images that AWS and others publish for EKS, and those that a user registers.

Published images carry the field's naming, owners and devices; their ids are made from region and name, so they are the
same in every run. Each has a predecessor a few weeks older, so that "the newest" means something.
Sources: EKS user guide "Retrieve recommended AMI IDs" (AL2, AL2023, Bottlerocket), Canonical's "Find Ubuntu images on
AWS"; AL2 images for EKS end with 1.32, Ubuntu 20.04's with 1.29.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.aws import filters
from sandbox.aws.paging import page
from sandbox.aws.seeded import Seeded
from sandbox.aws.wire import AwsError, Params

AL2_LAST_MINOR, FOCAL_LAST_MINOR = 32, 29
"""The last minor versions of Kubernetes for which there are images of AL2 and of Ubuntu 20.04."""
_UBUNTU_RELEASES = (("20.04", "focal", "gp2"), ("22.04", "jammy", "gp2"), ("24.04", "noble", "gp3"))
VERSIONS = tuple(f"1.{minor}" for minor in range(24, 36))
EKS_OWNER, BOTTLEROCKET_OWNER, CANONICAL_OWNER = "602401143452", "092701018921", "099720109477"
_NEWEST, _PREVIOUS = dt.datetime(2025, 11, 12, tzinfo=dt.UTC), dt.datetime(2025, 10, 16, tzinfo=dt.UTC)
_ARCHITECTURES = ("x86_64", "arm64")
_FILTERS = {"image-id", "name", "architecture", "owner-id", "owner-alias", "state", "is-public", "root-device-name",
            "root-device-type", "virtualization-type", "description", "image-type", "creation-date"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """One volume of an image. `size_gib` is the snapshot's size: a smaller volume is refused."""

    name: str
    size_gib: int
    snapshot_id: str


@dataclass(slots=True)
class Image:
    """An AMI. The first device is the root."""

    id: str
    name: str
    architecture: str
    owner_id: str
    owner_alias: str | None
    created_at: dt.datetime
    devices: tuple[Device, ...]
    public: bool = True
    tags: dict[str, str] = field(default_factory=dict)
    parameters: tuple[tuple[str, str], ...] = ()
    """SSM parameter names and values that point at it."""

    def retag(self, tags: dict[str, str]) -> None:
        """Give it these tags instead of those it has."""
        self.tags = tags


class Images:
    """The AMIs of one region. A family ends where its vendor stopped publishing it."""

    def __init__(self, region: str, account: str, seeded: Seeded) -> None:
        self._account = account
        self._seeded = seeded
        self.by_id: dict[str, Image] = {image.id: image for image in _published(region)}

    def parameters(self) -> dict[str, str]:
        """SSM parameter name -> value, for all published images."""
        return {name: value for image in self.by_id.values() for name, value in image.parameters}

    def describe(self, params: Params) -> Params:
        """DescribeImages: ids, Owners (self, amazon, account ids), filters, paging."""
        wanted = params.get("Filters", [])
        filters.check(wanted, _FILTERS.__contains__)
        ids = params.get("ImageIds", [])
        for image_id in ids:
            self.get(image_id)
        owners = {self._account if owner == "self" else owner for owner in params.get("Owners", [])}
        found = [
            image
            for image in self.by_id.values()
            if (not ids or image.id in ids)
            and (not owners or image.owner_id in owners or image.owner_alias in owners)
            and filters.matches(image, wanted, _filter_values, image.tags)
        ]
        some, token = page(found, params, default_size=None, error_code="InvalidNextToken")
        return {"Images": [_entry(image) for image in some], "NextToken": token}

    def get(self, image_id: str) -> Image:
        """Raises InvalidAMIID.Malformed or InvalidAMIID.NotFound."""
        if not image_id.startswith("ami-"):
            raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
        if image_id not in self.by_id:
            raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
        return self.by_id[image_id]

    def register(self, params: Params, now: dt.datetime) -> Params:
        """RegisterImage: an image of the user's own account."""
        if not params.get("Name"):
            raise AwsError("MissingParameter", "The request must contain the parameter name")
        mappings = params.get("BlockDeviceMappings") or [{"DeviceName": "/dev/xvda"}]
        devices = tuple(
            Device(
                m["DeviceName"],
                m.get("Ebs", {}).get("VolumeSize", 8),
                m.get("Ebs", {}).get("SnapshotId") or self._seeded.hex_id("snap"),
            )
            for m in mappings
        )
        tags = {t["Key"]: t["Value"] for spec in params.get("TagSpecifications", []) for t in spec.get("Tags", [])}
        image = Image(
            id=self._seeded.hex_id("ami"), name=params["Name"], architecture=params.get("Architecture", "i386"),
            owner_id=self._account, owner_alias=None, created_at=now, devices=devices, public=False, tags=tags,
        )  # fmt: skip
        self.by_id[image.id] = image
        return {"ImageId": image.id}

    def deregister(self, params: Params) -> Params:
        """DeregisterImage."""
        image = self.get(params.get("ImageId", ""))
        if image.owner_id != self._account:
            raise AwsError("AuthFailure", f"Not authorized for image:{image.id}")
        del self.by_id[image.id]
        return {"Return": True}


def _filter_values(image: Image, name: str) -> list[str] | None:
    values: dict[str, list[str]] = {
        "image-id": [image.id],
        "name": [image.name],
        "description": [image.name],
        "architecture": [image.architecture],
        "owner-id": [image.owner_id],
        "owner-alias": [image.owner_alias] if image.owner_alias else [],
        "state": ["available"],
        "is-public": [str(image.public).lower()],
        "root-device-name": [image.devices[0].name],
        "root-device-type": ["ebs"],
        "virtualization-type": ["hvm"],
        "image-type": ["machine"],
        "creation-date": [_creation_date(image)],
    }
    return values.get(name)


def _creation_date(image: Image) -> str:
    return image.created_at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _entry(image: Image) -> dict[str, Any]:
    devices = [
        {
            "DeviceName": d.name,
            "Ebs": {
                "SnapshotId": d.snapshot_id,
                "VolumeSize": d.size_gib,
                "VolumeType": "gp2",
                "DeleteOnTermination": True,
                "Encrypted": False,
            },
        }
        for d in image.devices
    ]
    return {
        "ImageId": image.id, "Name": image.name, "Description": image.name, "Architecture": image.architecture,
        "OwnerId": image.owner_id, "ImageOwnerAlias": image.owner_alias, "CreationDate": _creation_date(image),
        "State": "available", "Public": image.public, "ImageType": "machine", "VirtualizationType": "hvm",
        "Hypervisor": "xen", "EnaSupport": True, "PlatformDetails": "Linux/UNIX", "RootDeviceType": "ebs",
        "RootDeviceName": image.devices[0].name, "BlockDeviceMappings": devices,
        "Tags": [{"Key": k, "Value": v} for k, v in image.tags.items()],
    }  # fmt: skip


def _published(region: str) -> Iterator[Image]:
    for version in VERSIONS:
        if int(version.partition(".")[2]) <= AL2_LAST_MINOR:
            yield from _amazon_linux_2(region, version)
        yield from _amazon_linux_2023(region, version)
        yield from _bottlerocket(region, version)
        yield from _ubuntu(region, version)


def _amazon_linux_2(region: str, version: str) -> Iterator[Image]:
    variants = (("amazon-eks-node", "amazon-linux-2", "x86_64"),
                ("amazon-eks-gpu-node", "amazon-linux-2-gpu", "x86_64"),
                ("amazon-eks-arm64-node", "amazon-linux-2-arm64", "arm64"))  # fmt: skip
    for prefix, path, architecture in variants:
        base = f"/aws/service/eks/optimized-ami/{version}/{path}/recommended"
        yield from _releases(
            region,
            f"{prefix}-{version}-v{{date}}",
            architecture,
            EKS_OWNER,
            (("/dev/xvda", 20),),
            base + "/image_id",
            base + "/image_name",
        )


def _amazon_linux_2023(region: str, version: str) -> Iterator[Image]:
    variants = [(a, v) for a in _ARCHITECTURES for v in ("standard", "nvidia")] + [("x86_64", "neuron")]
    for architecture, variant in variants:
        base = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/recommended"
        name = f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{{date}}"
        yield from _releases(
            region, name, architecture, EKS_OWNER, (("/dev/xvda", 20),), base + "/image_id", base + "/image_name"
        )


def _bottlerocket(region: str, version: str) -> Iterator[Image]:
    for variant in (f"aws-k8s-{version}", f"aws-k8s-{version}-nvidia"):
        for architecture in _ARCHITECTURES:
            base = f"/aws/service/bottlerocket/{variant}/{architecture}/latest"
            name = f"bottlerocket-{variant}-{architecture}-v1.{{date}}"
            devices = (("/dev/xvda", 2), ("/dev/xvdb", 20))
            yield from _releases(region, name, architecture, BOTTLEROCKET_OWNER, devices, base + "/image_id", None)


def _ubuntu(region: str, version: str) -> Iterator[Image]:
    for release, codename, volume in _UBUNTU_RELEASES:
        if release == "20.04" and int(version.partition(".")[2]) > FOCAL_LAST_MINOR:
            continue
        for architecture, debian in (("x86_64", "amd64"), ("arm64", "arm64")):
            base = f"/aws/service/canonical/ubuntu/eks/{release}/{version}/stable/current/{debian}/hvm/ebs-{volume}"
            name = f"ubuntu-eks/k8s_{version}/images/hvm-ssd/ubuntu-{codename}-{release}-{debian}-server-{{date}}"
            yield from _releases(
                region, name, architecture, CANONICAL_OWNER, (("/dev/sda1", 20),), base + "/ami-id", None
            )


def _releases(
    region: str,
    name: str,
    architecture: str,
    owner: str,
    devices: tuple[tuple[str, int], ...],
    id_path: str,
    name_path: str | None,
) -> Iterator[Image]:
    for created in (_PREVIOUS, _NEWEST):
        full = name.format(date=created.strftime("%Y%m%d"))
        digest = hashlib.blake2b(f"{region}/{full}".encode(), digest_size=32).hexdigest()
        image_id = f"ami-0{digest[:16]}"
        parameters = ((id_path, image_id), *(((name_path, full),) if name_path else ()))
        yield Image(
            id=image_id, name=full, architecture=architecture, owner_id=owner,
            owner_alias=None if owner == CANONICAL_OWNER else "amazon", created_at=created,
            devices=tuple(Device(d, size, f"snap-0{digest[16 + i : 32 + i]}") for i, (d, size) in enumerate(devices)),
            parameters=parameters if created == _NEWEST else (),
        )  # fmt: skip
