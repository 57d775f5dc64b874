"""Scripted bad days, over HTTP as a scenario posts them and as an SDK meets them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from sandbox.aws.faults import Fault, Faults, ScenarioError, Shortage, parse
from tests.sandbox.aws.conftest import HandClock, Sandbox, ids


def ask(sandbox: Sandbox, method: str, path: str, document: Any = None) -> Any:
    """One request to the sandbox's own door."""
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(f"{sandbox.aws.endpoint}/sandbox/{path}", data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        return {"status": error.code} | json.load(error)


def impatient(sandbox: Sandbox, service: str = "ec2", **more: Any) -> Any:
    """A client that never retries."""
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=5)
    keys = {"aws_access_key_id": "AKIA", "aws_secret_access_key": "secret"} | more
    return boto3.client(  # type: ignore[call-overload]
        service, endpoint_url=sandbox.aws.endpoint, region_name="ap-northeast-2", config=config, **keys
    )


def refusal(call: Any, **params: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as error:
        call(**params)
    response = error.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_throttling_for_a_number_of_calls_is_overcome_by_the_sdk(sandbox: Sandbox) -> None:
    ask(
        sandbox,
        "POST",
        "faults",
        {"service": "ec2", "action": "DescribeSubnets", "code": "RequestLimitExceeded", "times": 1},
    )
    config = Config(retries={"mode": "standard", "total_max_attempts": 4})
    client = boto3.client("ec2", endpoint_url=sandbox.aws.endpoint, region_name="ap-northeast-2", config=config,
                          aws_access_key_id="a", aws_secret_access_key="b")  # fmt: skip
    assert client.describe_subnets()["Subnets"]
    assert sandbox.aws.calls.counts()["ec2.DescribeSubnets"] == 2
    assert sandbox.aws.calls.errors() == {"ec2.DescribeSubnets:RequestLimitExceeded": 1}


@pytest.mark.parametrize(
    ("service", "operation", "params", "code", "status"),
    [
        ("ec2", "describe_instances", {}, "RequestLimitExceeded", 503),
        ("ec2", "describe_instances", {}, "RequestExpired", 400),
        ("ssm", "get_parameter", {"Name": "/x"}, "ThrottlingException", 400),
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2"}, "InternalError", 500),
        ("eks", "describe_cluster", {"name": "demo"}, "AccessDeniedException", 400),
        ("sqs", "get_queue_url", {"QueueName": "demo"}, "ExpiredToken", 403),
        ("sts", "get_caller_identity", {}, "ExpiredToken", 403),
        ("iam", "list_roles", {}, "AccessDenied", 403),
    ],
)
def test_errors_arrive_in_the_protocol_of_each_service(
    sandbox: Sandbox, service: str, operation: str, params: dict[str, Any], code: str, status: int
) -> None:
    sandbox.aws.faults.add(Fault(service=service, code=code))
    assert refusal(getattr(impatient(sandbox, service), operation), **params) == (code, status)


def test_outage_closes_the_connection(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add(Fault(drop=True, times=1))
    with pytest.raises(ConnectionClosedError):
        impatient(sandbox).describe_subnets()
    assert impatient(sandbox).describe_subnets()["Subnets"], "it is over after the one call"
    assert sandbox.aws.calls.errors() == {"ec2.DescribeSubnets:ConnectionDropped": 1}


def test_lost_answer_of_a_fleet_is_found_again_by_its_token(sandbox: Sandbox) -> None:
    """The deed is done though the caller never hears of it; the retry with the same token launches nothing new."""
    template = sandbox.template()
    sandbox.aws.faults.add(Fault(action="CreateFleet", drop=True, after=True, times=1))
    specification = {"LaunchTemplateName": template, "Version": "$Latest"}
    request = {
        "Type": "instant",
        "ClientToken": "lost",
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
        "LaunchTemplateConfigs": [
            {"LaunchTemplateSpecification": specification, "Overrides": [sandbox.override("c5.large")]}
        ],
    }
    with pytest.raises(ConnectionClosedError):
        impatient(sandbox).create_fleet(**request)
    launched = [i["instanceId"] for i in sandbox.aws.instances()]
    assert len(launched) == 1
    assert ids(impatient(sandbox).create_fleet(**request)) == launched
    assert len(sandbox.aws.instances()) == 1


def test_fault_window_opens_and_closes_with_the_clock(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add(Fault(action="DescribeVpcs", code="Unavailable", startSeconds=10, forSeconds=20))
    call = impatient(sandbox).describe_vpcs
    assert call()["Vpcs"]
    sandbox.clock.advance(10)
    assert refusal(call) == ("Unavailable", 503)
    sandbox.clock.advance(20)
    assert call()["Vpcs"]


def test_first_calls_may_pass(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add(Fault(action="DescribeVpcs", code="Unavailable", skip=2, times=1))
    call = impatient(sandbox).describe_vpcs
    assert call()["Vpcs"]
    assert call()["Vpcs"]
    assert refusal(call) == ("Unavailable", 503)
    assert call()["Vpcs"]


def test_credentials_expire_by_key(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add(Fault(accessKey="OLD", code="RequestExpired"))
    assert refusal(impatient(sandbox, aws_access_key_id="OLD").describe_vpcs) == ("RequestExpired", 400)
    assert impatient(sandbox, aws_access_key_id="NEW").describe_vpcs()["Vpcs"]


def test_the_sandboxs_own_machines_have_no_bad_days(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add(Fault(code="InternalError"))
    assert impatient(sandbox, aws_access_key_id="kubelets").describe_vpcs()["Vpcs"]


def test_missing_permission_names_the_action_also_in_a_dry_run(sandbox: Sandbox) -> None:
    sandbox.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="UnauthorizedOperation"))
    with pytest.raises(ClientError, match="ec2:CreateFleet") as error:
        sandbox.fleet(sandbox.override("c5.large"), DryRun=True)
    assert error.value.response["Error"]["Code"] == "UnauthorizedOperation"


def test_terminate_half_carried_out(sandbox: Sandbox) -> None:
    launched = ids(sandbox.fleet(sandbox.override("c5.large"), count=4))
    sandbox.aws.faults.add(Fault(action="TerminateInstances", half=True, times=1))
    answer = sandbox.ec2.terminate_instances(InstanceIds=launched)
    assert [c["InstanceId"] for c in answer["TerminatingInstances"]] == launched[:2]
    assert [sandbox.state(i) for i in launched] == ["shutting-down"] * 2 + ["pending"] * 2


def test_rules_are_listed_and_removed_over_http(sandbox: Sandbox) -> None:
    fault = ask(sandbox, "POST", "faults", {"action": "DescribeVpcs", "code": "Unavailable"})
    shortage = ask(sandbox, "POST", "shortages", {"instanceType": "c5.*", "zone": "ap-northeast-2a"})
    listed = ask(sandbox, "GET", "faults")
    assert [rule["id"] for rule in listed["faults"]] == [fault["id"]]
    assert [rule["instanceType"] for rule in listed["shortages"]] == ["c5.*"]
    ask(sandbox, "DELETE", f"faults?id={fault['id']}")
    assert impatient(sandbox).describe_vpcs()["Vpcs"]
    ask(sandbox, "DELETE", "faults")
    assert ask(sandbox, "GET", "faults") == {"faults": [], "shortages": []}
    assert shortage["id"] != fault["id"]


@pytest.mark.parametrize(
    ("path", "document", "reason"),
    [
        ("faults", {"actoin": "X", "times": "two"}, "actoin: unknown"),
        ("faults", {"actoin": "X", "times": "two"}, "times: expected int, got 'two'"),
        ("faults", {"action": "CreateFleet"}, "needs one of"),
        ("faults", {"half": True}, "only TerminateInstances"),
        ("faults", ["no"], "expected an object"),
        ("prices", {"instanceType": "m99.large", "capacityType": "spot", "price": 1}, "m99.large is not offered"),
        ("prices", {"capacityType": "spot"}, "missing key 'instanceType'"),
        ("interrupt", {"instanceId": "i-1", "kind": "spot"}, "no instance i-1"),
        ("delays", {"pending": 1}, "unexpected keyword argument 'pending'"),
    ],
)
def test_bad_scenario_is_refused_with_the_reason(sandbox: Sandbox, path: str, document: Any, reason: str) -> None:
    answer = ask(sandbox, "POST", path, document)
    assert answer["status"] == 400
    assert reason in answer["error"]


def test_unknown_door_lists_the_known_ones(sandbox: Sandbox) -> None:
    answer = ask(sandbox, "GET", "nonsense")
    assert answer["status"] == 404
    assert "GET /sandbox/calls" in answer["error"]


def test_call_log_tells_who_called_what_with_which_arguments(sandbox: Sandbox) -> None:
    ask(sandbox, "DELETE", "calls")
    impatient(sandbox, aws_access_key_id="ME").describe_instances(Filters=[{"Name": "tag-key", "Values": ["a", "b"]}])
    log = ask(sandbox, "GET", "calls?action=DescribeInstances")
    assert log["counts"] == {"ec2.DescribeInstances": 1}
    call = log["calls"][0]
    assert (call["access_key"], call["status"], call["code"]) == ("ME", 200, "")
    assert call["params"] == {"Filters": [{"Name": "tag-key", "Values": ["a", "b"]}]}


def test_instances_over_http_are_what_a_kubelet_needs(sandbox: Sandbox) -> None:
    instance = sandbox.launch()
    shown = ask(sandbox, "GET", "instances")["instances"][0]
    assert (shown["instanceId"], shown["state"], shown["capacityType"]) == (instance, "pending", "spot")
    assert shown["volumes"] == [{"volumeId": shown["volumes"][0]["volumeId"], "device": "/dev/xvda", "sizeGiB": 20}]
    ask(sandbox, "POST", "delays", {"pending_seconds": 1})
    quick = sandbox.launch()
    sandbox.clock.advance(1)
    states = {i["instanceId"]: i["state"] for i in ask(sandbox, "GET", "instances")["instances"]}
    assert states == {instance: "pending", quick: "running"}
    running = ask(sandbox, "GET", "instances?state=running,terminated")["instances"]
    assert [i["instanceId"] for i in running] == [quick]


def test_scripted_price_over_http_reaches_both_price_apis(sandbox: Sandbox) -> None:
    zone = "ap-northeast-2d"
    ask(sandbox, "POST", "prices", {"instanceType": "r5.xlarge", "zone": zone, "capacityType": "spot", "price": 0.0123})
    rows = sandbox.ec2.describe_spot_price_history(InstanceTypes=["r5.xlarge"], AvailabilityZone=zone)[
        "SpotPriceHistory"
    ]
    assert float(rows[0]["SpotPrice"]) == 0.0123


def test_interruption_image_and_cluster_over_http(sandbox: Sandbox) -> None:
    instance = sandbox.launch()
    ask(sandbox, "POST", "interrupt", {"instanceId": instance, "kind": "spot"})
    sandbox.clock.advance(120)
    assert sandbox.state(instance) == "shutting-down"
    name = "/aws/service/bottlerocket/aws-k8s-1.30/x86_64/latest/image_id"
    ask(sandbox, "POST", "parameters", {"name": name, "value": "ami-0aaaaaaaaaaaaaaaa"})
    assert impatient(sandbox, "ssm").get_parameter(Name=name)["Parameter"]["Value"] == "ami-0aaaaaaaaaaaaaaaa"
    ask(sandbox, "POST", "cluster", {"endpoint": "https://127.0.0.1:9"})
    assert impatient(sandbox, "eks").describe_cluster(name="demo")["cluster"]["endpoint"] == "https://127.0.0.1:9"


def test_rules_match_by_wildcard_and_pools_by_every_part() -> None:
    faults = Faults(HandClock().now)
    faults.add(Fault(service="ec2", action="Describe*", code="X"))
    assert faults.for_call("ec2", "DescribeVpcs", "key") is not None
    assert faults.for_call("ec2", "CreateFleet", "key") is None
    assert faults.for_call("ssm", "DescribeParameters", "key") is None


def test_parse_names_every_problem_at_once() -> None:
    with pytest.raises(ScenarioError) as error:
        parse(Shortage, {"zone": 3, "type": "x", "capacity": True})
    assert str(error.value).count("expected") == 2
