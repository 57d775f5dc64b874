"""CreateFleet: what is chosen, what is refused, what the instance keeps of its launch template."""

from __future__ import annotations

import base64
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES

from sandbox.aws.ec2.allocation import Candidate, order
from sandbox.aws.faults import Shortage
from sandbox.aws.market.market import Pool
from tests.sandbox.aws.conftest import Sandbox, ids

A, B, C = "ap-northeast-2a", "ap-northeast-2b", "ap-northeast-2c"


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def candidate(
    index: int, price: float, depth: float = 1.0, priority: float | None = None, weight: float = 1.0
) -> Candidate:
    return Candidate(index, price, depth, priority, weight)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("lowest-price", [1, 0, 2]),
        ("prioritized", [2, 0, 1]),
        ("capacity-optimized", [0, 2, 1]),
        ("capacity-optimized-prioritized", [2, 0, 1]),
        ("price-capacity-optimized", [0, 1, 2]),
        ("diversified", [0, 1, 2]),
    ],
)
def test_strategies_keep_what_the_guide_promises(strategy: str, expected: list[int]) -> None:
    """Pool 1 is cheapest but nearly empty, 0 is deepest, 2 has the best priority of two deep ones."""
    pools = [candidate(0, 0.100, 0.99, 2), candidate(1, 0.090, 0.05, 3), candidate(2, 0.300, 0.95, 1)]
    assert [c.index for c in order(pools, strategy)] == expected


def test_price_is_per_unit_of_capacity() -> None:
    assert [c.index for c in order([candidate(0, 0.1), candidate(1, 0.3, weight=4)], "lowest-price")] == [1, 0]


def test_on_demand_lowest_price_takes_the_cheapest_wherever_it_stands(sandbox: Sandbox) -> None:
    answer = sandbox.fleet(*(sandbox.override(t, A) for t in ("c5.2xlarge", "m5.xlarge", "c5.xlarge")), spot=False)
    assert [group["InstanceType"] for group in answer["Instances"]] == ["c5.xlarge"]
    assert answer["Instances"][0]["Lifecycle"] == "on-demand"
    assert answer["Errors"] == []


def test_scripted_spot_price_moves_the_choice(sandbox: Sandbox) -> None:
    sandbox.aws.world.market.set_price(Pool("m5.large", B, "spot"), 0.0007)
    answer = sandbox.fleet(*(sandbox.override(t, z) for t in ("c5.large", "m5.large") for z in (A, B)))
    overrides = answer["Instances"][0]["LaunchTemplateAndOverrides"]["Overrides"]
    assert (overrides["InstanceType"], overrides["AvailabilityZone"]) == ("m5.large", B)


def test_priority_decides_on_demand_prioritized(sandbox: Sandbox) -> None:
    overrides = [sandbox.override("c5.large", Priority=2.0), sandbox.override("m5.4xlarge", Priority=1.0)]
    answer = sandbox.fleet(*overrides, spot=False, strategy="prioritized")
    assert answer["Instances"][0]["InstanceType"] == "m5.4xlarge"


def test_max_price_below_the_market_is_an_error_of_that_pool(sandbox: Sandbox) -> None:
    answer = sandbox.fleet(sandbox.override("m5.xlarge", MaxPrice="0.001"))
    assert ids(answer) == []
    assert [e["ErrorCode"] for e in answer["Errors"]] == ["SpotMaxPriceTooLow"]


def test_no_capacity_is_an_error_and_the_next_pool_is_tried(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add_shortage(Shortage(instanceType="c5.*", zone=A, capacityType="on-demand"))
    answer = sandbox.fleet(*(sandbox.override("c5.large", z) for z in (A, B)), spot=False)
    assert [e["ErrorCode"] for e in answer["Errors"]] == ["InsufficientInstanceCapacity"]
    refused = answer["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]
    assert (refused["InstanceType"], refused["AvailabilityZone"]) == ("c5.large", A)
    assert sandbox.describe(InstanceIds=ids(answer))[0]["Placement"]["AvailabilityZone"] == B


def test_shortages_end_with_their_time(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add_shortage(Shortage(forSeconds=60))
    assert ids(sandbox.fleet(sandbox.override("c5.large"))) == []
    sandbox.clock.advance(60)
    assert len(ids(sandbox.fleet(sandbox.override("c5.large")))) == 1


def test_partial_fleet_has_instances_and_errors(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add_shortage(Shortage(instanceType="c5.large", capacity=2))
    answer = sandbox.fleet(sandbox.override("c5.large"), count=5)
    assert len(ids(answer)) == 2
    assert len(answer["Instances"]) == 1, "one entry for one group of equal instances"
    assert [e["ErrorCode"] for e in answer["Errors"]] == ["InsufficientInstanceCapacity"]


def test_minimum_not_reached_launches_nothing(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add_shortage(Shortage(capacity=1))
    answer = sandbox.ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": sandbox.template(), "Version": "1"},
                "Overrides": [sandbox.override("c5.large")],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 3, "DefaultTargetCapacityType": "on-demand"},
        OnDemandOptions={"MinTargetCapacity": 3, "SingleInstanceType": True},
    )
    assert answer["Instances"] == []
    assert all(i["state"] in {"shutting-down", "terminated"} for i in sandbox.aws.instances())


def test_weights_count_towards_the_target(sandbox: Sandbox) -> None:
    answer = sandbox.fleet(sandbox.override("c5.2xlarge", WeightedCapacity=4.0), count=9)
    assert len(ids(answer)) == 3


def test_same_token_and_input_launch_once(sandbox: Sandbox) -> None:
    template = sandbox.template()
    first = sandbox.fleet(sandbox.override("c5.large"), template=template, ClientToken="token-1")
    again = sandbox.fleet(sandbox.override("c5.large"), template=template, ClientToken="token-1")
    assert ids(first) == ids(again)
    assert first["FleetId"] == again["FleetId"]
    assert len(sandbox.aws.instances()) == 1


def test_same_token_with_other_input_is_refused(sandbox: Sandbox) -> None:
    template = sandbox.template()
    sandbox.fleet(sandbox.override("c5.large"), template=template, ClientToken="token-2")
    with pytest.raises(ClientError) as error:
        sandbox.fleet(sandbox.override("c5.xlarge"), template=template, ClientToken="token-2")
    assert code(error) == "IdempotentParameterMismatch"


def test_describe_fleets_shows_what_was_launched_and_when(sandbox: Sandbox) -> None:
    answer = sandbox.fleet(sandbox.override("c5.large"))
    created = sandbox.clock.now()
    sandbox.clock.advance(30)
    response = sandbox.ec2.describe_fleets(FleetIds=[answer["FleetId"]])
    fleet = response["Fleets"][0]
    assert fleet["CreateTime"].timestamp() == created
    assert [i for group in fleet["Instances"] for i in group["InstanceIds"]] == ids(answer)
    date = parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
    assert date.timestamp() == created + 30, "the Date header tells the sandbox's time"
    with pytest.raises(ClientError) as error:
        sandbox.ec2.describe_fleets(FleetIds=["fleet-unknown"])
    assert code(error) == "InvalidFleetId.NotFound"


def test_instance_keeps_what_the_launch_template_says(sandbox: Sandbox) -> None:
    user_data = base64.b64encode(b"boot me").decode()
    template = sandbox.template(
        UserData=user_data,
        Monitoring={"Enabled": True},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2, "HttpEndpoint": "enabled"},
        BlockDeviceMappings=[
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"VolumeSize": 100, "VolumeType": "gp3", "Encrypted": True, "Iops": 4000},
            }
        ],
    )
    answer = sandbox.fleet(
        sandbox.override("m5.large", C),
        template=template,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "owner", "Value": "me"}]},
            {"ResourceType": "volume", "Tags": [{"Key": "disk", "Value": "root"}]},
        ],
    )
    instance = sandbox.describe(InstanceIds=ids(answer))[0]
    tags = {t["Key"]: t["Value"] for t in instance["Tags"]}
    seeded = sandbox.aws.seeded
    assert seeded is not None
    assert [g["GroupId"] for g in instance["SecurityGroups"]] == [seeded.security_group_id]
    assert instance["IamInstanceProfile"]["Arn"].endswith(f"/{seeded.instance_profile}")
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert instance["Monitoring"]["State"] == "enabled"
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["SpotInstanceRequestId"].startswith("sir-")
    dashed = instance["PrivateIpAddress"].replace(".", "-")
    assert instance["PrivateDnsName"] == f"ip-{dashed}.ap-northeast-2.compute.internal"
    assert instance["Placement"]["AvailabilityZone"] == C
    assert tags["owner"] == "me"
    assert tags["aws:ec2:fleet-id"] == answer["FleetId"]
    assert tags["aws:ec2launchtemplate:version"] == "1"
    assert sandbox.aws.instances()[0]["userData"] == user_data
    volume = sandbox.ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": ids(answer)}])[
        "Volumes"
    ][0]
    assert (volume["Size"], volume["VolumeType"], volume["Encrypted"], volume["Iops"]) == (100, "gp3", True, 4000)
    assert volume["Tags"] == [{"Key": "disk", "Value": "root"}]


def test_on_demand_instance_has_no_lifecycle_and_no_spot_request(sandbox: Sandbox) -> None:
    instance = sandbox.describe(InstanceIds=[sandbox.launch(spot=False)])[0]
    assert "InstanceLifecycle" not in instance
    assert "SpotInstanceRequestId" not in instance


def test_fewer_free_addresses_after_a_launch_and_all_back_after_the_end(sandbox: Sandbox) -> None:
    def free() -> int:
        count: int = sandbox.ec2.describe_subnets(SubnetIds=[sandbox.subnets[A]])["Subnets"][0][
            "AvailableIpAddressCount"
        ]
        return count

    before = free()
    launched = ids(sandbox.fleet(sandbox.override("c5.large"), count=3))
    assert free() == before - 3
    sandbox.ec2.terminate_instances(InstanceIds=launched)
    assert free() == before - 3, "shutting down still holds its address"
    sandbox.clock.advance(10)
    assert free() == before


def test_full_subnet_is_an_error_of_its_pool(sandbox: Sandbox) -> None:
    assert sandbox.aws.seeded is not None
    small = sandbox.ec2.create_subnet(VpcId=sandbox.aws.seeded.vpc_id, AvailabilityZone=A, CidrBlock="10.0.255.0/28")
    subnet_id = small["Subnet"]["SubnetId"]
    answer = sandbox.fleet(sandbox.override("c5.large", SubnetId=subnet_id), count=20)
    assert len(ids(answer)) == 11, "a /28 has 16 addresses, AWS keeps 5"
    assert [e["ErrorCode"] for e in answer["Errors"]] == ["InsufficientFreeAddressesInSubnet"]


Change = dict[str, Any]


@pytest.mark.parametrize(
    ("override", "data", "expected"),
    [
        ({"AvailabilityZone": B}, {}, "InvalidParameterCombination"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, {}, "InvalidSubnetID.NotFound"),
        ({}, {"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({}, {"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({}, {"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"InstanceType": "m6g.large"}, {}, "InvalidParameterValue"),
        (
            {},
            {"SecurityGroupIds": [f"sg-0123456789abcde{i:02}" for i in range(6)]},
            "SecurityGroupsPerInterfaceLimitExceeded",
        ),
        ({}, {"UserData": base64.b64encode(b"x" * 16_385).decode()}, "InvalidParameterValue"),
        (
            {},
            {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 4}}]},
            "InvalidBlockDeviceMapping",
        ),
    ],
)
def test_what_cannot_run_is_an_error_of_the_fleet(
    sandbox: Sandbox, override: Change, data: Change, expected: str
) -> None:
    """Zone and subnet apart, unknown subnet, image, profile or group, wrong architecture, volume below its snapshot."""
    answer = sandbox.fleet(sandbox.override("c5.large") | override, template=sandbox.template(**data))
    assert ids(answer) == []
    assert [e["ErrorCode"] for e in answer["Errors"]] == [expected]


def test_group_of_another_network_is_refused(sandbox: Sandbox) -> None:
    vpc = sandbox.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    group = sandbox.ec2.create_security_group(GroupName="elsewhere", Description="x", VpcId=vpc)["GroupId"]
    answer = sandbox.fleet(sandbox.override("c5.large"), template=sandbox.template(SecurityGroupIds=[group]))
    assert "belong to different networks" in answer["Errors"][0]["ErrorMessage"]


def test_type_not_offered_in_the_zone_is_an_error_of_the_fleet(sandbox: Sandbox) -> None:
    catalog = sandbox.aws.world.catalog
    name = next(n for n in catalog.types if A in catalog.zones(n) and B not in catalog.zones(n))
    answer = sandbox.fleet(sandbox.override(name, B), spot=False)
    assert [e["ErrorCode"] for e in answer["Errors"]] == ["InvalidFleetConfiguration"]
    assert f"({name}) is not supported in your requested Availability Zone ({B})" in answer["Errors"][0]["ErrorMessage"]


def test_type_that_the_region_lacks_refuses_the_call(sandbox: Sandbox) -> None:
    elsewhere = next(name for name in sorted(INSTANCE_TYPES) if name not in sandbox.aws.world.catalog.types)
    for name in ("m99.large", elsewhere):
        with pytest.raises(ClientError) as error:
            sandbox.fleet(sandbox.override(name))
        assert code(error) == "InvalidParameterValue"


def test_the_same_pool_twice_refuses_the_call(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.fleet(sandbox.override("c5.large"), sandbox.override("c5.large"))
    assert code(error) == "InvalidFleetConfig"


def test_too_many_overrides_refuse_the_call(sandbox: Sandbox) -> None:
    names = list(sandbox.aws.world.catalog.types)
    with pytest.raises(ClientError) as error:
        sandbox.fleet(*(sandbox.override(n) for n in names[:301]))
    assert code(error) == "InvalidFleetConfig"


def test_unknown_launch_template_refuses_the_call(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.fleet(sandbox.override("c5.large"), template="no-such-template")
    assert code(error) == "InvalidLaunchTemplateName.NotFoundException"


def test_dry_run_launches_nothing(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.fleet(sandbox.override("c5.large"), DryRun=True)
    assert code(error) == "DryRunOperation"
    assert sandbox.aws.instances() == []


def test_failed_launch_with_a_token_answers_the_same_again(sandbox: Sandbox) -> None:
    """EC2's idempotency repeats the answer, errors included: a new try needs a new token."""
    sandbox.aws.faults.add_shortage(Shortage())
    template = sandbox.template()
    first = sandbox.fleet(sandbox.override("c5.large"), template=template, ClientToken="token-3")
    sandbox.aws.faults.clear()
    again = sandbox.fleet(sandbox.override("c5.large"), template=template, ClientToken="token-3")
    assert first["Errors"] == again["Errors"]
    assert ids(again) == []
