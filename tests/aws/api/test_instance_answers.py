"""Of an instance, what the controller reads is what botocore reads; what looks odd is left to botocore."""

from __future__ import annotations

from typing import Any

import pytest

from controller.aws.api.instance_answers import MEMBERS, read_instances
from controller.aws.provider import AWSProvider
from controller.core.api.labels import ON_DEMAND, SPOT
from tests.aws.conftest import Cloud, provisioner, request, template

ITEM = b"<item><instanceId>i-1</instanceId><instanceType>c5.large</instanceType><instanceState><name>running</name>"
REST = b"</instanceState><launchTime>2026-11-23T04:05:06Z</launchTime><placement/></item>"


def answer(*items: bytes, root: bytes = b"DescribeInstancesResponse") -> bytes:
    reservation = b"<item><instancesSet>" + b"".join(items) + b"</instancesSet></item>"
    name = root + b' xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'
    return b"<%s><reservationSet>%s</reservationSet><nextToken>more</nextToken></%s>" % (name, reservation, root)


def handled(body: bytes, status: int = 200) -> tuple[bytes, dict[str, Any]]:
    """What is left for botocore, and what is read already."""
    response: dict[str, Any] = {"status_code": status, "body": body}
    found: dict[str, Any] = {}
    read_instances(response_dict=response, customized_response_dict=found, event_name="before-parse")
    return response["body"], found


def test_an_instance_is_what_botocore_reads_of_it(cloud: Cloud, loaded: AWSProvider) -> None:
    provider = cloud.restarted(loaded)
    types = provider.instance_types(provisioner(), template())
    ids = [provider.create(request(types, names=["c5.large"], capacity_types=[kind])).id for kind in (SPOT, ON_DEMAND)]
    wanted = {name for name, _ in MEMBERS.values()}
    for one in ids:
        full, ours = (
            ec2.describe_instances(InstanceIds=[one])["Reservations"][0]["Instances"][0]
            for ec2 in (cloud.aws.client("ec2"), cloud.clients.ec2)
        )
        assert ours == {name: _only_read(name, value) for name, value in full.items() if name in wanted}
        assert {"InstanceId", "State", "Placement", "LaunchTime", "Tags", "SecurityGroups"} <= ours.keys()


def _only_read(name: str, value: Any) -> Any:
    members = {"State": ["Name"], "Placement": ["AvailabilityZone"], "SecurityGroups": ["GroupId"]}.get(name)
    if members is None:
        return value
    entries = [{key: each[key] for key in members} for each in (value if isinstance(value, list) else [value])]
    return entries if isinstance(value, list) else entries[0]


def test_pages_follow_each_other(cloud: Cloud, loaded: AWSProvider) -> None:
    provider = cloud.restarted(loaded)
    types = provider.instance_types(provisioner(), template())
    ids = {provider.create(request(types, names=["c5.large"])).id for _ in range(7)}
    pages = cloud.clients.ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "instance-id", "Values": sorted(ids)}], PaginationConfig={"PageSize": 5}
    )
    found = [[each["InstanceId"] for item in page["Reservations"] for each in item["Instances"]] for page in pages]
    assert [len(page) for page in found] == [5, 2]
    assert {one for page in found for one in page} == ids


def test_the_reservations_are_read_and_the_rest_is_left_to_botocore() -> None:
    body, found = handled(answer(ITEM + REST))
    (instance,) = found["Reservations"][0]["Instances"]
    assert (instance["InstanceId"], instance["State"]) == ("i-1", {"Name": "running"})
    assert b"more" in body
    assert b"i-1" not in body


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (answer(ITEM + REST), 503),
        (answer(ITEM + REST)[:-9], 200),
        (answer(ITEM + REST, root=b"DescribeInstancesAnswer"), 200),
        (answer((ITEM + REST).replace(b"instanceId", b"id")), 200),
        (answer((ITEM + REST).replace(b"2026-11-23", b"soon")), 200),
        (answer(ITEM + REST).replace(b"instancesSet", b"set"), 200),
        (answer(), 200),
    ],
)
def test_what_is_no_list_of_instances_is_left_to_botocore(body: bytes, status: int) -> None:
    assert handled(body, status) == (body, {})
