"""From a launch template (or RunInstances' arguments) to an instance: every check that EC2 makes, every field it keeps.

Sources: EC2 API reference of RequestLaunchTemplateData, RunInstances and its error codes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.aws.clock import utc
from sandbox.aws.ec2.catalog import Catalog
from sandbox.aws.ec2.images import Image, Images
from sandbox.aws.ec2.instances import Instance, Instances
from sandbox.aws.ec2.network import Network
from sandbox.aws.seeded import Seeded
from sandbox.aws.wire import AwsError, Params

MAX_USER_DATA_BYTES = 16_384
"""Before base64."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What one instance shall be."""

    instance_type: str
    subnet_id: str
    data: Mapping[str, Any]
    """RequestLaunchTemplateData, or RunInstances' arguments of the same names."""
    spot: bool
    tags: Mapping[str, str]
    volume_tags: Mapping[str, str]
    client_token: str = ""


class Launcher:
    """Checks and launches."""

    def __init__(
        self, network: Network, catalog: Catalog, images: Images, instances: Instances, seeded: Seeded
    ) -> None:
        self._network = network
        self._catalog = catalog
        self._images = images
        self._instances = instances
        self._seeded = seeded

    def launch(self, spec: LaunchSpec, now: float) -> Instance:
        """Launch one instance; raises AwsError when EC2 would refuse."""
        subnet = self._network.subnet(spec.subnet_id)
        zone = subnet.availability_zone
        if zone not in self._catalog.zones(spec.instance_type):
            raise unsupported_zone(spec.instance_type, zone)
        image = self._images.get(spec.data.get("ImageId", ""))
        self._check_image(spec, image)
        groups = self._network.groups(_group_ids(spec.data), subnet.vpc_id, subnet.id)
        profile = self._network.profile(spec.data.get("IamInstanceProfile"))
        _check_user_data(spec.data)
        mappings = _devices(spec.data, image)
        address = self._network.take_address(subnet.id, spec)
        instance_id = self._seeded.hex_id("i")
        volumes = tuple(self._volume(m, instance_id, zone, spec, now) for m in mappings)
        entry = self._entry(spec, image, now) | {
            "InstanceId": instance_id,
            "Placement": {"AvailabilityZone": zone, "GroupName": "", "Tenancy": "default"},
            "PrivateIpAddress": address,
            "PrivateDnsName": _dns_name(address, self._network.region),
            "SubnetId": subnet.id,
            "VpcId": subnet.vpc_id,
            "SecurityGroups": groups,
            "NetworkInterfaces": [self._interface(address, subnet, groups, now)],
            "BlockDeviceMappings": [_mapping_entry(v) for v in volumes],
            **({"IamInstanceProfile": profile} if profile else {}),
        }
        delays = self._instances.delays
        instance = Instance(
            id=instance_id, reservation_id=self._seeded.hex_id("r"), entry=entry, launched_at=now,
            seen_from=now + delays.unseen_seconds, runs_from=now + delays.pending_seconds, tags=dict(spec.tags),
            user_data=str(spec.data.get("UserData") or ""), volumes=volumes, spot=spec.spot,
        )  # fmt: skip
        self._instances.add(instance)
        return instance

    def _check_image(self, spec: LaunchSpec, image: Image) -> None:
        architectures = self._catalog.types[spec.instance_type]["ProcessorInfo"]["SupportedArchitectures"]
        if image.architecture not in architectures:
            raise AwsError(
                "InvalidParameterValue",
                f"The architecture '{','.join(architectures)}' of the specified instance type does not match the "
                "architecture "
                f"'{image.architecture}' of the specified AMI. Specify an instance type and an AMI that have "
                "matching architectures, and try again.",
            )

    def _entry(self, spec: LaunchSpec, image: Image, now: float) -> dict[str, Any]:
        kind = self._catalog.types[spec.instance_type]
        options = spec.data.get("MetadataOptions") or {}
        monitoring = bool((spec.data.get("Monitoring") or {}).get("Enabled"))
        cpus = kind["VCpuInfo"]
        spot = (
            {"InstanceLifecycle": "spot", "SpotInstanceRequestId": self._seeded.hex_id("sir", 8)} if spec.spot else {}
        )
        return {
            "ImageId": image.id, "InstanceType": spec.instance_type, "LaunchTime": utc(now), "AmiLaunchIndex": 0,
            "Architecture": image.architecture, "RootDeviceName": image.devices[0].name, "RootDeviceType": "ebs",
            "VirtualizationType": "hvm", "Hypervisor": "xen", "EnaSupport": True, "SourceDestCheck": True,
            "EbsOptimized": bool(spec.data.get("EbsOptimized")), "ClientToken": spec.client_token,
            "Monitoring": {"State": "enabled" if monitoring else "disabled"},
            "CpuOptions": {"CoreCount": cpus.get("DefaultCores", 1),
            "ThreadsPerCore": cpus.get("DefaultThreadsPerCore", 1)},
            "MetadataOptions": {
                "State": "applied", "HttpTokens": options.get("HttpTokens", "optional"),
                "HttpPutResponseHopLimit": int(options.get("HttpPutResponseHopLimit", 1)),
                "HttpEndpoint": options.get("HttpEndpoint", "enabled"),
                "HttpProtocolIpv6": options.get("HttpProtocolIpv6", "disabled"),
                "InstanceMetadataTags": options.get("InstanceMetadataTags", "disabled"),
            },
            "PlatformDetails": "Linux/UNIX", "UsageOperation": "RunInstances",
            "PrivateDnsNameOptions": {"HostnameType": "ip-name", "EnableResourceNameDnsARecord": False},
            **({"KeyName": spec.data["KeyName"]} if spec.data.get("KeyName") else {}),
            **spot,
        }  # fmt: skip

    def _interface(self, address: str, subnet: Any, groups: list[dict[str, str]], now: float) -> dict[str, Any]:
        attachment = {"AttachTime": utc(now), "AttachmentId": self._seeded.hex_id("eni-attach"),
                      "DeleteOnTermination": True,
                      "DeviceIndex": 0, "Status": "attached"}  # fmt: skip
        return {
            "NetworkInterfaceId": self._seeded.hex_id("eni"), "SubnetId": subnet.id, "VpcId": subnet.vpc_id,
            "Groups": groups,
            "OwnerId": self._network.account, "PrivateIpAddress": address, "Status": "in-use", "Attachment": attachment,
            "PrivateDnsName": _dns_name(address, self._network.region), "SourceDestCheck": True,
        }  # fmt: skip

    def _volume(
        self, mapping: dict[str, Any], instance_id: str, zone: str, spec: LaunchSpec, now: float
    ) -> dict[str, Any]:
        ebs = mapping["Ebs"]
        volume_id = self._seeded.hex_id("vol")
        attachment = {"VolumeId": volume_id, "InstanceId": instance_id, "Device": mapping["DeviceName"],
                      "State": "attached",
                      "AttachTime": utc(now), "DeleteOnTermination": ebs.get("DeleteOnTermination", True)}  # fmt: skip
        optional = {k: ebs[k] for k in ("Iops", "Throughput", "KmsKeyId", "SnapshotId") if ebs.get(k)}
        return {
            "VolumeId": volume_id, "Size": ebs["VolumeSize"], "VolumeType": ebs.get("VolumeType", "gp2"),
            "State": "in-use",
            "Encrypted": bool(ebs.get("Encrypted")), "AvailabilityZone": zone, "CreateTime": utc(now),
            "Attachments": [attachment], "Tags": [{"Key": k, "Value": v} for k, v in spec.volume_tags.items()],
            **optional,
        }  # fmt: skip


def unsupported_zone(instance_type: str, zone: str) -> AwsError:
    """EC2's refusal of a type where it is not offered."""
    return AwsError(
        "Unsupported",
        f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
        f"({zone}).",
    )


def tags_for(resource: str, *specifications: Any) -> dict[str, str]:
    """The tags of a resource type from lists of TagSpecifications; later lists win."""
    specs = [spec for listed in specifications for spec in listed or []]
    return {
        t["Key"]: t.get("Value", "")
        for spec in specs
        if spec.get("ResourceType") == resource
        for t in spec.get("Tags", [])
    }


def _group_ids(data: Mapping[str, Any]) -> list[str]:
    interfaces = data.get("NetworkInterfaces") or []
    return list(data.get("SecurityGroupIds") or []) or [
        g for interface in interfaces[:1] for g in interface.get("Groups", [])
    ]


def _check_user_data(data: Mapping[str, Any]) -> None:
    try:
        size = len(base64.b64decode(str(data.get("UserData") or ""), validate=True))
    except ValueError as error:
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from error
    if size > MAX_USER_DATA_BYTES:
        raise AwsError("InvalidParameterValue", f"User data is limited to {MAX_USER_DATA_BYTES} bytes")


def _devices(data: Mapping[str, Any], image: Image) -> list[dict[str, Any]]:
    """The image's devices with the template's over them; a volume smaller than its snapshot is refused."""
    devices: dict[str, dict[str, Any]] = {
        d.name: {
            "DeviceName": d.name,
            "Ebs": {
                "VolumeSize": d.size_gib,
                "SnapshotId": d.snapshot_id,
                "VolumeType": "gp2",
                "DeleteOnTermination": True,
            },
        }
        for d in image.devices
    }
    for mapping in data.get("BlockDeviceMappings") or []:
        name = mapping["DeviceName"]
        ebs: Params = {k: v for k, v in (mapping.get("Ebs") or {}).items() if v is not None}
        base = devices.get(name, {"Ebs": {}})["Ebs"]
        merged = base | ebs
        if "VolumeSize" not in merged:
            raise AwsError(
                "MissingParameter", f"The request must contain the parameter size or snapshotId for device {name}"
            )
        merged["VolumeSize"] = int(merged["VolumeSize"])
        if merged["VolumeSize"] < base.get("VolumeSize", 0):
            raise AwsError(
                "InvalidBlockDeviceMapping",
                f"Volume of size {merged['VolumeSize']}GB is smaller than snapshot '{base['SnapshotId']}', expect "
                f"size >= {base['VolumeSize']}GB",
            )
        devices[name] = {"DeviceName": name, "Ebs": merged}
    return list(devices.values())


def _mapping_entry(volume: dict[str, Any]) -> dict[str, Any]:
    attachment = volume["Attachments"][0]
    ebs = {"VolumeId": volume["VolumeId"], "Status": "attached", "AttachTime": attachment["AttachTime"],
           "DeleteOnTermination": attachment["DeleteOnTermination"]}  # fmt: skip
    return {"DeviceName": attachment["Device"], "Ebs": ebs}


def _dns_name(address: str, region: str) -> str:
    suffix = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    return f"ip-{address.replace('.', '-')}.{suffix}"
