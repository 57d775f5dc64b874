"""Launch templates: content, names by content, and the collection of those that nobody uses."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from controller.aws.amifamily import FAMILIES
from controller.aws.launch.launch_templates import LaunchParameters, LaunchTemplates, block_device, metadata_options
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import BlockDevice, BlockDeviceMapping, MetadataOptions
from tests.aws.conftest import Cloud, template

GIB = 2**30


def parameters(**fields: Any) -> LaunchParameters:
    """Launch parameters of an AL2 node."""
    defaults: dict[str, Any] = {
        "template": template(),
        "family": FAMILIES["AL2"],
        "image_id": "ami-1",
        "instance_profile": "profile",
        "security_groups": ("sg-1", "sg-2"),
        "user_data": "#!/bin/bash",
        "tags": FrozenMap({"kubernetes.io/cluster/demo": "owned"}),
    }
    return LaunchParameters(**defaults | fields)


@pytest.fixture
def templates(cloud: Cloud) -> LaunchTemplates:
    return LaunchTemplates(cloud.clients.ec2, "demo", cloud.clock)


def names(cloud: Cloud) -> set[str]:
    return {t["LaunchTemplateName"] for t in cloud.aws.client("ec2").describe_launch_templates()["LaunchTemplates"]}


def test_the_data_holds_everything_that_an_instance_is_launched_with() -> None:
    assert parameters().data() == {
        "ImageId": "ami-1",
        "IamInstanceProfile": {"Name": "profile"},
        "Monitoring": {"Enabled": False},
        "SecurityGroupIds": ["sg-1", "sg-2"],
        "UserData": base64.b64encode(b"#!/bin/bash").decode(),
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 2,
            "HttpTokens": "required",
        },
        "TagSpecifications": [
            {"ResourceType": "network-interface", "Tags": [{"Key": "kubernetes.io/cluster/demo", "Value": "owned"}]}
        ],
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"DeleteOnTermination": True, "Encrypted": True, "VolumeSize": 20, "VolumeType": "gp3"},
            }
        ],
    }


class TestMembers:
    def test_a_metadata_option_that_is_not_set_keeps_the_secure_default(self) -> None:
        options = metadata_options(MetadataOptions(http_put_response_hop_limit=1), ipv6=True)
        assert options == {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "enabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
        }
        assert metadata_options(MetadataOptions(http_tokens="optional"), ipv6=False)["HttpTokens"] == "optional"

    @pytest.mark.parametrize(
        ("size_bytes", "gib"), [(200 * GIB, 200), (200_000_000_000, 187), (4_000_000_000, 4), (1, 1)]
    )
    def test_volume_sizes_are_rounded_up_to_gibibytes(self, size_bytes: int, gib: int) -> None:
        mapping = BlockDeviceMapping("/dev/xvda", BlockDevice(volume_size_bytes=size_bytes))
        assert block_device(mapping) == {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": gib}}

    def test_every_member_of_a_block_device_is_passed(self) -> None:
        ebs = BlockDevice(False, False, 3000, "key", "snap-1", 200, 8 * GIB, "io2")
        assert block_device(BlockDeviceMapping("/dev/sdb", ebs))["Ebs"] == {
            "DeleteOnTermination": False,
            "Encrypted": False,
            "Iops": 3000,
            "KmsKeyId": "key",
            "SnapshotId": "snap-1",
            "Throughput": 200,
            "VolumeSize": 8,
            "VolumeType": "io2",
        }

    @pytest.mark.parametrize(
        ("family", "devices"),
        [("AL2", [("/dev/xvda", 20)]), ("AL2023", [("/dev/xvda", 20)]), ("Ubuntu", [("/dev/sda1", 20)]),
         ("Bottlerocket", [("/dev/xvda", 4), ("/dev/xvdb", 20)]), ("Custom", [])],
    )  # fmt: skip
    def test_default_devices_of_each_family(self, family: str, devices: list[tuple[str, int]]) -> None:
        mappings = parameters(family=FAMILIES[family]).data().get("BlockDeviceMappings", [])
        assert [(device["DeviceName"], device["Ebs"]["VolumeSize"]) for device in mappings] == devices

    def test_without_user_data_there_is_no_empty_one(self) -> None:
        assert "UserData" not in parameters(family=FAMILIES["Custom"], user_data="").data()

    def test_detailed_monitoring_is_passed(self) -> None:
        data = parameters(template=template(detailed_monitoring=True)).data()
        assert data["Monitoring"] == {"Enabled": True}


class TestNames:
    def test_the_same_content_has_the_same_name_and_any_difference_another(self) -> None:
        one = parameters()
        assert one.name == parameters().name
        assert one.name.startswith("karpenter.k8s.aws/")
        others = [
            replace(one, image_id="ami-2"),
            replace(one, user_data="#!/bin/sh"),
            replace(one, security_groups=("sg-1",)),
            replace(one, tags={}),
            replace(one, ipv6=True),
        ]
        assert len({one.name, *(other.name for other in others)}) == 6

    def test_what_does_not_reach_the_instance_does_not_change_the_name(self) -> None:
        assert parameters(template=template(name="other", context="c", generation=7)).name == parameters().name


class TestEnsure:
    def test_it_is_made_once_by_whichever_process_comes_first(self, cloud: Cloud, templates: LaunchTemplates) -> None:
        assert templates.ensure(parameters()) == parameters().name
        templates.ensure(parameters())
        LaunchTemplates(cloud.clients.ec2, "demo", cloud.clock).ensure(parameters())
        assert cloud.calls("CreateLaunchTemplate") == 1
        assert cloud.calls("DescribeLaunchTemplates") == 2

    def test_it_carries_the_clusters_tags(self, cloud: Cloud, templates: LaunchTemplates) -> None:
        name = templates.ensure(parameters(image_id="ami-tags"))
        (created,) = cloud.aws.client("ec2").describe_launch_templates(LaunchTemplateNames=[name])["LaunchTemplates"]
        assert {tag["Key"]: tag["Value"] for tag in created["Tags"]} == {
            "karpenter.k8s.aws/cluster": "demo",
            "karpenter.sh/managed-by": "nodeless",
            "kubernetes.io/cluster/demo": "owned",
        }


class TestCollection:
    def test_what_nobody_used_for_an_hour_goes_and_only_what_is_ours(self, cloud: Cloud) -> None:
        ec2 = cloud.aws.client("ec2")
        clock = cloud.clock
        theirs = {"karpenter.k8s.aws/cluster": "demo"}
        for name, tags in (("theirs", theirs), ("elsewhere", {**theirs, "karpenter.sh/managed-by": "nodeless"})):
            tags = tags | ({"karpenter.k8s.aws/cluster": "other"} if name == "elsewhere" else {})
            ec2.create_launch_template(
                LaunchTemplateName=f"{name}-{clock.now()}",
                LaunchTemplateData={"ImageId": "ami-1"},
                TagSpecifications=[
                    {"ResourceType": "launch-template", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
                ],
            )
        kept_by_tag = {f"theirs-{clock.now()}", f"elsewhere-{clock.now()}"}
        templates = LaunchTemplates(cloud.clients.ec2, "demo", clock)
        idle, used = parameters(image_id="ami-idle"), parameters(image_id="ami-used")
        templates.ensure(idle)
        templates.ensure(used)
        created = max(t["CreateTime"].timestamp() for t in ec2.describe_launch_templates()["LaunchTemplates"])
        clock.advance(max(0.0, created - clock.now()) + 3500)
        templates.ensure(used)
        clock.advance(200)
        templates.collect()
        assert idle.name not in names(cloud)
        assert {used.name, *kept_by_tag} <= names(cloud)
        assert templates.ensure(idle) in names(cloud)

    def test_a_process_that_has_just_started_deletes_nothing(self, cloud: Cloud, templates: LaunchTemplates) -> None:
        templates.ensure(parameters(image_id="ami-young"))
        cloud.clock.advance(3599)
        templates.collect()
        assert cloud.calls("DeleteLaunchTemplate") == 0
