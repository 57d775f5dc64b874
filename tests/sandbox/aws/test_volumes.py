"""Volumes of instances and those that a CSI driver makes, in one list."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.aws.calls import Call, CallLog
from tests.sandbox.aws.conftest import Sandbox


def volumes(sandbox: Sandbox, **params: Any) -> list[dict[str, Any]]:
    pages = sandbox.ec2.get_paginator("describe_volumes").paginate(**params)
    return [volume for page in pages for volume in page["Volumes"]]


def test_root_volume_goes_with_its_instance(sandbox: Sandbox) -> None:
    instance = sandbox.launch()
    wanted = [{"Name": "attachment.instance-id", "Values": [instance]}]
    assert [v["State"] for v in volumes(sandbox, Filters=wanted)] == ["in-use"]
    sandbox.ec2.terminate_instances(InstanceIds=[instance])
    sandbox.clock.advance(10)
    assert volumes(sandbox, Filters=wanted) == []


def test_volume_that_is_not_deleted_on_termination_is_left_over(sandbox: Sandbox) -> None:
    """The leak that a wrong block device mapping makes."""
    mapping = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "DeleteOnTermination": False}}
    instance = sandbox.launch(template=sandbox.template(BlockDeviceMappings=[mapping]))
    kept = sandbox.aws.instances()[-1]["volumes"][0]["volumeId"]
    sandbox.ec2.terminate_instances(InstanceIds=[instance])
    sandbox.clock.advance(10)
    left = volumes(sandbox, VolumeIds=[kept])[0]
    assert (left["State"], left["Attachments"]) == ("available", [])


def test_created_volumes_are_listed_too(sandbox: Sandbox) -> None:
    made = sandbox.ec2.create_volume(
        AvailabilityZone="ap-northeast-2b", Size=7, VolumeType="gp3",
        TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "claim", "Value": "data-0"}]}],
    )["VolumeId"]  # fmt: skip
    sandbox.launch()
    listed = volumes(sandbox, Filters=[{"Name": "tag:claim", "Values": ["data-0"]}])
    assert [(v["VolumeId"], v["Size"], v["State"], v["AvailabilityZone"]) for v in listed] == [
        (made, 7, "available", "ap-northeast-2b")
    ]
    sandbox.ec2.delete_volume(VolumeId=made)
    with pytest.raises(ClientError) as error:
        volumes(sandbox, VolumeIds=[made])
    assert error.value.response["Error"]["Code"] == "InvalidVolume.NotFound"


def test_call_log_forgets_arguments_before_calls_and_calls_before_counts() -> None:
    log = CallLog(size=4, with_params=2)
    for number in range(6):
        log.add(Call(number, "ec2", "CreateFleet", "r", "k", 200, "", 0.0, {"n": number}))
    assert [(call.at, call.params) for call in log.calls()] == [(2, {}), (3, {}), (4, {"n": 4}), (5, {"n": 5})]
    assert log.counts() == {"ec2.CreateFleet": 6}
