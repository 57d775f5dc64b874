"""The server: start, seeding, isolation, determinism, the command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import boto3
import pytest

from sandbox.aws import AwsSettings, serve
from tests.sandbox.aws.conftest import HandClock, Sandbox, ids


def test_the_account_is_filled_as_the_stack_would_leave_it(sandbox: Sandbox) -> None:
    discovery = [{"Name": "tag:karpenter.sh/discovery", "Values": ["demo"]}]
    subnets = sandbox.ec2.describe_subnets(Filters=discovery)["Subnets"]
    groups = sandbox.ec2.describe_security_groups(Filters=discovery)["SecurityGroups"]
    profile = sandbox.aws.client("iam").get_instance_profile(InstanceProfileName="KarpenterNodeInstanceProfile-demo")
    assert [s["AvailabilityZone"] for s in subnets] == [f"ap-northeast-2{z}" for z in "abcd"]
    assert all({"Key": "kubernetes.io/role/internal-elb", "Value": "1"} in s["Tags"] for s in subnets)
    assert len(groups) == 1
    assert [role["RoleName"] for role in profile["InstanceProfile"]["Roles"]] == ["KarpenterNodeRole-demo"]
    assert sandbox.aws.client("sqs").get_queue_url(QueueName="demo")["QueueUrl"].startswith(sandbox.aws.endpoint)


def test_the_spot_service_linked_role_has_its_name(sandbox: Sandbox) -> None:
    made = sandbox.aws.client("iam").create_service_linked_role(AWSServiceName="spot.amazonaws.com")["Role"]
    assert made["RoleName"] == "AWSServiceRoleForEC2Spot"


def test_describe_cluster_is_complete_and_names_the_kubernetes_api(sandbox: Sandbox) -> None:
    eks = sandbox.aws.client("eks")
    before = eks.describe_cluster(name="demo")["cluster"]
    sandbox.aws.set_kubernetes_endpoint("http://127.0.0.1:6443", "Y2E=")
    after = eks.describe_cluster(name="demo")["cluster"]
    group = before["resourcesVpcConfig"]["clusterSecurityGroupId"]
    assert before["version"] == "1.34"
    assert before["identity"]["oidc"]["issuer"].startswith("https://oidc.eks.ap-northeast-2.amazonaws.com/id/")
    assert sandbox.ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    assert after["resourcesVpcConfig"]["clusterSecurityGroupId"] == group
    assert (after["endpoint"], after["certificateAuthority"]["data"]) == ("http://127.0.0.1:6443", "Y2E=")


def test_a_zonal_shift_is_told_with_its_zone_and_its_end_until_another_takes_its_place(sandbox: Sandbox) -> None:
    arc, arn = sandbox.aws.client("arc-zonal-shift"), sandbox.aws.client("eks").describe_cluster(name="demo")
    given = {"resourceIdentifier": arn["cluster"]["arn"], "comment": "a test"}
    for zone, lasts, seconds in (("apne2-az1", "90m", 5400), ("apne2-az2", "2h", 7200)):
        started = arc.start_zonal_shift(**given, awayFrom=zone, expiresIn=lasts)
        (told,) = arc.get_managed_resource(resourceIdentifier=given["resourceIdentifier"])["zonalShifts"]
        assert (told["awayFrom"], told["appliedStatus"], started["status"]) == (zone, "APPLIED", "ACTIVE")
        assert (told["expiryTime"] - told["startTime"]).total_seconds() == seconds


def test_two_sandboxes_in_one_process_share_nothing(sandbox: Sandbox) -> None:
    with serve(AwsSettings(cluster="other"), seed=False) as other:
        assert other.account != sandbox.aws.account
        assert other.client("eks").list_clusters()["clusters"] == []
        assert other.client("sqs").list_queues().get("QueueUrls", []) == []
        sandbox.launch()
        assert other.instances() == []


def run(seed: int) -> tuple[object, ...]:
    """What a fresh sandbox makes of the same three calls."""
    clock = HandClock()
    with serve(AwsSettings(seed=seed), now=clock.now) as aws:
        sandbox = Sandbox(aws, clock)
        fleet = sandbox.fleet(
            *(sandbox.override(t) for t in ("c5.large", "m5.large", "r5.large")), template=sandbox.template()
        )
        prices = sandbox.ec2.describe_spot_price_history(MaxResults=50)["SpotPriceHistory"]
        chosen = fleet["Instances"][0]["LaunchTemplateAndOverrides"]["Overrides"]
        return tuple(sandbox.subnets.items()), fleet["FleetId"], ids(fleet), tuple(chosen.items()), str(prices)


def test_the_same_seed_gives_the_same_ids_prices_and_choices() -> None:
    first = run(7)
    assert run(7) == first
    assert run(8) != first


def test_other_regions_are_motos(sandbox: Sandbox) -> None:
    assert len(sandbox.aws.client("ec2", "eu-west-1").describe_subnets()["Subnets"]) == 3, "the default VPC's"


def test_the_environment_points_any_sdk_here(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in sandbox.aws.environment().items():
        monkeypatch.setenv(name, value)
    assert boto3.client("sts").get_caller_identity()["Account"] == sandbox.aws.account


def test_the_command_tells_when_it_is_ready_and_ends_on_sigterm() -> None:
    command = [sys.executable, "-m", "sandbox.aws", "--cluster", "blue", "--region", "us-west-2", "--speed", "10"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        exports, line = {}, ""
        while (line := process.stdout.readline()).startswith("export "):
            name, _, value = line.removeprefix("export ").strip().partition("=")
            exports[name] = value
        ready = re.match(r"sandbox AWS ready at (http://127\.0\.0\.1:\d+) \(us-west-2, cluster blue\)", line)
        assert ready, line
        assert (exports["AWS_ENDPOINT_URL"], exports["AWS_REGION"]) == (ready[1], "us-west-2")
        eks = boto3.client(
            "eks", endpoint_url=ready[1], region_name="us-west-2", aws_access_key_id="a", aws_secret_access_key="b"
        )
        assert eks.list_clusters()["clusters"] == ["blue"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.communicate()
