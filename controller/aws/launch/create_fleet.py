"""Requests to CreateFleet of type `instant`: EC2 chooses among many offerings, and repeating a request is harmless.

Sources: EC2 API reference (CreateFleet, "Ensuring idempotency"), Karpenter v0.27's request. Unlike in v0.27, every
request has a client token, so that a repeated one is answered with what it launched the first time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from controller.aws.api import tags as tagging
from controller.aws.api.aws_errors import OFFERING_CODES, translated
from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import SPOT
from controller.core.cloud import PricedOffering

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import CreateFleetRequestTypeDef

MAX_OVERRIDES = 300
"""EC2's limit for a fleet, over all its launch template configurations."""


@dataclass(frozen=True, slots=True)
class FleetOverride:
    offering: PricedOffering
    subnet_id: str
    launch_template: str


@dataclass(frozen=True, slots=True)
class FleetError:
    """Why an offering was not launched. Type and zone are empty when EC2 does not name them."""

    code: str
    message: str
    instance_type: str = ""
    zone: str = ""
    subnet_id: str = ""

    @property
    def capacity(self) -> bool:
        """Whether the offering has no capacity, as opposed to a bad request."""
        return self.code in OFFERING_CODES

    def concerns(self, offering: PricedOffering) -> bool:
        """Return whether the error is about this offering; one that names no type or no zone is about all of them."""
        return self.instance_type in ("", offering.instance_type) and self.zone in ("", offering.zone)


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    fleet_id: str
    instance_ids: tuple[str, ...]
    errors: tuple[FleetError, ...]
    given: int = 0
    """Instances launched for all requests that were merged into the fleet."""


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """A fleet request without token and number of instances: equal requests may be merged into one call."""

    subject: str
    """For messages."""
    capacity_type: str
    overrides: tuple[FleetOverride, ...]
    """In order of preference."""
    tags: FrozenMap[str, str]
    """Of instance, volumes and fleet, without the launch token."""
    context: str | None = None

    def document(self, launch_token: str, client_token: str, instances: int) -> CreateFleetRequestTypeDef:
        configs: dict[str, list[dict[str, str]]] = {}
        for override in self.overrides[:MAX_OVERRIDES]:
            configs.setdefault(override.launch_template, []).append(
                {
                    "InstanceType": override.offering.instance_type,
                    "SubnetId": override.subnet_id,
                    "AvailabilityZone": override.offering.zone,
                }
            )
        tags = tagging.as_list({**self.tags, tagging.LAUNCH_TOKEN: launch_token})
        request: dict[str, Any] = {
            "Type": "instant",
            "ClientToken": client_token,
            "LaunchTemplateConfigs": [
                {"LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"}, "Overrides": listed}
                for name, listed in sorted(configs.items())
            ],
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": instances,
                "DefaultTargetCapacityType": self.capacity_type,
            },
            "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume", "fleet")],
        }
        if self.capacity_type == SPOT:
            request["SpotOptions"] = {"AllocationStrategy": "price-capacity-optimized"}
        else:
            request["OnDemandOptions"] = {"AllocationStrategy": "lowest-price"}
        if self.context:
            request["Context"] = self.context
        return cast("CreateFleetRequestTypeDef", request)


def client_token(token: str, attempt: int) -> str:
    """Return the client token of an attempt: at most 64 ASCII characters, the same in every process."""
    return hashlib.sha256(f"{token}/{attempt}".encode()).hexdigest()


def create_fleet(ec2: EC2Client, request: CreateFleetRequestTypeDef, subject: str) -> FleetAnswer:
    """Send the request. Raises CloudErrors when the call itself fails; failures of offerings are part of the answer."""
    with translated("ec2:CreateFleet", subject):
        response = ec2.create_fleet(**request)
    ids = [one for group in response.get("Instances", ()) for one in group.get("InstanceIds", ())]
    errors = tuple(map(_error, response.get("Errors", ())))
    return FleetAnswer(response.get("FleetId", ""), tuple(ids), errors, given=len(ids))


def fleet_created(ec2: EC2Client, fleet_id: str) -> float | None:
    """Return when the fleet was created, in Unix seconds; None when EC2 does not say. Raises CloudErrors."""
    with translated("ec2:DescribeFleets", fleet_id):
        fleets = ec2.describe_fleets(FleetIds=[fleet_id])["Fleets"]
    created = next((fleet.get("CreateTime") for fleet in fleets), None)
    return None if created is None else created.timestamp()


def _error(entry: Mapping[str, Any]) -> FleetError:
    overrides = (entry.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return FleetError(
        code=entry.get("ErrorCode", ""),
        message=entry.get("ErrorMessage", ""),
        instance_type=overrides.get("InstanceType", ""),
        zone=overrides.get("AvailabilityZone", ""),
        subnet_id=overrides.get("SubnetId", ""),
    )
