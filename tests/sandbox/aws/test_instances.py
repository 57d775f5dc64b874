"""Lives of instances and what DescribeInstances tells of them."""

from __future__ import annotations

import dataclasses

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.aws.conftest import DELAYS, Sandbox, ids

UNKNOWN = "i-0123456789abcdef0"


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_a_life_from_pending_to_forgotten(sandbox: Sandbox) -> None:
    instance = sandbox.launch()
    assert sandbox.state(instance) == "pending"
    sandbox.clock.advance(5)
    assert sandbox.state(instance) == "running"
    change = sandbox.ec2.terminate_instances(InstanceIds=[instance])["TerminatingInstances"][0]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "shutting-down")
    sandbox.clock.advance(9.9)
    assert sandbox.state(instance) == "shutting-down"
    sandbox.clock.advance(0.1)
    assert sandbox.state(instance) == "terminated"
    sandbox.clock.advance(3600)
    with pytest.raises(ClientError) as error:
        sandbox.state(instance)
    assert code(error) == "InvalidInstanceID.NotFound"


def test_terminate_again_is_fine_and_keeps_the_first_time(sandbox: Sandbox) -> None:
    instance = sandbox.launch()
    sandbox.ec2.terminate_instances(InstanceIds=[instance])
    sandbox.clock.advance(9)
    sandbox.ec2.terminate_instances(InstanceIds=[instance])
    sandbox.clock.advance(1)
    assert sandbox.state(instance) == "terminated"


def test_terminate_with_one_unknown_id_terminates_none(sandbox: Sandbox) -> None:
    instance = sandbox.launch()
    with pytest.raises(ClientError) as error:
        sandbox.ec2.terminate_instances(InstanceIds=[instance, UNKNOWN])
    assert code(error) == "InvalidInstanceID.NotFound"
    assert UNKNOWN in error.value.response["Error"]["Message"]
    assert sandbox.state(instance) == "pending"


def test_malformed_id_is_told_apart_from_an_unknown_one(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.ec2.describe_instances(InstanceIds=["i-nonsense"])
    assert code(error) == "InvalidInstanceID.Malformed"


def test_describe_does_not_see_a_new_instance_at_once(sandbox: Sandbox) -> None:
    """Eventual consistency: neither by id nor by filter, until the delay is over."""
    sandbox.aws.world.instances.delays = dataclasses.replace(DELAYS, unseen_seconds=10)
    instance = sandbox.launch()
    assert sandbox.describe() == []
    for call in (sandbox.ec2.describe_instances, sandbox.ec2.terminate_instances):
        with pytest.raises(ClientError) as error:
            call(InstanceIds=[instance])
        assert code(error) == "InvalidInstanceID.NotFound"
    sandbox.clock.advance(10)
    assert [i["InstanceId"] for i in sandbox.describe()] == [instance]


def test_stop_and_start_an_on_demand_instance(sandbox: Sandbox) -> None:
    instance = sandbox.launch(spot=False)
    sandbox.clock.advance(5)
    sandbox.ec2.stop_instances(InstanceIds=[instance])
    assert sandbox.state(instance) == "stopping"
    sandbox.clock.advance(10)
    assert sandbox.state(instance) == "stopped"
    sandbox.ec2.start_instances(InstanceIds=[instance])
    assert sandbox.state(instance) == "pending"
    sandbox.clock.advance(5)
    assert sandbox.state(instance) == "running"


def test_spot_instance_cannot_be_stopped(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.ec2.stop_instances(InstanceIds=[sandbox.launch()])
    assert code(error) == "UnsupportedOperation"


def test_filters_find_by_tag_state_lifecycle_and_more(sandbox: Sandbox) -> None:
    spot = sandbox.launch("c5.large")
    owned = sandbox.launch("m5.large", "ap-northeast-2b", spot=False)
    sandbox.ec2.create_tags(Resources=[owned], Tags=[{"Key": "kubernetes.io/cluster/demo", "Value": "owned"}])
    sandbox.clock.advance(5)
    pending = sandbox.launch("c5.xlarge")
    launch_time = sandbox.describe(InstanceIds=[pending])[0]["LaunchTime"].strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def found(name: str, *values: str) -> set[str]:
        return {i["InstanceId"] for i in sandbox.describe(Filters=[{"Name": name, "Values": list(values)}])}

    assert found("tag:kubernetes.io/cluster/demo", "owned") == {owned}
    assert found("tag:kubernetes.io/cluster/demo", "own*") == {owned}
    assert found("tag:kubernetes.io/cluster/demo", "OWNED") == set(), "values are case-sensitive"
    assert found("tag-key", "kubernetes.io/cluster/d?mo") == {owned}
    assert found("instance-state-name", "running") == {spot, owned}
    assert found("instance-state-name", "pending", "running") == {spot, owned, pending}
    assert found("instance-state-code", "0") == {pending}
    assert found("instance-lifecycle", "spot") == {spot, pending}
    assert found("instance-id", owned, UNKNOWN) == {owned}, "an unknown id in a filter is no error"
    assert found("instance-type", "c5.*") == {spot, pending}
    assert found("availability-zone", "ap-northeast-2b") == {owned}
    assert found("subnet-id", sandbox.subnets["ap-northeast-2b"]) == {owned}
    assert found("launch-time", launch_time) == {pending}


def test_filters_are_anded(sandbox: Sandbox) -> None:
    sandbox.launch("c5.large")
    both = [{"Name": "instance-type", "Values": ["c5.large"]}, {"Name": "instance-state-name", "Values": ["running"]}]
    assert sandbox.describe(Filters=both) == []


def test_unknown_filter_is_refused_even_with_nothing_to_filter(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.describe(Filters=[{"Name": "colour", "Values": ["red"]}])
    assert code(error) == "InvalidParameterValue"


def test_pages_hold_every_instance_once(sandbox: Sandbox) -> None:
    launched = ids(sandbox.fleet(sandbox.override("c5.large"), count=23))
    pages = list(sandbox.ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 10}))
    seen = [i["InstanceId"] for page in pages for r in page["Reservations"] for i in r["Instances"]]
    assert len(pages) == 3
    assert sorted(seen) == sorted(launched)


def test_bad_page_token_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.ec2.describe_instances(NextToken="nonsense", MaxResults=5)
    assert code(error) == "InvalidNextToken"


def test_tags_are_added_replaced_and_deleted(sandbox: Sandbox) -> None:
    instance = sandbox.launch()

    def tags() -> dict[str, str]:
        own = sandbox.describe(InstanceIds=[instance])[0]["Tags"]
        return {t["Key"]: t["Value"] for t in own if not t["Key"].startswith("aws:")}

    sandbox.ec2.create_tags(Resources=[instance], Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "<&>"}])
    sandbox.ec2.create_tags(Resources=[instance], Tags=[{"Key": "a", "Value": "2"}])
    assert tags() == {"a": "2", "b": "<&>"}
    sandbox.ec2.delete_tags(Resources=[instance], Tags=[{"Key": "a"}])
    sandbox.ec2.delete_tags(Resources=[instance], Tags=[{"Key": "b", "Value": "another"}])
    assert tags() == {"b": "<&>"}, "a tag goes only with its value, when one is given"


def test_one_call_tags_instances_and_what_is_motos(sandbox: Sandbox) -> None:
    instance, subnet = sandbox.launch(), sandbox.subnets["ap-northeast-2d"]
    sandbox.ec2.create_tags(Resources=[instance, subnet], Tags=[{"Key": "both", "Value": "yes"}])
    wanted = [{"Name": "tag:both", "Values": ["yes"]}]
    assert [i["InstanceId"] for i in sandbox.describe(Filters=wanted)] == [instance]
    assert [s["SubnetId"] for s in sandbox.ec2.describe_subnets(Filters=wanted)["Subnets"]] == [subnet]
    sandbox.ec2.delete_tags(Resources=[instance, subnet], Tags=[{"Key": "both"}])
    assert sandbox.ec2.describe_subnets(Filters=wanted)["Subnets"] == []


def test_reserved_tag_keys_are_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.ec2.create_tags(Resources=[sandbox.launch()], Tags=[{"Key": "aws:ec2:fleet-id", "Value": "x"}])
    assert code(error) == "InvalidParameterValue"


def test_an_instance_started_by_hand_is_listed_too(sandbox: Sandbox) -> None:
    """What garbage collection must leave alone."""
    arguments = {
        "ImageId": sandbox.image(),
        "InstanceType": "t3.micro",
        "SubnetId": sandbox.subnets["ap-northeast-2a"],
        "MinCount": 1,
        "MaxCount": 2,
        "ClientToken": "by-hand",
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "mine"}]}],
    }
    reply = sandbox.ec2.run_instances(**arguments)
    again = sandbox.ec2.run_instances(**arguments)
    assert len(reply["Instances"]) == 2
    assert again["ReservationId"] == reply["ReservationId"], "the same token launches once"
    listed = sandbox.describe(Filters=[{"Name": "tag:Name", "Values": ["mine"]}])
    assert {i["InstanceId"] for i in listed} == {i["InstanceId"] for i in reply["Instances"]}


def test_terminated_instance_keeps_tags_but_no_address(sandbox: Sandbox) -> None:
    instance = sandbox.launch(TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "k", "Value": "v"}]}])
    sandbox.ec2.terminate_instances(InstanceIds=[instance])
    sandbox.clock.advance(10)
    entry = sandbox.describe(InstanceIds=[instance])[0]
    assert {"Key": "k", "Value": "v"} in entry["Tags"]
    assert entry["PrivateDnsName"] == ""
    assert "PrivateIpAddress" not in entry
    assert entry["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
