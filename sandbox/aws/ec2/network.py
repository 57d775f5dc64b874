"""What an instance is put into: subnets, groups, launch templates and instance profiles, all of them moto's.

Errors are AWS's. Source: EC2 API reference "Error codes"; EC2 quotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends
from werkzeug.exceptions import HTTPException

from sandbox.aws.ec2.instances import Instance
from sandbox.aws.wire import AwsError

MAX_GROUPS = 5
"""AWS's default quota of security groups per interface."""


@dataclass(frozen=True, slots=True)
class Template:
    """A resolved launch template version. `data` in the shape of RequestLaunchTemplateData."""

    id: str
    name: str
    version: int
    data: Mapping[str, Any]


class Network:
    """Subnets, groups, templates and profiles, which are moto's."""

    def __init__(self, account: str, region: str) -> None:
        self._ec2 = ec2_backends[account][region]
        self._iam = iam_backends[account]["aws"]
        self.account = account
        self.region = region

    def template(self, spec: Mapping[str, Any]) -> Template:
        """Resolve a LaunchTemplateSpecification; raises the InvalidLaunchTemplate... errors."""
        try:
            if spec.get("LaunchTemplateId"):
                found = self._ec2.get_launch_template(spec["LaunchTemplateId"])
            elif spec.get("LaunchTemplateName"):
                found = self._ec2.get_launch_template_by_name(spec["LaunchTemplateName"])
            else:
                raise AwsError("MissingParameter", "Either the launch template ID or the name is required")
            version = found.get_version(spec.get("Version") or "$Default")
        except (HTTPException, ServiceException) as error:
            raise translated(error) from error
        return Template(found.id, found.name, version.number, version.data)

    def subnet(self, subnet_id: str) -> Any:
        """moto's subnet; raises InvalidSubnetID.NotFound."""
        try:
            return self._ec2.get_subnet(subnet_id)
        except (HTTPException, ServiceException) as error:
            raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist") from error

    def default_subnet_id(self, zone: str) -> str | None:
        """The default VPC's subnet of a zone, if there is one."""
        subnet = self._ec2.get_default_subnets().get(zone)
        return subnet.id if subnet else None

    def groups(self, ids: list[str], vpc_id: str, subnet_id: str) -> list[dict[str, str]]:
        """GroupId and GroupName of each; the VPC's default group when no id is given."""
        if not ids:
            default = self._ec2.get_default_security_group(vpc_id)
            return [{"GroupId": default.id, "GroupName": default.name}] if default else []
        if len(ids) > MAX_GROUPS:
            raise AwsError(
                "SecurityGroupsPerInterfaceLimitExceeded",
                "The maximum number of security groups per interface has been reached.",
            )
        groups = []
        for group_id in ids:
            group = self._ec2.get_security_group_from_id(group_id)
            if group is None:
                raise AwsError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
            if group.vpc_id != vpc_id:
                raise AwsError(
                    "InvalidParameter",
                    f"Security group {group_id} and subnet {subnet_id} belong to different networks.",
                )
            groups.append({"GroupId": group.id, "GroupName": group.name})
        return groups

    def profile(self, spec: Mapping[str, str] | None) -> dict[str, str] | None:
        """Arn and Id of an instance profile; raises InvalidParameterValue for an unknown one."""
        if not spec:
            return None
        name = spec.get("Name") or spec.get("Arn", "").rpartition("/")[2]
        try:
            profile = self._iam.get_instance_profile(name)
        except (HTTPException, ServiceException) as error:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
            ) from error
        return {"Arn": profile.arn, "Id": profile.id}

    def take_address(self, subnet_id: str, holder: object) -> str:
        """A free address; raises InsufficientFreeAddressesInSubnet."""
        subnet = self.subnet(subnet_id)
        if subnet.available_ip_address_count < 1:
            raise AwsError(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{subnet_id}' to satisfy the requested number of "
                "instances.",
            )
        address: str = subnet.get_available_subnet_ip(holder)
        # moto counts the addresses of its own interfaces only; this is where it keeps what prefix reservations take
        subnet._available_ip_addresses -= 1
        return address

    def release(self, instance: Instance) -> None:
        """Give an instance's address back to its subnet."""
        subnet = self.subnet(instance.entry["SubnetId"])
        subnet.del_subnet_ip(instance.entry["PrivateIpAddress"])
        subnet._available_ip_addresses += 1


def translated(error: HTTPException | ServiceException) -> AwsError:
    """moto's exception as ours."""
    code = getattr(error, "error_type", None) or getattr(error, "code", "InternalError")
    return AwsError(str(code), str(getattr(error, "message", None) or getattr(error, "description", "")))
