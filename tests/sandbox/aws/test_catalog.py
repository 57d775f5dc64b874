"""Instance types, offerings, images and their parameters."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.aws.ec2.catalog import Catalog
from sandbox.aws.ec2.images import VERSIONS, Images
from sandbox.aws.seeded import Seeded
from tests.sandbox.aws.conftest import Sandbox


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def all_types(sandbox: Sandbox, **params: Any) -> list[dict[str, Any]]:
    pages = sandbox.ec2.get_paginator("describe_instance_types").paginate(**params)
    return [t for page in pages for t in page["InstanceTypes"]]


def test_types_come_in_pages_of_a_hundred_and_only_those_of_the_region(sandbox: Sandbox) -> None:
    first = sandbox.ec2.describe_instance_types()
    assert len(first["InstanceTypes"]) == 100
    names = [t["InstanceType"] for t in all_types(sandbox)]
    assert len(names) == len(set(names))
    assert set(names) == set(sandbox.aws.world.catalog.types)


def test_the_fields_of_a_type_arrive_whole(sandbox: Sandbox) -> None:
    """m5.large: 2 vCPUs, 8 GiB, 3 interfaces with 10 addresses each, nitro."""
    entry = all_types(sandbox, InstanceTypes=["m5.large"])[0]
    assert entry["VCpuInfo"]["DefaultVCpus"] == 2
    assert entry["MemoryInfo"]["SizeInMiB"] == 8192
    assert entry["NetworkInfo"]["MaximumNetworkInterfaces"] == 3
    assert entry["NetworkInfo"]["Ipv4AddressesPerInterface"] == 10
    assert entry["ProcessorInfo"]["SupportedArchitectures"] == ["x86_64"]
    assert set(entry["SupportedUsageClasses"]) >= {"on-demand", "spot"}
    assert entry["Hypervisor"] == "nitro"
    gpus = all_types(sandbox, InstanceTypes=["g4dn.xlarge"])[0]["GpuInfo"]["Gpus"][0]
    assert (gpus["Manufacturer"], gpus["Count"]) == ("NVIDIA", 1)


def test_filters_on_types(sandbox: Sandbox) -> None:
    arm = all_types(sandbox, Filters=[{"Name": "processor-info.supported-architecture", "Values": ["arm64"]}])
    assert arm
    assert all("arm64" in t["ProcessorInfo"]["SupportedArchitectures"] for t in arm)
    metal = all_types(
        sandbox, Filters=[{"Name": "bare-metal", "Values": ["true"]}, {"Name": "instance-type", "Values": ["c5*"]}]
    )
    assert metal
    assert all(".metal" in t["InstanceType"] and t["InstanceType"].startswith("c5") for t in metal)
    with pytest.raises(ClientError) as error:
        all_types(sandbox, Filters=[{"Name": "colour", "Values": ["red"]}])
    assert code(error) == "InvalidParameterValue"


def test_unknown_type_is_refused_by_name(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        all_types(sandbox, InstanceTypes=["m5.large", "m99.large"])
    assert code(error) == "InvalidInstanceType"
    assert "m99.large" in str(error.value)


def test_dry_run_of_describe_instance_types_tells_that_it_is_allowed(sandbox: Sandbox) -> None:
    with pytest.raises(ClientError) as error:
        sandbox.ec2.describe_instance_types(DryRun=True)
    assert code(error) == "DryRunOperation"
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412


def test_offerings_by_zone_page_and_filter(sandbox: Sandbox) -> None:
    pages = sandbox.ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone")
    rows = [(o["InstanceType"], o["Location"]) for page in pages for o in page["InstanceTypeOfferings"]]
    assert len(rows) == len(set(rows)) > 2000
    assert {zone for _, zone in rows} == set(sandbox.subnets)
    some = sandbox.ec2.describe_instance_type_offerings(
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": ["c7g.*"]}, {"Name": "location", "Values": ["ap-northeast-2a"]}],
    )["InstanceTypeOfferings"]
    assert some
    assert all(o["InstanceType"].startswith("c7g.") and o["Location"] == "ap-northeast-2a" for o in some)


def test_region_without_types_is_refused() -> None:
    with pytest.raises(ValueError, match="mars-north-1"):
        Catalog("mars-north-1")


PARAMETERS = [
    ("/aws/service/eks/optimized-ami/{v}/amazon-linux-2/recommended/image_id", "x86_64", "/dev/xvda"),
    ("/aws/service/eks/optimized-ami/{v}/amazon-linux-2-gpu/recommended/image_id", "x86_64", "/dev/xvda"),
    ("/aws/service/eks/optimized-ami/{v}/amazon-linux-2-arm64/recommended/image_id", "arm64", "/dev/xvda"),
    (
        "/aws/service/eks/optimized-ami/{v}/amazon-linux-2023/x86_64/standard/recommended/image_id",
        "x86_64",
        "/dev/xvda",
    ),
    ("/aws/service/eks/optimized-ami/{v}/amazon-linux-2023/arm64/nvidia/recommended/image_id", "arm64", "/dev/xvda"),
    ("/aws/service/bottlerocket/aws-k8s-{v}/x86_64/latest/image_id", "x86_64", "/dev/xvda"),
    ("/aws/service/bottlerocket/aws-k8s-{v}-nvidia/arm64/latest/image_id", "arm64", "/dev/xvda"),
    ("/aws/service/canonical/ubuntu/eks/20.04/{v}/stable/current/amd64/hvm/ebs-gp2/ami-id", "x86_64", "/dev/sda1"),
    ("/aws/service/canonical/ubuntu/eks/22.04/{v}/stable/current/arm64/hvm/ebs-gp2/ami-id", "arm64", "/dev/sda1"),
]


def last_minor(path: str) -> int:
    """Of the versions for which a family has images."""
    ends = {"amazon-linux-2/": 32, "amazon-linux-2-": 32, "/20.04/": 29}
    return next((minor for part, minor in ends.items() if part in path), 99)


@pytest.mark.parametrize(("path", "architecture", "root"), PARAMETERS)
def test_every_family_has_an_image_that_ec2_knows(sandbox: Sandbox, path: str, architecture: str, root: str) -> None:
    ssm = sandbox.aws.client("ssm")
    versions = [v for v in VERSIONS if int(v[2:]) <= last_minor(path)]
    values = [ssm.get_parameter(Name=path.format(v=v))["Parameter"]["Value"] for v in versions]
    images = sandbox.ec2.describe_images(ImageIds=values)["Images"]
    assert len({image["ImageId"] for image in images}) == len(versions) > 5, "each version has its own"
    assert {image["Architecture"] for image in images} == {architecture}
    assert {image["RootDeviceName"] for image in images} == {root}
    assert all(image["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] > 0 for image in images)


def test_missing_parameter_and_many_at_once(sandbox: Sandbox) -> None:
    ssm = sandbox.aws.client("ssm")
    known = "/aws/service/eks/optimized-ami/1.30/amazon-linux-2/recommended/image_id"
    missing = "/aws/service/eks/optimized-ami/1.99/amazon-linux-2/recommended/image_id"
    with pytest.raises(ssm.exceptions.ParameterNotFound):
        ssm.get_parameter(Name=missing)
    answer = ssm.get_parameters(Names=[known, missing])
    assert [p["Name"] for p in answer["Parameters"]] == [known]
    assert answer["InvalidParameters"] == [missing]


def test_parameters_by_path_page_through_everything_below(sandbox: Sandbox) -> None:
    ssm = sandbox.aws.client("ssm")
    path = "/aws/service/eks/optimized-ami/1.33"
    pages = ssm.get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True)
    names = [p["Name"] for page in pages for p in page["Parameters"]]
    assert len(names) == len(set(names)) == 10
    assert all(name.startswith(path + "/") for name in names)
    assert ssm.get_parameters_by_path(Path=path)["Parameters"] == [], "nothing lies directly below"


def test_own_parameters_are_still_motos(sandbox: Sandbox) -> None:
    ssm = sandbox.aws.client("ssm")
    ssm.put_parameter(Name="/mine/value", Value="1", Type="String")
    assert ssm.get_parameter(Name="/mine/value")["Parameter"]["Value"] == "1"


def test_newly_published_image_replaces_the_parameter(sandbox: Sandbox) -> None:
    name = "/aws/service/eks/optimized-ami/1.31/amazon-linux-2/recommended/image_id"
    sandbox.aws.world.parameters.publish(name, "ami-0fedcba9876543210")
    parameter = sandbox.aws.client("ssm").get_parameter(Name=name)["Parameter"]
    assert (parameter["Value"], parameter["Version"]) == ("ami-0fedcba9876543210", 2)


def test_images_by_owner_name_and_age(sandbox: Sandbox) -> None:
    wanted = [{"Name": "name", "Values": ["amazon-eks-node-al2023-x86_64-standard-1.34-v*"]}]
    images = sandbox.ec2.describe_images(Owners=["amazon"], Filters=wanted)["Images"]
    assert len(images) == 2, "the recommended one and its predecessor"
    newest = max(images, key=lambda image: image["CreationDate"])
    assert newest["ImageId"] == sandbox.image()
    assert sandbox.ec2.describe_images(Owners=["self"], Filters=wanted)["Images"] == []


def test_own_image_with_tags_can_be_found_and_launched(sandbox: Sandbox) -> None:
    image_id = sandbox.ec2.register_image(
        Name="golden", Architecture="x86_64", RootDeviceName="/dev/xvda",
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 12}}],
    )["ImageId"]  # fmt: skip
    sandbox.ec2.create_tags(Resources=[image_id], Tags=[{"Key": "team", "Value": "a"}])
    images = sandbox.ec2.describe_images(Owners=["self"], Filters=[{"Name": "tag:team", "Values": ["a"]}])["Images"]
    assert [(i["ImageId"], i["Architecture"]) for i in images] == [(image_id, "x86_64")]
    instance = sandbox.launch(template=sandbox.template(ImageId=image_id))
    assert sandbox.describe(InstanceIds=[instance])[0]["ImageId"] == image_id
    sandbox.ec2.deregister_image(ImageId=image_id)
    with pytest.raises(ClientError) as error:
        sandbox.ec2.describe_images(ImageIds=[image_id])
    assert code(error) == "InvalidAMIID.NotFound"


def test_families_end_where_their_vendors_stopped() -> None:
    """No AL2 image for EKS after 1.32, no Ubuntu 20.04 after 1.29; the others go on."""
    parameters = Images("us-east-1", "123456789012", Seeded(1)).parameters()
    al2 = "/aws/service/eks/optimized-ami/{}/amazon-linux-2/recommended/image_id"
    al2023 = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"
    focal = "/aws/service/canonical/ubuntu/eks/20.04/{}/stable/current/amd64/hvm/ebs-gp2/ami-id"
    assert al2.format("1.32") in parameters
    assert al2.format("1.33") not in parameters
    assert focal.format("1.29") in parameters
    assert focal.format("1.30") not in parameters
    assert al2023 in parameters


def test_image_ids_are_the_same_in_every_run_and_differ_by_region() -> None:
    here, again, there = (
        Images(region, "123456789012", Seeded(seed)).parameters()
        for region, seed in (("us-east-1", 1), ("us-east-1", 2), ("us-west-2", 1))
    )
    assert here == again
    path = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id"
    assert here[path] != there[path]
