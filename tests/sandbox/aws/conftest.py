"""One sandbox AWS for the session, on a clock turned by hand; each test finds it without faults or instances."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandbox.aws import Aws, AwsSettings, Delays, serve

DELAYS = Delays(pending_seconds=5, shutting_down_seconds=10, stopping_seconds=10, forgotten_after_seconds=3600)
_names = itertools.count(1)


@dataclass
class HandClock:
    """A clock that moves when told to. Starts at 2026-01-01T00:00:00Z."""

    seconds: float = 1_767_225_600.0

    def now(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Sandbox:
    """The server, its clock, and the few calls that most tests make."""

    aws: Aws
    clock: HandClock
    subnets: dict[str, str] = field(default_factory=dict)
    """Zone -> subnet."""

    def __post_init__(self) -> None:
        self.ec2 = self.aws.client("ec2")
        subnets = self.ec2.describe_subnets(Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["demo"]}])[
            "Subnets"
        ]
        self.subnets = {s["AvailabilityZone"]: s["SubnetId"] for s in subnets}

    def image(self, path: str = "amazon-linux-2023/x86_64/standard") -> str:
        name = f"/aws/service/eks/optimized-ami/1.34/{path}/recommended/image_id"
        value: str = self.aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        return value

    def template(self, **data: Any) -> str:
        """A launch template with the seeded group and profile, and its name."""
        name = f"test-{next(_names)}"
        assert self.aws.seeded is not None
        base: dict[str, Any] = {
            "ImageId": self.image(),
            "SecurityGroupIds": [self.aws.seeded.security_group_id],
            "IamInstanceProfile": {"Name": self.aws.seeded.instance_profile},
            "UserData": base64.b64encode(b"#!/bin/bash\n").decode(),
        }
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=base | data)
        return name

    def override(self, instance_type: str, zone: str = "ap-northeast-2a", **more: Any) -> dict[str, Any]:
        return {"InstanceType": instance_type, "SubnetId": self.subnets[zone], "AvailabilityZone": zone} | more

    def fleet(
        self,
        *overrides: dict[str, Any],
        template: str | None = None,
        spot: bool = True,
        strategy: str | None = None,
        count: int = 1,
        **more: Any,
    ) -> dict[str, Any]:
        """CreateFleet with one launch template; a fresh one when none is named."""
        strategy = strategy or ("price-capacity-optimized" if spot else "lowest-price")
        specification = {"LaunchTemplateName": template or self.template(), "Version": "$Latest"}
        answer: dict[str, Any] = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": specification, "Overrides": list(overrides)}],
            TargetCapacitySpecification={
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": "spot" if spot else "on-demand",
            },
            **{"SpotOptions" if spot else "OnDemandOptions": {"AllocationStrategy": strategy}},
            **more,
        )
        return answer

    def launch(self, instance_type: str = "c5.large", zone: str = "ap-northeast-2a", **more: Any) -> str:
        """One instance, by fleet; its id."""
        return ids(self.fleet(self.override(instance_type, zone), **more))[0]

    def describe(self, **params: Any) -> list[dict[str, Any]]:
        """All pages of DescribeInstances, flat."""
        pages = self.ec2.get_paginator("describe_instances").paginate(**params)
        return [i for page in pages for r in page["Reservations"] for i in r["Instances"]]

    def state(self, instance_id: str) -> str:
        name: str = self.describe(InstanceIds=[instance_id])[0]["State"]["Name"]
        return name


def ids(fleet: dict[str, Any]) -> list[str]:
    """The instance ids of a CreateFleet answer."""
    return [i for group in fleet["Instances"] for i in group["InstanceIds"]]


@pytest.fixture(scope="session")
def running() -> Iterator[Sandbox]:
    clock = HandClock()
    with serve(AwsSettings(delays=DELAYS), now=clock.now) as aws:
        yield Sandbox(aws, clock)


@pytest.fixture
def sandbox(running: Sandbox) -> Iterator[Sandbox]:
    running.aws.calls.clear()
    yield running
    running.aws.faults.clear()
    running.aws.world.instances.delays = DELAYS
    alive = [i["instanceId"] for i in running.aws.instances() if i["state"] != "terminated"]
    running.clock.advance(120)
    if alive:
        running.ec2.terminate_instances(InstanceIds=alive)
    running.clock.advance(7200)
    running.ec2.describe_instances()
