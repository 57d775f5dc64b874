"""Cases of Karpenter v0.27's AWS test suites in which catalog and solver meet, and where the other cases are tested.

| suite | cases | tested in (under tests/aws where no folder is named) |
|---|---|---|
| state, consistency | capacity before the kubelet, nomination | tests/core/state, tests/core/machines |
| cloud provider | no instance types; `context` | tests/cloud/test_catalogs.py; TestCreateFleet here |
| cloud provider | drifted images, missing instances | tests/core/deprovisioning, test_provider.py |
| cloud provider | inline provider; subnets: ids, most free addresses | tests/core/api; test_network.py |
| instance types | well-known labels, deprecated names | TestLabels here, test_type_info.py |
| instance types | pod ENI | test_pod_eni_... here, test_capacity.py |
| instance types | 60 cheapest, spot below on-demand, metal and GPU last | here, test_offering_choice.py |
| instance types | NVIDIA, Gaudi, Neuron: pods of 1, 2 and 4 devices | test_devices_of_seven_... here |
| instance types | ENI formula, kube-reserved, eviction | TestPodDensity here, test_capacity.py |
| instance types | insufficient capacity, fallbacks | TestShortages here, test_instance_launch.py |
| instance types | masks that end | test_unavailable_offerings.py |
| launch templates | metadata options, block devices, one per content | test_launch_templates.py |
| launch templates | `$Latest`, created again | TestCreateFleet here, test_instance_launch.py |
| launch templates | tags; storage | test_tags.py; test_instance_catalog.py |
| launch templates | user data of each AMI family | test_amifamily.py |
| AMI family | amiSelector: filters, owners, newest first | test_images.py |
| instance, pricing | no capacity; price feeds | test_instance_launch.py, test_price_book.py |
| batcher | merged calls | test_batcher.py, test_fleet_merging.py |
| subnet, security group, node template | selectors; status | test_network.py; test_node_templates.py |
| settings, operator, apis | defaults, refusals | tests/test_settings.py, tests/core/api |
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.aws.api.type_info import TypeInfo, parse_type
from controller.aws.catalog.capacity import CapacityRules
from controller.aws.catalog.instance_catalog import InstanceTypeCatalog, Market, SoldTypes, SubnetZones
from controller.aws.catalog.learned_memory import LearnedMemory
from controller.aws.catalog.price_book import Prices
from controller.aws.catalog.shipped_tables import shipped_prices
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType, LaunchRequest
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan
from controller.core.provisioning.problem import build
from sandbox.aws.faults import Shortage
from tests import factories
from tests.aws.catalog.test_capacity import _described, info
from tests.aws.conftest import Cloud, Types, market, template
from tests.aws.test_options import configured
from tests.core.provisioning.plans import solved

LINUX = (factories.requirement(keys.OS, "In", "linux"),)


def allowing(*capacity_types: str, **fields: Any) -> Provisioner:
    kinds = factories.requirement(keys.CAPACITY_TYPE, "In", *capacity_types)
    arch = factories.requirement(keys.ARCH, "In", "amd64")
    return factories.provisioner(requirements=(*LINUX, arch, kinds), **fields)


def plan(provider: AWSProvider, owner: Provisioner, *pods: Pod, **fields: Any) -> SchedulingPlan:
    types = provider.instance_types(owner, template(**fields))
    snapshot = factories.snapshot(pending=pods, provisioners=(owner,), node_templates=(factories.node_template(),))
    return solved(build(snapshot, {owner.name: types}))


def offered(node: PlannedNode) -> list[tuple[str, str]]:
    return [(o.instance_type, o.capacity_type) for o in (node.offering, *node.alternatives)]


def launch(provider: AWSProvider, owner: Provisioner, node: PlannedNode, token: str, **fields: Any) -> LaunchRequest:
    types: dict[str, InstanceType] = {item.name: item for item in provider.instance_types(owner, template(**fields))}
    offerings = (node.offering, *node.alternatives)
    return LaunchRequest(
        token, owner, template(**fields), offerings, {o.instance_type: types[o.instance_type] for o in offerings}
    )


def devices(name: str, *counts: int) -> list[Pod]:
    return [factories.pending_pod(requests={"cpu": "100m", name: count}) for count in counts]


def test_no_more_than_sixty_offerings_are_kept_and_they_are_the_cheapest(loaded: AWSProvider) -> None:
    (node,) = plan(loaded, allowing(keys.ON_DEMAND), factories.pending_pod()).new_nodes
    costs = [o.cost for o in (node.offering, *node.alternatives)]
    assert len(costs) == 60
    assert costs == sorted(costs)


def test_metal_and_gpu_types_are_not_what_a_plain_pod_gets(loaded: AWSProvider) -> None:
    (node,) = plan(loaded, allowing(keys.ON_DEMAND), factories.pending_pod()).new_nodes
    kinds = {item.name: item for item in loaded.instance_types(allowing(keys.ON_DEMAND), template())}
    for name, _ in offered(node):
        assert "metal" not in name
        assert not {"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron"} & kinds[name].capacity.keys()


def test_metal_is_launched_when_it_is_asked_for(loaded: AWSProvider) -> None:
    pod = factories.pending_pod(node_selector={keys.INSTANCE_SIZE: "metal"})
    (node,) = plan(loaded, allowing(keys.ON_DEMAND), pod).new_nodes
    assert node.offering.instance_type.endswith(".metal")


@pytest.mark.parametrize(
    ("resource", "counts"),
    [("nvidia.com/gpu", (1, 2, 4)), ("aws.amazon.com/neuron", (1, 2, 4)), ("nvidia.com/gpu", (8,))],
)
def test_devices_are_counted_and_pods_share_them(loaded: AWSProvider, resource: str, counts: tuple[int, ...]) -> None:
    made = plan(loaded, allowing(keys.ON_DEMAND), *devices(resource, *counts))
    assert not made.unplaced
    types = {item.name: item for item in loaded.instance_types(allowing(keys.ON_DEMAND), template())}
    for node in made.new_nodes:
        assert types[node.offering.instance_type].capacity[resource] >= node.requests[resource]
    assert sum(node.requests[resource] for node in made.new_nodes) == sum(counts)


FAKE_EC2_TYPES = {"c6g.large", "dl1.24xlarge", "g4dn.8xlarge", "inf1.2xlarge", "inf1.6xlarge", "m5.large", "m5.metal",
         "m5.xlarge", "m6idn.32xlarge", "p3.8xlarge", "t3.large"}  # fmt: skip
"""The instance types of Karpenter v0.27's fake EC2 (pkg/fake)."""


def retired(name: str, like: str, memory_mib: int, gpu: str, maker: str, count: int) -> TypeInfo:
    """A type that moto's copy of EC2's answers lacks: one of the same shape, with its own memory and devices."""
    gpus = {"Gpus": [{"Name": gpu, "Manufacturer": maker, "Count": count}]}
    own = {"InstanceType": name, "MemoryInfo": {"SizeInMiB": memory_mib}, "GpuInfo": gpus}
    return parse_type(_described()[like] | own)


def fake_ec2_types() -> Types:
    """Those types as EC2 describes them in us-east-1, each sold in two zones."""
    zones = frozenset({"us-east-1a", "us-east-1b"})
    lacking = (
        retired("dl1.24xlarge", "p4d.24xlarge", 786_432, "Gaudi HL-205", "Habana", 8),
        retired("p3.8xlarge", "g4dn.8xlarge", 249_856, "V100", "NVIDIA", 4),
    )
    known = {item.name: item for item in lacking}
    sold = {name: known.get(name) or info(name) for name in FAKE_EC2_TYPES}
    read = SoldTypes(1, sold, dict.fromkeys(FAKE_EC2_TYPES, zones))
    catalog = InstanceTypeCatalog(None, "us-east-1", LearnedMemory(), read)  # type: ignore[arg-type]  # reads nothing
    prices = Prices(1, {**shipped_prices("us-east-1").prices, "dl1.24xlarge": 13.10904, "p3.8xlarge": 12.24})
    return catalog.instance_types(CapacityRules(), Market(SubnetZones(zones), prices, 0, frozenset()))


def planned(types: Types, *pods: Pod) -> SchedulingPlan:
    owner = factories.provisioner(requirements=(factories.requirement(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND),))
    snapshot = factories.snapshot(pending=pods, provisioners=(owner,), node_templates=(factories.node_template(),))
    return solved(build(snapshot, {owner.name: types}))


@pytest.mark.parametrize(
    ("resource", "nodes"),
    [
        ("nvidia.com/gpu", ["p3.8xlarge", "p3.8xlarge"]),
        ("habana.ai/gaudi", ["dl1.24xlarge"]),
        ("aws.amazon.com/neuron", ["inf1.6xlarge", "inf1.6xlarge"]),
    ],
)
def test_devices_of_seven_for_three_pods_take_the_nodes_that_karpenter_chose(resource: str, nodes: list[str]) -> None:
    """Pods of 1, 2 and 4 devices."""
    made = planned(fake_ec2_types(), *devices(resource, 1, 2, 4))
    assert not made.unplaced
    assert [node.offering.instance_type for node in made.new_nodes] == nodes


DEPRECATED = {
    "beta.kubernetes.io/instance-type": keys.INSTANCE_TYPE,
    "beta.kubernetes.io/arch": keys.ARCH,
    "beta.kubernetes.io/os": keys.OS,
    "failure-domain.beta.kubernetes.io/region": keys.REGION,
    "failure-domain.beta.kubernetes.io/zone": keys.ZONE,
}


class TestLabels:
    """A type can be chosen by each of its well-known labels, by all at once, and by the deprecated names."""

    def labels(self) -> dict[str, str]:
        own = info("g4dn.8xlarge").labels("us-east-1", pods=58)
        chosen = {keys.ZONE: "us-east-1b", keys.CAPACITY_TYPE: keys.ON_DEMAND, keys.PROVISIONER_NAME: "default"}
        return {**own, **chosen}

    def chosen(self, selector: dict[str, str]) -> list[str]:
        pod = factories.pending_pod(node_selector=selector)
        return [node.offering.instance_type for node in planned(fake_ec2_types(), pod).new_nodes]

    def test_by_all_26_of_them_at_once_and_by_the_deprecated_names_too(self) -> None:
        labels = self.labels()
        assert set(labels) == keys.WELL_KNOWN
        assert len(labels) == 26
        assert self.chosen(labels) == ["g4dn.8xlarge"]
        assert self.chosen({**labels, **{old: labels[new] for old, new in DEPRECATED.items()}}) == ["g4dn.8xlarge"]

    @pytest.mark.parametrize("key", sorted(keys.WELL_KNOWN))
    def test_each_one_counts(self, key: str) -> None:
        assert self.chosen({**self.labels(), key: "999999"}) == []


def test_pod_eni_is_had_when_switched_on_and_never_otherwise(cloud: Cloud, loaded: AWSProvider) -> None:
    pods = devices("vpc.amazonaws.com/pod-eni", 1)
    assert plan(loaded, allowing(keys.ON_DEMAND), *pods).unplaced
    provider = configured(cloud, loaded, enable_pod_eni=True)
    (node,) = plan(provider, allowing(keys.ON_DEMAND), *pods).new_nodes
    assert not node.offering.instance_type.startswith("t3.")


class TestPodDensity:
    def test_without_the_eni_limit_every_type_has_110_pods_and_with_it_none_of_the_small_ones(
        self, cloud: Cloud, loaded: AWSProvider
    ) -> None:
        flat = configured(cloud, loaded, enable_eni_limited_pod_density=False).instance_types(
            allowing(keys.SPOT), template()
        )
        assert {item.capacity["pods"] for item in flat} == {110}
        assert 110 not in {item.capacity["pods"] for item in loaded.instance_types(allowing(keys.SPOT), template())}


class TestEphemeralStorage:
    @pytest.mark.parametrize("storage", ["1G", "10Gi", "16Gi"])
    def test_what_fits_beside_the_overhead_is_placed(self, loaded: AWSProvider, storage: str) -> None:
        pod = factories.pending_pod(requests={"cpu": "1", "ephemeral-storage": storage})
        assert len(plan(loaded, allowing(keys.ON_DEMAND), pod).new_nodes) == 1

    @pytest.mark.parametrize("storage", ["19Gi", "150Gi"])
    def test_what_does_not_fit_stays_and_the_reason_names_the_resource(self, loaded: AWSProvider, storage: str) -> None:
        pod = factories.pending_pod(requests={"cpu": "1", "ephemeral-storage": storage})
        (left,) = plan(loaded, allowing(keys.ON_DEMAND), pod).unplaced
        assert "ephemeral-storage" in left.reason

    def test_two_pods_of_ten_gibibytes_need_two_nodes(self, loaded: AWSProvider) -> None:
        pods = [factories.pending_pod(requests={"cpu": "1", "ephemeral-storage": "10Gi"}) for _ in range(2)]
        assert len(plan(loaded, allowing(keys.ON_DEMAND), *pods).new_nodes) == 2


class TestShortages:
    def test_the_next_plan_takes_another_zone_when_one_has_none(self, cloud: Cloud, provider: AWSProvider) -> None:
        owner, pod = allowing(keys.ON_DEMAND), devices("nvidia.com/gpu", 1)
        (node,) = plan(provider, owner, *pod).new_nodes
        first = replace(node, alternatives=())
        cloud.aws.faults.add_shortage(Shortage(instanceType=node.offering.instance_type, zone=node.offering.zone))
        with pytest.raises(Exception, match="none of 1 offerings has capacity"):
            provider.create(launch(provider, owner, first, "zone-fallback-1"))
        (again,) = plan(provider, owner, *pod).new_nodes
        assert (again.offering.instance_type, again.offering.zone) != (node.offering.instance_type, node.offering.zone)
        assert provider.create(launch(provider, owner, again, "zone-fallback-2")).state == "pending"

    def test_a_type_out_of_capacity_everywhere_stays_listed_without_offerings(
        self, cloud: Cloud, provider: AWSProvider
    ) -> None:
        owner = allowing(keys.SPOT, keys.ON_DEMAND)
        for zone in ("a", "b", "c", "d"):
            for kind in (keys.SPOT, keys.ON_DEMAND):
                market(provider).unavailable.mark(
                    kind, "m5.large", f"ap-northeast-2{zone}", "InsufficientInstanceCapacity"
                )
        (listed,) = [item for item in provider.instance_types(owner, template()) if item.name == "m5.large"]
        assert listed.offerings
        assert not any(offering.available for offering in listed.offerings)


class TestCreateFleet:
    def sent(self, cloud: Cloud) -> dict[str, Any]:
        return cloud.aws.calls.calls("CreateFleet")[-1].params

    @pytest.mark.parametrize("context", [None, "ctx-123"])
    def test_the_context_is_passed_when_there_is_one(
        self, cloud: Cloud, provider: AWSProvider, context: str | None
    ) -> None:
        owner = allowing(keys.ON_DEMAND)
        (node,) = plan(provider, owner, factories.pending_pod()).new_nodes
        provider.create(launch(provider, owner, node, f"context-{context}", context=context))
        assert self.sent(cloud).get("Context") == context

    def test_spot_and_on_demand_have_their_strategies_and_the_newest_template_version(
        self, cloud: Cloud, provider: AWSProvider
    ) -> None:
        for kind, options, strategy in (
            (keys.SPOT, "SpotOptions", "price-capacity-optimized"),
            (keys.ON_DEMAND, "OnDemandOptions", "lowest-price"),
        ):
            owner = allowing(kind)
            (node,) = plan(provider, owner, factories.pending_pod()).new_nodes
            provider.create(launch(provider, owner, node, f"strategy-{kind}"))
            request = self.sent(cloud)
            assert request["Type"] == "instant"
            assert request[options]["AllocationStrategy"] == strategy
            specifications = [c["LaunchTemplateSpecification"] for c in request["LaunchTemplateConfigs"]]
            assert {one["Version"] for one in specifications} == {"$Latest"}

    def test_with_both_allowed_spot_alone_is_sent_and_none_dearer_than_on_demand(
        self, cloud: Cloud, provider: AWSProvider
    ) -> None:
        owner = allowing(keys.SPOT, keys.ON_DEMAND)
        (node,) = plan(provider, owner, factories.pending_pod()).new_nodes
        assert provider.create(launch(provider, owner, node, "both")).capacity_type == keys.SPOT
        assert self.sent(cloud)["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"

    def test_each_zone_is_asked_for_in_one_subnet(self, cloud: Cloud, provider: AWSProvider) -> None:
        owner = allowing(keys.ON_DEMAND)
        (node,) = plan(provider, owner, factories.pending_pod()).new_nodes
        provider.create(launch(provider, owner, node, "subnets"))
        pairs = {
            (override["AvailabilityZone"], override["SubnetId"])
            for config in self.sent(cloud)["LaunchTemplateConfigs"]
            for override in config["Overrides"]
        }
        assert len({zone for zone, _ in pairs}) == len(pairs)
