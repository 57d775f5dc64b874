"""What AWS charges for a node beside its instance, and what burstable and flex types have of their CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.aws.amifamily.family import GIB
from controller.aws.catalog.capacity import CapacityRules
from controller.aws.catalog.cpu_credits import BASELINES, SAME_AS_T3, cpu_credits
from controller.aws.catalog.instance_catalog import Market, SubnetZones, TypeBuilder
from controller.aws.catalog.learned_memory import LearnedMemory
from controller.aws.catalog.node_charges import node_charges
from controller.aws.catalog.offline_catalog import OfflineTypes, shipped_catalog
from controller.aws.catalog.price_book import Prices
from controller.core.api.nodetemplate import AWSNodeTemplate, BlockDevice, BlockDeviceMapping
from controller.core.api.provisioner import KubeletConfiguration
from controller.core.cloud import CpuCredits
from controller.settings import Settings
from tests.aws.catalog.test_capacity import info
from tests.factories import provisioner


def month(template: AWSNodeTemplate, region: str = "us-east-1") -> float:
    return 730 * node_charges(template, region)


def devices(*volumes: BlockDevice) -> AWSNodeTemplate:
    mappings = tuple(BlockDeviceMapping(f"/dev/xvd{letter}", ebs) for letter, ebs in zip("ab", volumes, strict=False))
    return AWSNodeTemplate(name="default", block_device_mappings=mappings)


LARGE = BlockDevice(volume_size_bytes=100 * GIB, volume_type="gp3", iops=4000, throughput=225)


@pytest.mark.parametrize(
    ("template", "dollars"),
    [
        (AWSNodeTemplate(name="default"), 20 * 0.08),
        (AWSNodeTemplate(name="default", ami_family="Bottlerocket"), 24 * 0.08),
        (AWSNodeTemplate(name="default", launch_template="mine"), 20 * 0.08),
        (AWSNodeTemplate(name="default", detailed_monitoring=True), 20 * 0.08 + 2.1),
        (devices(LARGE), 100 * 0.08 + 1000 * 0.005 + 100 * 0.04),
        (devices(LARGE, BlockDevice()), 17 + 20 * 0.1),
        (devices(BlockDevice(volume_size_bytes=10 * GIB, volume_type="io2", iops=500)), 1.25 + 500 * 0.065),
        (devices(BlockDevice(volume_size_bytes=10 * GIB, volume_type="new", iops=500)), 0.8),
    ],
)
def test_a_templates_volumes_and_monitoring_are_what_the_price_lists_say(
    template: AWSNodeTemplate, dollars: float
) -> None:
    assert month(template) == pytest.approx(dollars)


def test_volumes_cost_what_they_cost_in_the_region() -> None:
    assert month(devices(LARGE), "eu-central-1") == pytest.approx(17 * 0.0952 / 0.08)
    assert month(devices(LARGE), "mx-central-1") == pytest.approx(17 * 0.1 / 0.08)


@pytest.mark.parametrize(
    ("name", "vcpus", "credits"),
    [
        ("t3.medium", 2, CpuCredits(0.4, 0.05)),
        ("t3a.xlarge", 4, CpuCredits(1.6, 0.05)),
        ("t4g.medium", 2, CpuCredits(0.4, 0.04)),
        ("t2.large", 2, CpuCredits(0.6, 0.05)),
        ("m7i-flex.large", 2, CpuCredits(0.8, 0.05)),
        ("t9.large", 2, None),
        ("m7i.large", 2, None),
    ],
)
def test_burstable_and_flex_types_have_a_baseline(name: str, vcpus: int, credits: CpuCredits | None) -> None:
    got = cpu_credits(replace(info("m5.large"), name=name, vcpus=vcpus))
    figures = [None if each is None else (each.baseline, each.surplus_price) for each in (got, credits)]
    assert figures[0] == (None if figures[1] is None else pytest.approx(figures[1]))


def test_the_baselines_of_every_burstable_type_that_ships_are_known() -> None:
    burstable = [
        each for each in shipped_catalog("us-east-1").types.values() if each.family in (*BASELINES, *SAME_AS_T3)
    ]
    assert len(burstable) >= 28
    assert [each.name for each in burstable if cpu_credits(each) is None] == []


def test_offerings_have_the_charges_and_the_address_of_their_zone_and_types_their_credits() -> None:
    prices = Prices(1, {"t3.medium": 0.0416})
    zones = SubnetZones(frozenset({"a", "b"}), public=frozenset({"b"}))
    market = Market(zones, prices, 0, frozenset(), charges=0.002)
    builder = TypeBuilder("us-east-1", CapacityRules(), market, None, LearnedMemory())
    built = builder.build(replace(info("m5.large"), name="t3.medium"), frozenset({"a", "b"}))
    assert built is not None
    assert built.credits is not None
    assert {o.zone: o.beside for o in built.offerings} == {"a": 0.002, "b": pytest.approx(0.007)}


def test_planning_without_aws_counts_the_templates_volumes() -> None:
    types = OfflineTypes(shipped_catalog("us-east-1"), Settings(cluster_name="dev"))
    for template in (AWSNodeTemplate(name="default"), devices(LARGE)):
        first = types.instance_types(provisioner(), template)[0]
        assert {each.beside for each in first.offerings} == {node_charges(template, "us-east-1")}


def test_provisioners_share_the_types_that_their_kubelets_do_not_tell_apart() -> None:
    types, template = OfflineTypes(shipped_catalog("us-east-1"), Settings(cluster_name="dev")), devices()
    first = types.instance_types(provisioner(name="a"), template)
    assert types.instance_types(provisioner(name="b"), template) is first
    few = types.instance_types(provisioner(name="c", kubelet=KubeletConfiguration(max_pods=9)), template)
    assert {each.capacity["pods"] for each in few} == {9}
