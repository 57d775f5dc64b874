"""AWS's wire formats: what the SDK writes is what handlers read."""

from __future__ import annotations

import datetime as dt
import xml.etree.ElementTree as ET

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest

from sandbox.aws import wire
from sandbox.aws.filters import pattern
from sandbox.aws.paging import page
from sandbox.aws.wire import AwsError

AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=AKIA/20260101/eu-west-1/{}/aws4_request, SignedHeaders=host, Signature=0"


def parse(service: str, method: str, path: str, body: bytes = b"", **headers: str) -> wire.Request:
    lines = {"authorization": AUTHORIZATION.format(service)} | {k.replace("_", "-"): v for k, v in headers.items()}
    request = wire.parse_request(method, path, lambda name: lines.get(name, ""), body)
    assert request is not None
    return request


def form(body: str) -> wire.Request:
    return parse("ec2", "POST", "/", body.encode(), content_type="application/x-www-form-urlencoded; charset=utf-8")


def test_ec2_query_becomes_the_arguments_that_boto3_was_given() -> None:
    """Whatever boto3 serialises for CreateFleet must come out as it went in."""
    arguments = {
        "Type": "instant",
        "ClientToken": "t&=<ä>",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "name", "Version": "$Latest"},
                "Overrides": [
                    {"InstanceType": f"m5.{i}xlarge", "Priority": float(i), "MaxPrice": "1.5"} for i in range(12)
                ],
            }
        ],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 3, "DefaultTargetCapacityType": "spot"},
        "ReplaceUnhealthyInstances": False,
        "ValidUntil": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a.b/c", "Value": ""}]}],
    }
    sent: list[bytes] = []

    def catch(request: AWSPreparedRequest, **_: object) -> None:
        sent.append(request.body if isinstance(request.body, bytes) else str(request.body).encode())
        raise InterruptedError

    client = boto3.client("ec2", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    client.meta.events.register("before-send.ec2.CreateFleet", catch)
    with pytest.raises(InterruptedError):
        client.create_fleet(**arguments)  # type: ignore[arg-type]
    assert form(sent[0].decode()).params == arguments


def test_list_items_are_ordered_by_number_not_by_text() -> None:
    names = [f"m{i}.large" for i in range(1, 13)]
    body = "Action=DescribeInstanceTypes&" + "&".join(f"InstanceType.{i}={n}" for i, n in enumerate(names, 1))
    assert form(body).params == {"InstanceTypes": names}


def test_bad_number_is_refused() -> None:
    with pytest.raises(AwsError, match="InvalidParameterValue"):
        form("Action=DescribeInstances&MaxResults=many")


def test_unknown_action_and_parameters_pass_through_unread() -> None:
    assert form("Action=DoMagic&Wand=oak").params == {}
    assert form("Action=DescribeInstances&Nonsense=1").params == {}


def test_who_calls_what_in_each_protocol() -> None:
    target = parse("ssm", "POST", "/", b'{"Name": "x"}', x_amz_target="AmazonSSM.GetParameter")
    rest = parse("eks", "GET", "/clusters/demo")
    assert (target.service, target.action, target.params) == ("ssm", "GetParameter", {"Name": "x"})
    assert (rest.service, rest.action, rest.region, rest.access_key) == ("eks", "DescribeCluster", "eu-west-1", "AKIA")
    assert parse("eks", "POST", "/clusters").action == "CreateCluster"
    assert parse("eks", "GET", "/clusters/demo/fargate-profiles").action == "ListFargateProfiles"
    assert parse("magic", "GET", "/spell").action == "GET /spell"


def test_unsigned_request_is_nobodys() -> None:
    assert wire.parse_request("GET", "/", lambda _name: "", b"") is None


def test_answer_is_escaped_and_typed() -> None:
    request = wire.Request("ec2", "eu-west-1", "DescribeSpotPriceHistory", "AKIA")
    when = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)
    reply = wire.render(request, {"SpotPriceHistory": [{"InstanceType": "<&>", "Timestamp": when}], "NextToken": None})
    root = ET.fromstring(reply.body)
    space = "{http://ec2.amazonaws.com/doc/2016-11-15/}"
    item = root.find(f"{space}spotPriceHistorySet/{space}item")
    assert item is not None
    assert item.findtext(f"{space}instanceType") == "<&>"
    assert item.findtext(f"{space}timestamp") == "2026-01-02T03:04:05.678Z"
    assert root.find(f"{space}nextToken") is None


def test_member_that_aws_does_not_have_is_an_error_of_ours() -> None:
    with pytest.raises(KeyError):
        wire.render(wire.Request("ec2", "r", "DescribeInstances", "k"), {"Wand": "oak"})


@pytest.mark.parametrize(
    ("text", "value", "fits"),
    [
        ("a*", "abc", True),
        ("a?c", "abc", True),
        ("a?c", "abbc", False),
        ("*", "", True),
        (r"a\*", "a*", True),
        (r"a\*", "abc", False),
        ("a.c", "abc", False),
        ("A*", "abc", False),
    ],
)
def test_filter_wildcards(text: str, value: str, fits: bool) -> None:
    assert bool(pattern(text).fullmatch(value)) is fits


def test_paging_walks_all_items_and_refuses_strange_sizes() -> None:
    seen: list[int] = []
    params: dict[str, object] = {"MaxResults": 4}
    while True:
        some, token = page(range(10), params, default_size=None, error_code="Bad")
        seen += some
        if token is None:
            break
        params["NextToken"] = token
    assert seen == list(range(10))
    for size in (-1, 1001):
        with pytest.raises(AwsError, match="maxResults"):
            page(range(10), {"MaxResults": size}, default_size=None, error_code="Bad")
