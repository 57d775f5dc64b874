"""scripts/sweep.py: what is the controller's goes, and nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from sandbox.aws.faults import Fault
from tests.aws.conftest import CLUSTER, Cloud
from tests.components.stacks import ROOT

sys.path.insert(0, str(ROOT))
from scripts import sweep

OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}
OTHER = "222233334444"
ROLE_OF_OTHER = f"arn:aws:iam::{OTHER}:role/deployer"
OURS = {**OWNED, "karpenter.sh/provisioner-name": "default"}


@pytest.fixture(autouse=True)
def waits_turn_the_clock(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.waiter.time", SimpleNamespace(sleep=cloud.clock.advance))


def tagged(kind: str, tags: dict[str, str]) -> list[Any]:
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]


def instance(cloud: Cloud, tags: dict[str, str]) -> str:
    ec2 = cloud.aws.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    made = ec2.run_instances(
        ImageId=image,
        MinCount=1,
        MaxCount=1,
        InstanceType="m5.large",
        SubnetId=subnet,
        TagSpecifications=tagged("instance", tags),
    )
    cloud.clock.advance(10)
    return str(made["Instances"][0]["InstanceId"])


def interface(cloud: Cloud, node: str) -> str:
    ec2 = cloud.aws.client("ec2")
    tags = {"cluster.k8s.amazonaws.com/name": CLUSTER, "node.k8s.amazonaws.com/instance_id": node}
    made = ec2.create_network_interface(
        SubnetId=ec2.describe_subnets()["Subnets"][0]["SubnetId"], TagSpecifications=tagged("network-interface", tags)
    )
    return str(made["NetworkInterface"]["NetworkInterfaceId"])


def template(cloud: Cloud, name: str, tags: dict[str, str]) -> str:
    made = cloud.aws.client("ec2").create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={"InstanceType": "m5.large"},
        TagSpecifications=tagged("launch-template", tags),
    )
    return str(made["LaunchTemplate"]["LaunchTemplateId"])


def swept(cloud: Cloud, *options: str, account: str = "") -> Any:
    required = ["--cluster", CLUSTER, "--region", "ap-northeast-2", "--account", account or cloud.aws.account]
    return CliRunner().invoke(sweep.main, [*required, *options])


def there(cloud: Cloud, kind: str, ids: Sequence[str]) -> list[str]:
    ec2 = cloud.aws.client("ec2")
    if kind == "interfaces":
        left = {each["NetworkInterfaceId"] for each in ec2.describe_network_interfaces()["NetworkInterfaces"]}
    elif kind == "templates":
        left = {each["LaunchTemplateId"] for each in ec2.describe_launch_templates()["LaunchTemplates"]}
    else:
        left = {each["instanceId"] for each in cloud.alive()}
    return [each for each in ids if each in left]


def test_what_the_controller_made_goes_and_what_others_made_stays(cloud: Cloud) -> None:
    ours, node_group, other = instance(cloud, OURS), instance(cloud, OWNED), instance(cloud, {"Name": "x"})
    interfaces = [interface(cloud, ours), interface(cloud, node_group), interface(cloud, "i-0123456789abcdef0")]
    mark = {"karpenter.k8s.aws/cluster": CLUSTER}
    templates = [
        template(cloud, "ours", {**mark, "karpenter.sh/managed-by": "nodeless"}),
        template(cloud, "by-hand", mark),
    ]

    said = swept(cloud, "--dry-run")
    assert said.exit_code == 0
    assert ours in said.output
    assert there(cloud, "instances", [ours, node_group, other]) == [ours, node_group, other], (
        "a dry run changes nothing"
    )

    done = swept(cloud)
    assert done.exit_code == 0, done.output
    assert there(cloud, "instances", [ours, node_group, other]) == [node_group, other]
    assert there(cloud, "interfaces", interfaces) == [interfaces[1]], "of nodes that are gone, the swept one included"
    assert there(cloud, "templates", templates) == [templates[1]]
    assert "instances left: none" in swept(cloud).output, "a second run finds nothing"
    for left in interfaces[1:2]:
        cloud.aws.client("ec2").delete_network_interface(NetworkInterfaceId=left)
    cloud.aws.client("ec2").delete_launch_template(LaunchTemplateId=templates[1])


def test_a_refusal_names_what_stays_and_what_to_do_and_the_rest_still_goes(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = interface(cloud, "i-0123456789abcdef0")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    cloud.aws.faults.add(Fault(action="DeleteNetworkInterface", code="UnauthorizedOperation", times=1))
    refused = swept(cloud)
    assert refused.exit_code == 1
    assert f"{left}: " in refused.output
    assert "mend it and run this again" in refused.output
    assert swept(cloud).exit_code == 0
    assert not there(cloud, "interfaces", [left])


def test_a_cluster_of_the_same_name_in_another_account_is_not_swept(cloud: Cloud) -> None:
    ours = instance(cloud, OURS)
    refused = swept(cloud, account=OTHER)
    assert refused.exit_code == 1
    assert f"is in account {OTHER}, and the credentials are of account {cloud.aws.account}" in refused.output
    assert "left" not in refused.output, "it does not even look"
    assert there(cloud, "instances", [ours]) == [ours]


@pytest.mark.parametrize(
    "role", [ROLE_OF_OTHER, json.dumps({"roleArn": ROLE_OF_OTHER, "sessionName": "ci", "externalId": "secret"})]
)
def test_the_roles_of_the_stack_are_assumed_and_theirs_is_the_account_that_counts(cloud: Cloud, role: str) -> None:
    ours = instance(cloud, OURS)
    assert swept(cloud, "--assume-role", role).exit_code == 1, "the account of the role is not the cluster's"
    assert there(cloud, "instances", [ours]) == [ours]
    hub = f"arn:aws:iam::{cloud.aws.account}:role/hub"
    done = swept(cloud, "--dry-run", "--assume-role", hub, "--assume-role", role, account=OTHER)
    assert done.exit_code == 0, done.output
    assert "write an ARN" in swept(cloud, "--assume-role", "{}").output


def test_the_profile_of_the_stack_goes_before_keys_in_the_environment(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = instance(cloud, OURS)
    config = f"[profile prod]\nrole_arn = {ROLE_OF_OTHER}\ncredential_source = Environment\n"
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert swept(cloud, "--profile", "prod").exit_code == 1
    done = swept(cloud, "--dry-run", "--profile", "prod", account=OTHER)
    assert done.exit_code == 0, done.output
    assert there(cloud, "instances", [ours]) == [ours]
    assert "prod" in swept(cloud, "--profile", "production").output
