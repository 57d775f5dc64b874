"""Images: by SSM for every family that has its own, by selector for all, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.aws.amifamily import FAMILIES
from controller.aws.amifamily.images import Image, Images, image_filters, newest_only, parse_image
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.cloud import InstanceType
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.errors import CloudUnauthorizedError, NodeTemplateError
from sandbox.aws.faults import Fault
from tests.aws.conftest import Cloud, Types, provisioner, template

ROOT = Path(__file__).parents[3]


@pytest.fixture
def images(cloud: Cloud) -> Images:
    return Images(cloud.clients.ec2, cloud.clients.ssm, cloud.clock)


@pytest.fixture
def kinds(provider: AWSProvider) -> dict[str, InstanceType]:
    """A type of each kind that images differ by; with a launch template of its own, no type lacks an image."""
    types = provider.instance_types(provisioner(), template(launch_template="own"))
    wanted = ("m5.large", "m6g.large", "g4dn.xlarge", "g5g.xlarge", "inf1.xlarge")
    return {item.name: item for item in types if item.name in wanted}


def names(cloud: Cloud, image_ids: dict[str, str]) -> dict[str, str]:
    """Image name by instance type."""
    described = cloud.aws.client("ec2").describe_images(ImageIds=sorted(set(image_ids.values())))["Images"]
    by_id = {image["ImageId"]: image["Name"] for image in described}
    return {name: by_id[image_id] for name, image_id in image_ids.items()}


class TestBySsm:
    @pytest.mark.parametrize(
        ("family", "version", "expected"),
        [
            ("AL2", "1.32", ("amazon-eks-node-1.32", "amazon-eks-arm64-node-1.32", "amazon-eks-gpu-node-1.32", None)),
            (None, "1.32", ("amazon-eks-node-1.32", "amazon-eks-arm64-node-1.32", "amazon-eks-gpu-node-1.32", None)),
            *((name, "1.34", ("amazon-eks-node-al2023-x86_64-standard", "amazon-eks-node-al2023-arm64-standard",
                        "amazon-eks-node-al2023-x86_64-nvidia", "amazon-eks-node-al2023-arm64-nvidia"))
              for name in ("AL2023", None)),
            ("Bottlerocket", "1.34", ("bottlerocket-aws-k8s-1.34-x86_64", "bottlerocket-aws-k8s-1.34-arm64",
                              "bottlerocket-aws-k8s-1.34-nvidia-x86_64", "bottlerocket-aws-k8s-1.34-nvidia-arm64")),
            ("Ubuntu", "1.34", ("ubuntu-eks",) * 4),
        ],
    )  # fmt: skip
    def test_each_kind_of_type_gets_its_image_and_those_without_one_are_left_out(
        self,
        cloud: Cloud,
        images: Images,
        kinds: dict[str, InstanceType],
        family: str | None,
        version: str,
        expected: tuple[str | None, ...],
    ) -> None:
        wanted = ("m5.large", "m6g.large", "g4dn.xlarge", "g5g.xlarge")
        chosen = names(cloud, images.by_type(template(ami_family=family), version, [kinds[name] for name in wanted]))
        prefixes = {name: prefix for name, prefix in zip(wanted, expected, strict=True) if prefix is not None}
        assert set(chosen) == set(prefixes)
        for name, prefix in prefixes.items():
            assert chosen[name].startswith(prefix)

    def test_a_version_without_images_names_the_parameter_and_what_else_to_do(self, images: Images) -> None:
        with pytest.raises(NodeTemplateError, match=r"no AL2023 image for Kubernetes 1\.99.*2023/x86_64.*another one"):
            images.of(template(), "1.99")
        with pytest.raises(NodeTemplateError, match=r"no AL2 image for Kubernetes 1\.33.*set spec.amiFamily to AL2023"):
            images.of(template(ami_family="AL2"), "1.33")

    def test_al2023_has_images_for_the_newest_version_that_the_stacks_name(self, images: Images) -> None:
        config = yaml.safe_load((ROOT / "stacks" / "Pulumi.prod.yaml").read_text())["config"]
        version = config["nodeless:cluster"]["create"]["version"]
        for entry in config["nodeless:nodeTemplates"]:
            chosen = template(ami_family=entry["spec"]["amiFamily"])
            assert len(images.of(chosen, version)) == len(FAMILIES["AL2023"].aliases)

    def test_ubuntu_falls_back_to_the_release_that_has_images(self, cloud: Cloud, images: Images) -> None:
        loaded = FAMILIES["Ubuntu"].aliases[0].parameters[0].format(version="1.34")
        cloud.aws.faults.add(Fault(service="ssm", action="GetParameter", code="ParameterNotFound", times=1))
        (first, _) = images.of(template(ami_family="Ubuntu"), "1.34")
        asked = [call.params["Name"] for call in cloud.aws.calls.calls("GetParameter")]
        assert asked[0] == loaded
        assert "22.04" in asked[1]
        assert first.id.startswith("ami-")

    def test_answers_are_kept_for_five_minutes_and_outlive_throttling(self, cloud: Cloud, images: Images) -> None:
        first = images.of(template(), "1.34")
        calls = cloud.calls("GetParameter")
        assert images.of(template(), "1.34") == first
        assert cloud.calls("GetParameter") == calls
        cloud.clock.advance(301)
        cloud.aws.faults.add(Fault(service="ssm", code="ThrottlingException"))
        assert images.of(template(), "1.34") == first

    def test_a_missing_permission_is_not_papered_over_with_an_old_answer(self, cloud: Cloud, images: Images) -> None:
        images.of(template(), "1.34")
        cloud.clock.advance(301)
        cloud.aws.faults.add(Fault(service="ssm", code="AccessDeniedException"))
        with pytest.raises(CloudUnauthorizedError, match="allow ssm:GetParameter"):
            images.of(template(), "1.34")


class TestBySelector:
    @pytest.fixture
    def own(self, cloud: Cloud) -> Iterator[dict[str, str]]:
        """Two images of the account, tagged; the name says the tag."""
        ec2 = cloud.aws.client("ec2")
        made: dict[str, str] = {}
        for name, tags in (("plain", {"team": "a"}), ("gpu", {"team": "b", keys.INSTANCE_GPU_MANUFACTURER: "nvidia"})):
            image = ec2.register_image(Name=f"own-{name}-{id(made)}", Architecture="x86_64", RootDeviceName="/dev/xvda")
            ec2.create_tags(Resources=[image["ImageId"]], Tags=[{"Key": k, "Value": v} for k, v in tags.items()])
            made[name] = image["ImageId"]
        yield made
        for image_id in made.values():
            ec2.deregister_image(ImageId=image_id)

    def test_by_tag(self, images: Images, own: dict[str, str]) -> None:
        assert [image.id for image in images.of(custom({"team": "a"}), "1.34")] == [own["plain"]]

    def test_by_ids(self, images: Images, own: dict[str, str]) -> None:
        selected = images.of(custom({"aws-ids": f"{own['plain']}, {own['gpu']}"}), "1.34")
        assert {image.id for image in selected} == set(own.values())

    def test_an_image_with_a_well_known_tag_is_for_such_types_alone(
        self, images: Images, own: dict[str, str], kinds: dict[str, InstanceType]
    ) -> None:
        by_type = images.by_type(custom({"team": "b"}), "1.34", kinds.values())
        assert by_type == {"g4dn.xlarge": own["gpu"]}
        with pytest.raises(NodeTemplateError, match=r"no image of family Custom is for instance types m5\.large"):
            images.by_type(custom({"team": "b"}), "1.34", [kinds["m5.large"]])

    def test_a_selector_that_finds_nothing_is_refused_with_the_remedy(self, images: Images) -> None:
        with pytest.raises(NodeTemplateError, match=r"spec\.amiSelector \{team: nobody\} matches no image"):
            images.of(custom({"team": "nobody"}), "1.34")

    def test_a_family_without_images_of_its_own_needs_a_selector(self, images: Images) -> None:
        with pytest.raises(NodeTemplateError, match=r"family Custom has no image of its own; set spec\.amiSelector"):
            images.of(template(ami_family="Custom"), "1.34")


@pytest.mark.parametrize(
    ("selector", "filters", "owners"),
    [
        ({"team": "a"}, {"tag:team": ["a"]}, ["self", "amazon"]),
        ({"team": "*"}, {"tag-key": ["team"]}, ["self", "amazon"]),
        ({"team": "a,b"}, {"tag:team": ["a,b"]}, ["self", "amazon"]),
        ({"aws::name": "my-*"}, {"name": ["my-*"]}, ["self", "amazon"]),
        ({"aws-ids": "ami-1, ami-2"}, {"image-id": ["ami-1", "ami-2"]}, []),
        ({"aws::ids": "ami-1"}, {"image-id": ["ami-1"]}, []),
        ({"aws::owners": "self, 123"}, {}, ["self", "123"]),
        ({"aws::ids": "ami-1", "aws::owners": "123"}, {"image-id": ["ami-1"]}, ["123"]),
    ],
)
def test_filters_and_owners(selector: dict[str, str], filters: dict[str, list[str]], owners: list[str]) -> None:
    read, chosen_owners = image_filters(selector)
    assert ({item["Name"]: item["Values"] for item in read}, chosen_owners) == (filters, owners)


def test_newest_first_undated_last_and_one_for_each_set_of_requirements() -> None:
    arm = Requirements([Requirement.of(keys.ARCH, "In", ("arm64",))])
    kept = newest_only(
        [
            Image("ami-undated", "z"),
            Image("ami-old", "a", "2023-01-01T00:00:00.000Z"),
            Image("ami-new", "b", "2024-01-01T00:00:00.000Z"),
            Image("ami-arm", "c", "2022-01-01T00:00:00.000Z", arm),
        ]
    )
    assert [image.id for image in kept] == ["ami-new", "ami-arm"]


def test_an_architecture_that_kubernetes_does_not_know_fits_no_type(types: Types) -> None:
    image = parse_image({"ImageId": "ami-1", "Architecture": "x86_64_mac"})
    assert all(image.requirements.conflicts(item.requirements) for item in types)


def custom(selector: dict[str, Any]) -> AWSNodeTemplate:
    return template(ami_family="Custom", ami_selector=FrozenMap(selector))
