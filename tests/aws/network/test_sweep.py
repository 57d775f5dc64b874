"""scripts/sweep.py: what is the controller's goes, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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


def swept(*options: str) -> Any:
    return CliRunner().invoke(sweep.main, ["--cluster", CLUSTER, "--region", "ap-northeast-2", *options])


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

    said = swept("--dry-run")
    assert said.exit_code == 0
    assert ours in said.output
    assert there(cloud, "instances", [ours, node_group, other]) == [ours, node_group, other], (
        "a dry run changes nothing"
    )

    done = swept()
    assert done.exit_code == 0, done.output
    assert there(cloud, "instances", [ours, node_group, other]) == [node_group, other]
    assert there(cloud, "interfaces", interfaces) == [interfaces[1]], "of nodes that are gone, the swept one included"
    assert there(cloud, "templates", templates) == [templates[1]]
    assert "instances left: none" in swept().output, "a second run finds nothing"
    for left in interfaces[1:2]:
        cloud.aws.client("ec2").delete_network_interface(NetworkInterfaceId=left)
    cloud.aws.client("ec2").delete_launch_template(LaunchTemplateId=templates[1])


def test_a_refusal_names_what_stays_and_what_to_do_and_the_rest_still_goes(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = interface(cloud, "i-0123456789abcdef0")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    cloud.aws.faults.add(Fault(action="DeleteNetworkInterface", code="UnauthorizedOperation", times=1))
    refused = swept()
    assert refused.exit_code == 1
    assert f"{left}: " in refused.output
    assert "mend it and run this again" in refused.output
    assert swept().exit_code == 0
    assert not there(cloud, "interfaces", [left])
