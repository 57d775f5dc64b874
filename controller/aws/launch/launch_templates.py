"""Launch templates: one for each distinct set of launch parameters, named by a hash of its content.

The same content has the same name in every process, so creating one is idempotent. Fields as in Karpenter v0.27, except
that each unset metadata option keeps its secure default (v0.27 left them to EC2, so that setting a hop limit enabled
IMDSv1).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from controller.aws.amifamily.family import GIB, AMIFamily
from controller.aws.api import tags as tagging
from controller.aws.api.aws_errors import TEMPLATE_EXISTS, TEMPLATE_NOT_FOUND_CODES, translated
from controller.aws.api.ttl_cache import Cache
from controller.core.api.nodetemplate import AWSNodeTemplate, BlockDeviceMapping, MetadataOptions
from controller.errors import CloudError
from controller.runtime.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef, RequestLaunchTemplateDataTypeDef

CACHE_SECONDS = 300.0
UNUSED_SECONDS = 3600.0
NAME_PREFIX = "karpenter.k8s.aws/"


@dataclass(frozen=True, slots=True)
class LaunchParameters:
    """The content of a launch template."""

    template: AWSNodeTemplate
    family: AMIFamily
    image_id: str
    instance_profile: str
    security_groups: tuple[str, ...]
    user_data: str
    tags: Mapping[str, str]
    """Of the launch template itself and of the network interfaces."""
    ipv6: bool = False

    def data(self) -> dict[str, Any]:
        """Return the API's LaunchTemplateData."""
        data: dict[str, Any] = {
            "ImageId": self.image_id,
            "IamInstanceProfile": {"Name": self.instance_profile},
            "Monitoring": {"Enabled": bool(self.template.detailed_monitoring)},
            "SecurityGroupIds": list(self.security_groups),
            "MetadataOptions": metadata_options(self.template.metadata_options, self.ipv6),
            "TagSpecifications": [{"ResourceType": "network-interface", "Tags": tagging.as_list(self.tags)}],
        }
        if self.user_data:
            data["UserData"] = base64.b64encode(self.user_data.encode()).decode()
        devices = self.template.block_device_mappings
        mappings = self.family.block_devices if devices is None else devices
        if mappings:
            data["BlockDeviceMappings"] = [block_device(mapping) for mapping in mappings]
        return data

    @property
    def name(self) -> str:
        """A name derived from the content alone."""
        content = json.dumps([self.data(), sorted(self.tags.items())], sort_keys=True)
        return NAME_PREFIX + hashlib.sha256(content.encode()).hexdigest()[:20]


class LaunchTemplates:
    """Makes sure that launch templates exist. Safe for many threads."""

    def __init__(self, ec2: EC2Client, cluster_name: str, clock: Clock) -> None:
        self._ec2 = ec2
        self._cluster_name = cluster_name
        self._clock = clock
        self._known: Cache[str, str] = Cache(clock, CACHE_SECONDS)
        self._began = clock.monotonic()
        self._used_at: dict[str, float] = {}

    def ensure(self, parameters: LaunchParameters) -> str:
        """Return the name of the launch template with these parameters, created if need be. Raises CloudErrors."""
        name = parameters.name
        self._used_at[name] = self._clock.monotonic()
        return self._known.get(name, lambda: self._find_or_create(name, parameters))

    def forget(self, name: str) -> None:
        """Look a template up again before its next use: somebody deleted it."""
        self._known.drop(name)

    def collect(self) -> int:
        """Delete the controller's launch templates that were not used for an hour; returns how many are left.

        Only those with both of the controller's tags, not Karpenter's or another tool's. Running instances need no
        launch template. Raises CloudErrors.
        """
        now = self._clock.monotonic()
        if now - self._began < UNUSED_SECONDS:
            return 0
        filters: list[FilterTypeDef] = [
            {"Name": f"tag:{tagging.TEMPLATE_CLUSTER}", "Values": [self._cluster_name]},
            {"Name": f"tag:{tagging.MANAGED_BY}", "Values": [tagging.MANAGER]},
        ]
        with translated("ec2:DescribeLaunchTemplates"):
            pages = self._ec2.get_paginator("describe_launch_templates").paginate(Filters=filters)
            ours = [item for page in pages for item in page["LaunchTemplates"]]
        idle = [item for item in ours if self._idle(item["LaunchTemplateName"], item["CreateTime"].timestamp(), now)]
        for item in idle:
            self._delete(item["LaunchTemplateName"])
        return len(ours) - len(idle)

    def _idle(self, name: str, created: float, now: float) -> bool:
        used = self._used_at.get(name)
        return self._clock.now() - created >= UNUSED_SECONDS and (used is None or now - used >= UNUSED_SECONDS)

    def _delete(self, name: str) -> None:
        self._known.drop(name)
        self._used_at.pop(name, None)
        try:
            with translated("ec2:DeleteLaunchTemplate", name):
                self._ec2.delete_launch_template(LaunchTemplateName=name)
        except CloudError as error:
            if error.code not in TEMPLATE_NOT_FOUND_CODES:
                raise

    def _find_or_create(self, name: str, parameters: LaunchParameters) -> str:
        try:
            with translated("ec2:DescribeLaunchTemplates"):
                if self._ec2.describe_launch_templates(LaunchTemplateNames=[name])["LaunchTemplates"]:
                    return name
        except CloudError as error:
            if error.code not in TEMPLATE_NOT_FOUND_CODES:
                raise
        try:
            self._create(name, parameters)
        except CloudError as error:
            if error.code != TEMPLATE_EXISTS:
                raise
        return name

    def _create(self, name: str, parameters: LaunchParameters) -> None:
        tags = {**parameters.tags, tagging.TEMPLATE_CLUSTER: self._cluster_name, tagging.MANAGED_BY: tagging.MANAGER}
        with translated("ec2:CreateLaunchTemplate", f"AWSNodeTemplate {parameters.template.name}"):
            self._ec2.create_launch_template(
                LaunchTemplateName=name,
                LaunchTemplateData=cast("RequestLaunchTemplateDataTypeDef", parameters.data()),
                TagSpecifications=[{"ResourceType": "launch-template", "Tags": tagging.as_list(tags)}],
            )


def metadata_options(options: MetadataOptions, ipv6: bool) -> dict[str, Any]:
    """Return IMDSv2 alone, with a hop limit that reaches pods; each member as the template sets it."""
    hops = options.http_put_response_hop_limit
    return {
        "HttpEndpoint": options.http_endpoint or "enabled",
        "HttpProtocolIpv6": options.http_protocol_ipv6 or ("enabled" if ipv6 else "disabled"),
        "HttpPutResponseHopLimit": 2 if hops is None else hops,
        "HttpTokens": options.http_tokens or "required",
    }


def block_device(mapping: BlockDeviceMapping) -> dict[str, Any]:
    """Return a mapping as the API takes it; sizes are rounded up to whole GiB, unset members left to EC2."""
    ebs = mapping.ebs
    size = ebs.volume_size_bytes
    members = {
        "DeleteOnTermination": ebs.delete_on_termination,
        "Encrypted": ebs.encrypted,
        "Iops": ebs.iops,
        "KmsKeyId": ebs.kms_key_id,
        "SnapshotId": ebs.snapshot_id,
        "Throughput": ebs.throughput,
        "VolumeSize": None if size is None else -(-size // GIB),
        "VolumeType": ebs.volume_type,
    }
    return {
        "DeviceName": mapping.device_name,
        "Ebs": {name: value for name, value in members.items() if value is not None},
    }
