"""The peer's AWS suites where catalog and solver meet: instance types, devices, storage, shortages, CreateFleet.

Numbers are those of the provisioning sheet (10.7 to 10.9). The rest of these suites is held by the modules beside this
one: capacity, launch templates, user data, images, network, pricing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType, LaunchRequest
from controller.core.provisioning import solve
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan
from controller.core.provisioning.problem import build
from sandbox.aws.faults import Shortage
from tests import factories
from tests.aws.conftest import Cloud, template
from tests.aws.test_options import told

LINUX = (factories.requirement(keys.OS, "In", "linux"),)


def allowing(*capacity_types: str, **fields: Any) -> Provisioner:
    kinds = factories.requirement(keys.CAPACITY_TYPE, "In", *capacity_types)
    arch = factories.requirement(keys.ARCH, "In", "amd64")
    return factories.provisioner(requirements=(*LINUX, arch, kinds), **fields)


def plan(provider: AWSProvider, owner: Provisioner, *pods: Pod, **fields: Any) -> SchedulingPlan:
    types = provider.instance_types(owner, template(**fields))
    snapshot = factories.snapshot(pending=pods, provisioners=(owner,), node_templates=(factories.node_template(),))
    return solve(build(snapshot, {owner.name: types}))


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


def test_no_more_than_sixty_offerings_are_kept_and_they_are_the_cheapest(elder: AWSProvider) -> None:
    (node,) = plan(elder, allowing(keys.ON_DEMAND), factories.pending_pod()).new_nodes
    prices = [o.price for o in (node.offering, *node.alternatives)]
    assert len(prices) == 60
    assert prices == sorted(prices)


def test_metal_and_gpu_types_are_not_what_a_plain_pod_gets(elder: AWSProvider) -> None:
    (node,) = plan(elder, allowing(keys.ON_DEMAND), factories.pending_pod()).new_nodes
    kinds = {item.name: item for item in elder.instance_types(allowing(keys.ON_DEMAND), template())}
    for name, _ in offered(node):
        assert "metal" not in name
        assert not {"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron"} & kinds[name].capacity.keys()


def test_metal_is_launched_when_it_is_asked_for(elder: AWSProvider) -> None:
    pod = factories.pending_pod(node_selector={keys.INSTANCE_SIZE: "metal"})
    (node,) = plan(elder, allowing(keys.ON_DEMAND), pod).new_nodes
    assert node.offering.instance_type.endswith(".metal")


@pytest.mark.parametrize(
    ("resource", "counts"),
    [("nvidia.com/gpu", (1, 2, 4)), ("aws.amazon.com/neuron", (1, 2, 4)), ("nvidia.com/gpu", (8,))],
)
def test_devices_are_counted_and_pods_share_them(elder: AWSProvider, resource: str, counts: tuple[int, ...]) -> None:
    made = plan(elder, allowing(keys.ON_DEMAND), *devices(resource, *counts))
    assert not made.unplaced
    types = {item.name: item for item in elder.instance_types(allowing(keys.ON_DEMAND), template())}
    for node in made.new_nodes:
        assert types[node.offering.instance_type].capacity[resource] >= node.requests[resource]
    assert sum(node.requests[resource] for node in made.new_nodes) == sum(counts)


def test_pod_eni_is_had_when_switched_on_and_never_otherwise(cloud: Cloud, elder: AWSProvider) -> None:
    pods = devices("vpc.amazonaws.com/pod-eni", 1)
    assert plan(elder, allowing(keys.ON_DEMAND), *pods).unplaced
    provider = told(cloud, elder, enable_pod_eni=True)
    (node,) = plan(provider, allowing(keys.ON_DEMAND), *pods).new_nodes
    assert not node.offering.instance_type.startswith("t3.")


class TestPodDensity:
    def test_without_the_eni_limit_every_type_has_110_pods_and_with_it_none_of_the_small_ones(
        self, cloud: Cloud, elder: AWSProvider
    ) -> None:
        flat = told(cloud, elder, enable_eni_limited_pod_density=False).instance_types(allowing(keys.SPOT), template())
        assert {item.capacity["pods"] for item in flat} == {110}
        assert 110 not in {item.capacity["pods"] for item in elder.instance_types(allowing(keys.SPOT), template())}


class TestEphemeralStorage:
    @pytest.mark.parametrize("storage", ["1G", "10Gi", "16Gi"])
    def test_what_fits_beside_the_overhead_is_placed(self, elder: AWSProvider, storage: str) -> None:
        pod = factories.pending_pod(requests={"cpu": "1", "ephemeral-storage": storage})
        assert len(plan(elder, allowing(keys.ON_DEMAND), pod).new_nodes) == 1

    @pytest.mark.parametrize("storage", ["19Gi", "150Gi"])
    def test_what_does_not_fit_stays_and_the_reason_names_the_resource(self, elder: AWSProvider, storage: str) -> None:
        pod = factories.pending_pod(requests={"cpu": "1", "ephemeral-storage": storage})
        (left,) = plan(elder, allowing(keys.ON_DEMAND), pod).unplaced
        assert "ephemeral-storage" in left.reason

    def test_two_pods_of_ten_gibibytes_need_two_nodes(self, elder: AWSProvider) -> None:
        pods = [factories.pending_pod(requests={"cpu": "1", "ephemeral-storage": "10Gi"}) for _ in range(2)]
        assert len(plan(elder, allowing(keys.ON_DEMAND), *pods).new_nodes) == 2


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
                provider._unavailable.mark(kind, "m5.large", f"ap-northeast-2{zone}", "InsufficientInstanceCapacity")
        (found,) = [item for item in provider.instance_types(owner, template()) if item.name == "m5.large"]
        assert found.offerings
        assert not any(offering.available for offering in found.offerings)


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
