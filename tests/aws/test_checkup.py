"""What `nodeless check` asks of an account, and what it says of the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.aws.checkup import family_class, running_vcpus
from controller.aws.provider import AWSProvider
from controller.commandline.checkaws import AwsCheck
from controller.commandline.findings import Finding, Level, collect
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.state.snapshot import Snapshot
from tests.aws.conftest import SETTINGS, Cloud, provisioner, request, template


@pytest.mark.parametrize(
    ("instance_type", "family"),
    [
        ("m5.large", "standard"), ("c6in.2xlarge", "standard"), ("t3.micro", "standard"), ("im4gn.large", "standard"),
        ("g5.xlarge", "g"), ("vt1.3xlarge", "g"), ("p3.2xlarge", "p"),
        ("inf2.xlarge", ""), ("trn1.2xlarge", ""), ("hpc7a.12xlarge", ""), ("u-6tb1.metal", ""), ("x2idn.metal", ""),
    ],
)  # fmt: skip
def test_families_are_counted_as_service_quotas_counts_them(instance_type: str, family: str) -> None:
    assert family_class(instance_type) == family


def looked(cloud: Cloud, elder: AWSProvider, **changes: object) -> dict[str, list[Finding]]:
    snapshot = Snapshot(provisioners={"default": provisioner()}, node_templates={"default": template(**changes)})
    settings = replace(SETTINGS, interruption_queue_name="nowhere")
    found: dict[str, list[Finding]] = {}
    for each in collect(AwsCheck(cloud.clients, cloud.restarted(elder, settings), settings, snapshot).checks()):
        found.setdefault(each.subject, []).append(each)
    return found


def test_account_is_told_apart_by_what_works_and_what_does_not(cloud: Cloud, elder: AWSProvider) -> None:
    found = looked(cloud, elder)
    assert found["AWS"][0].text.startswith("arn:aws:sts::")
    assert found["Permissions"][0].level is Level.OK
    assert found["AWSNodeTemplate default"][0].level is Level.OK
    assert found["Queue"][0].level is Level.PROBLEM
    assert "nowhere" in found["Queue"][0].text
    assert found["Spot"][0].level is Level.WARNING
    assert "create-service-linked-role" in found["Spot"][0].remedy


def test_template_that_selects_nothing_says_so_for_each_selector(cloud: Cloud, elder: AWSProvider) -> None:
    nothing = FrozenMap({"no": "such"})
    found = looked(cloud, elder, subnet_selector=nothing, security_group_selector=nothing)["AWSNodeTemplate default"]
    assert [each.level for each in found] == [Level.PROBLEM, Level.PROBLEM]
    assert "subnetSelector" in found[0].text
    assert "securityGroupSelector" in found[1].text


def test_what_may_not_be_asked_is_unknown_and_no_problem(cloud: Cloud, elder: AWSProvider) -> None:
    """The sandbox has no Service Quotas, as an account may have no right to them."""
    assert looked(cloud, elder)["Quotas"][0].level is Level.UNKNOWN


def test_running_vcpus_are_counted_by_class_and_capacity_type(cloud: Cloud, elder: AWSProvider) -> None:
    types = elder.instance_types(provisioner(), template())
    elder.create(request(types, names=["m5.2xlarge"], capacity_types=[keys.ON_DEMAND]))
    assert running_vcpus(cloud.clients)[("standard", "on-demand")] == 8
