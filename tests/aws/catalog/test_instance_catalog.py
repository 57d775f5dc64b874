"""The catalog: what is sold where, at which price, and that nothing is built anew while nothing changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs

from controller.aws.amifamily.images import Image
from controller.aws.catalog.capacity import CapacityRules
from controller.aws.catalog.instance_catalog import (
    InstanceTypeCatalog,
    Market,
    SoldTypes,
    SubnetZones,
    offerings,
    requirements,
)
from controller.aws.catalog.learned_memory import LearnedMemory, MeasuredMemory, measured
from controller.aws.catalog.price_book import Prices
from controller.aws.catalog.unavailable_offerings import Key
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.nodetemplate import BlockDevice, BlockDeviceMapping
from controller.core.api.pod import SelectorRequirement
from controller.core.api.provisioner import KubeletConfiguration
from controller.core.cloud import Offering
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.errors import NodeTemplateError
from sandbox.aws.faults import Fault
from tests.aws.catalog.test_capacity import info
from tests.aws.conftest import Cloud, Types, by_name, make_due, provisioner, template
from tests.core.instances import cloud_instance

PRICES = Prices(1, {"m5.large": 0.1, "c5.large": 0.08}, {("m5.large", "a"): 0.03, ("m5.large", "b"): 0.04})


def market(
    prices: Prices = PRICES, version: int = 0, unavailable: frozenset[Key] = frozenset(), full: str = ""
) -> Market:
    return Market(SubnetZones(frozenset({"a", "b"}), frozenset(full)), prices, version, unavailable)


class TestOfferings:
    def test_zones_with_a_subnet_where_the_type_is_sold_times_how_it_can_be_bought(self) -> None:
        assert offerings(info("m5.large"), frozenset({"b", "c"}), market()) == (
            Offering("b", keys.ON_DEMAND, 0.1),
            Offering("b", keys.SPOT, 0.04),
        )

    def test_without_a_price_it_is_unavailable(self) -> None:
        offered = offerings(info("c5.large"), frozenset({"a"}), market())
        assert [(o.capacity_type, o.available) for o in offered] == [(keys.ON_DEMAND, True), (keys.SPOT, False)]

    def test_out_of_capacity_it_is_unavailable_there_and_nowhere_else(self) -> None:
        short = market(version=1, unavailable=frozenset({(keys.SPOT, "m5.large", "a")}))
        offered = offerings(info("m5.large"), frozenset({"a", "b"}), short)
        assert {(o.zone, o.capacity_type) for o in offered if not o.available} == {("a", keys.SPOT)}

    def test_a_type_that_is_sold_on_demand_alone_has_no_spot_offering(self) -> None:
        metal = replace(info("m5.large"), capacity_types=(keys.ON_DEMAND,))
        assert {o.capacity_type for o in offerings(metal, frozenset({"a"}), market())} == {keys.ON_DEMAND}


class TestIdentity:
    """Whoever compiled instance types into arrays can tell by identity that nothing changed."""

    @pytest.fixture
    def catalog(self) -> InstanceTypeCatalog:
        return catalog_of(LearnedMemory(), "a", "b")

    def test_the_same_question_has_the_same_answer(self, catalog: InstanceTypeCatalog) -> None:
        assert catalog.instance_types(CapacityRules(), market()) is catalog.instance_types(CapacityRules(), market())

    def test_a_shortage_changes_the_type_that_it_is_about_and_no_other(self, catalog: InstanceTypeCatalog) -> None:
        before = by_name(catalog.instance_types(CapacityRules(), market()))
        short = market(version=1, unavailable=frozenset({(keys.SPOT, "m5.large", "a")}))
        after = by_name(catalog.instance_types(CapacityRules(), short))
        assert after["c5.large"] is before["c5.large"]
        assert after["m5.large"].offerings != before["m5.large"].offerings
        assert after["m5.large"].requirements is before["m5.large"].requirements

    def test_a_zone_without_free_addresses_sells_nothing_for_now_and_its_types_stay_known(
        self, catalog: InstanceTypeCatalog
    ) -> None:
        before = catalog.instance_types(CapacityRules(), market())
        after = catalog.instance_types(CapacityRules(), market(full="ab"))
        assert [each.name for each in after] == [each.name for each in before]
        assert not any(offering.available for each in after for offering in each.offerings)
        assert after[0].capacity == before[0].capacity

    def test_a_version_that_changed_nothing_here_gives_the_same_answer(self, catalog: InstanceTypeCatalog) -> None:
        before = catalog.instance_types(CapacityRules(), market())
        elsewhere = market(version=1, unavailable=frozenset({(keys.SPOT, "r5.large", "z")}))
        assert catalog.instance_types(CapacityRules(), elsewhere) is before

    def test_kubelet_settings_have_answers_of_their_own_side_by_side(self, catalog: InstanceTypeCatalog) -> None:
        dense = CapacityRules(kubelet=KubeletConfiguration(max_pods=10))
        plain, other = catalog.instance_types(CapacityRules(), market()), catalog.instance_types(dense, market())
        assert other[0].capacity["pods"] == 10
        assert other[0].requirements[keys.INSTANCE_PODS].values == {"10"}
        assert catalog.instance_types(CapacityRules(), market()) is plain

    def test_types_for_which_there_is_no_image_are_left_out(self, catalog: InstanceTypeCatalog) -> None:
        family = (Image("ami-1", requirements=Requirements([Requirement.of(keys.INSTANCE_FAMILY, "In", ("c5",))])),)
        assert set(by_name(catalog.instance_types(CapacityRules(), market(), family))) == {"c5.large"}


class TestLearnedMemory:
    """What a node that joined has counts for all of its type and image, instead of the flat 7.5 %."""

    IMAGE = (Image("ami-1"),)

    NOMINAL: ClassVar = {"m5.large": 8 * 2**30}

    def joined(self, memory: int, initialized: bool = True, **fields: Any) -> Node:
        labels = {
            keys.INSTANCE_TYPE: "m5.large",
            keys.INSTANCE_AMI_ID: "ami-1",
            keys.INITIALIZED: str(initialized).lower(),
        }
        return Node(name="n", labels=FrozenMap(labels), capacity=FrozenMap({"memory": memory}), **fields)

    def learn(self, memory: LearnedMemory, *amounts: int) -> bool:
        return memory.learn([MeasuredMemory("n", "m5.large", "ami-1", amount) for amount in amounts], self.NOMINAL)

    @pytest.fixture
    def memory(self) -> LearnedMemory:
        return LearnedMemory()

    @pytest.fixture
    def catalog(self, memory: LearnedMemory) -> InstanceTypeCatalog:
        return catalog_of(memory, "a")

    def test_it_replaces_the_share_and_the_percentages_follow(
        self, catalog: InstanceTypeCatalog, memory: LearnedMemory
    ) -> None:
        rules = CapacityRules(kubelet=KubeletConfiguration(eviction_hard=FrozenMap({"memory.available": "10%"})))
        before = by_name(catalog.instance_types(rules, market(), self.IMAGE))
        assert self.learn(memory, 8_000_000_000)
        after = by_name(catalog.instance_types(rules, market(), self.IMAGE))
        assert after["m5.large"].capacity["memory"] == 8_000_000_000
        reserved = (11 * 29 + 255) * 2**20
        assert after["m5.large"].overhead["memory"] == reserved + 800_000_000
        assert after["c5.large"] is before["c5.large"]

    def test_another_image_may_differ_so_it_teaches_nothing(
        self, catalog: InstanceTypeCatalog, memory: LearnedMemory
    ) -> None:
        self.learn(memory, 8_000_000_000)
        (_, m5) = catalog.instance_types(CapacityRules(), market(), (Image("ami-2"),))
        assert m5.capacity["memory"] == 7577 * 2**20

    def test_the_smallest_counts_and_a_node_that_is_not_ready_yet_does_not(self, memory: LearnedMemory) -> None:
        assert not memory.may_teach(self.joined(8_000_000_000, initialized=False))
        self.learn(memory, 8_000_000_000, 7_900_000_000)
        version = memory.version
        assert not self.learn(memory, 8_000_000_000)
        assert (memory.of("m5.large", "ami-1", 8 * 2**30), memory.version) == (7_900_000_000, version)

    def test_it_survives_a_restart_as_a_config_map(self, memory: LearnedMemory) -> None:
        self.learn(memory, 8_000_000_000)
        restarted = LearnedMemory()
        restarted.restore(memory.document() | {"nonsense": "x", "m5.large_ami-2": "many"})
        assert restarted.document() == memory.document() == {"m5.large_ami-1": "8000000000"}

    @pytest.mark.parametrize("memory_bytes", [0, 1, -5, 4 * 2**30, 8 * 2**30 + 1, 2**62])
    def test_what_no_node_of_the_type_can_have_teaches_nothing(self, memory: LearnedMemory, memory_bytes: int) -> None:
        with capture_logs() as logs:
            assert not self.learn(memory, memory_bytes)
        assert [each["event"] for each in logs] == ["Node reports an implausible memory; nothing is learned from it"]
        assert self.learn(memory, 8_000_000_000), "and it stands in nobody's way"

    def test_an_implausible_memory_is_told_once_and_its_node_not_asked_about_again(self, memory: LearnedMemory) -> None:
        with capture_logs() as logs:
            self.learn(memory, 2**62)
            self.learn(memory, 2**62)
        assert len(logs) == 1
        assert not memory.may_teach(self.joined(2**62))
        assert memory.may_teach(self.joined(8_000_000_000)), "once it tells something else"

    def test_an_implausible_entry_of_the_config_map_counts_for_nothing_and_is_replaced(
        self, catalog: InstanceTypeCatalog, memory: LearnedMemory
    ) -> None:
        memory.restore({"m5.large_ami-1": "1000", "m5.large_ami-2": "9" * 400, "m5.large_ami-3": "²"})
        (_, m5) = catalog.instance_types(CapacityRules(), market(), self.IMAGE)
        assert m5.capacity["memory"] == 7577 * 2**20
        assert self.learn(memory, 8_000_000_000)
        assert memory.document() == {"m5.large_ami-1": "8000000000"}

    def test_type_and_image_are_those_of_the_instance_and_other_nodes_teach_nothing(self) -> None:
        owned = cloud_instance(instance_type="c5.large", image_id="ami-9")
        liar = self.joined(3_900_000_000, provider_id=owned.provider_id)
        stranger = self.joined(3_900_000_000, provider_id="aws:///a/i-0123")
        unlaunched = self.joined(3_900_000_000)
        assert list(measured([liar, stranger, unlaunched], [owned])) == [
            MeasuredMemory("n", "c5.large", "ami-9", 3_900_000_000)
        ]


def test_a_label_that_a_type_lacks_cannot_be_asked_for_and_can_be_ruled_out() -> None:
    wanted = requirements(info("m5.large").labels("r", 29))
    gpu = keys.INSTANCE_GPU_COUNT
    assert Requirements([Requirement.of(gpu, "Exists")]).conflicts(wanted)
    assert Requirements([Requirement.of(gpu, "Gt", ("0",))]).conflicts(wanted)
    assert not Requirements([Requirement.of(gpu, "DoesNotExist")]).conflicts(wanted)
    assert not Requirements([Requirement.of(gpu, "NotIn", ("1",))]).conflicts(wanted)


class TestOverHttp:
    def test_every_type_that_is_sold_is_there_with_its_zones_and_what_is_not_sold_is_not(
        self, cloud: Cloud, types: Types
    ) -> None:
        ec2 = cloud.aws.client("ec2")
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone")
        sold: dict[str, set[str]] = {}
        for offer in (offer for page in pages for offer in page["InstanceTypeOfferings"]):
            sold.setdefault(offer["InstanceType"], set()).add(offer["Location"])
        listed = by_name(types)
        assert set(listed) <= set(sold)
        assert not {name for name in set(sold) - set(listed) if not name.startswith(("mac", "g5g"))}
        assert all({o.zone for o in item.offerings} == sold[item.name] for item in types)
        assert [item.name for item in types] == sorted(listed)

    def test_m5_large_is_what_the_worked_example_says(self, types: Types) -> None:
        left = by_name(types)["m5.large"].allocatable
        assert left == {"cpu": 1930, "memory": 6903 * 2**20, "ephemeral-storage": 17 * 2**30, "pods": 29}

    def test_asking_again_costs_no_call(self, cloud: Cloud, provider: AWSProvider, types: Types) -> None:
        cloud.aws.calls.clear()
        assert provider.instance_types(provisioner(name="other"), template(name="other")) is types
        assert cloud.aws.calls.counts() == {}

    def test_an_unknown_instance_type_in_a_provisioner_breaks_nothing(
        self, provider: AWSProvider, types: Types
    ) -> None:
        wish = provisioner(requirements=(SelectorRequirement(keys.INSTANCE_TYPE, "In", ("m99.huge",)),))
        assert provider.instance_types(wish, template()) is types

    def test_the_last_catalog_stays_when_ec2_does_not_answer(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        make_due(provider, "instance types")
        cloud.aws.faults.add(Fault(service="ec2", action="DescribeInstanceTypes", code="RequestLimitExceeded"))
        cloud.clock.advance(301)
        provider.refresh()
        assert len(provider.instance_types(provisioner(), template())) == len(types)
        assert cloud.events("warning") == ["Reading from AWS fails; the earlier content is used"]

    @pytest.mark.parametrize(
        ("fields", "storage_gib"),
        [
            ({}, 20),
            ({"block_device_mappings": ("/dev/xvda", 50)}, 50),
            ({"block_device_mappings": ("/dev/sdb", 50)}, 20),
            ({"block_device_mappings": ("/dev/xvda", None)}, 20),
            ({"ami_family": "Bottlerocket", "block_device_mappings": ("/dev/xvdb", 30)}, 30),
        ],
    )
    def test_ephemeral_storage_is_the_data_devices_size(
        self, provider: AWSProvider, fields: dict[str, Any], storage_gib: int
    ) -> None:
        if "block_device_mappings" in fields:
            name, gib = fields["block_device_mappings"]
            size = None if gib is None else gib * 2**30
            fields = fields | {
                "block_device_mappings": (BlockDeviceMapping(name, BlockDevice(volume_size_bytes=size)),)
            }
        listed = by_name(provider.instance_types(provisioner(), template(**fields)))
        assert listed["m5.large"].capacity["ephemeral-storage"] == storage_gib * 2**30

    def test_a_kubelet_quantity_that_cannot_be_read_names_the_provisioner_and_the_field(
        self, provider: AWSProvider
    ) -> None:
        bad = provisioner(kubelet=KubeletConfiguration(system_reserved=FrozenMap({"memory": "lots"})))
        with pytest.raises(NodeTemplateError, match=r"Provisioner default: spec\.kubeletConfiguration: .*'lots'"):
            provider.instance_types(bad, template())


def catalog_of(memory: LearnedMemory, *zones: str) -> InstanceTypeCatalog:
    """A catalog of two types that are sold in all the zones."""
    sold = {name: info(name) for name in ("m5.large", "c5.large")}
    known = SoldTypes(1, sold, dict.fromkeys(sold, frozenset(zones)))
    return InstanceTypeCatalog(None, "r", memory, known)  # type: ignore[arg-type]  # reads nothing
