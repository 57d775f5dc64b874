"""Options that Karpenter v0.27 does not have: prefixes, instance stores, zone balance, the user's prices, advice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from controller.aws.amifamily import FAMILIES
from controller.aws.catalog.capacity import CapacityRules, pod_capacity
from controller.aws.catalog.price_book import Prices
from controller.aws.launch.zone_balance import ZoneBalance
from controller.aws.provider import AWSProvider
from controller.aws.provisioner_advice import advice
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import KubeletConfiguration
from controller.core.cloud import CloudInstance, PricedOffering
from controller.core.price_rules import PriceBook, PriceRule
from controller.settings import Settings
from sandbox.aws.faults import Shortage
from tests.aws.conftest import SETTINGS, Cloud, al2_template, by_name, make_due, provisioner, request, template
from tests.core.instances import cloud_instance
from tests.manual_clock import ManualClock


def configured(cloud: Cloud, loaded: AWSProvider, **settings: object) -> AWSProvider:
    """A new process with other settings, the catalog and prices read already."""
    return cloud.restarted(loaded, replace(SETTINGS, **settings))  # type: ignore[arg-type]


class TestPrefixDelegation:
    @pytest.mark.parametrize(
        ("name", "pods"),
        [("t3.micro", 34), ("m5.large", 110), ("m5.4xlarge", 110), ("m5.8xlarge", 250), ("m4.large", 20)],
    )
    def test_nitro_types_take_sixteen_times_the_addresses_up_to_what_aws_advises(
        self, loaded: AWSProvider, name: str, pods: int
    ) -> None:
        info = loaded.region_catalog().types[name]
        assert pod_capacity(info, CapacityRules(prefix_delegation=True)) == pods

    def test_max_pods_and_the_flat_110_still_win(self, loaded: AWSProvider) -> None:
        info = loaded.region_catalog().types["m5.8xlarge"]
        kubelet = KubeletConfiguration(max_pods=5)
        assert pod_capacity(info, CapacityRules(prefix_delegation=True, kubelet=kubelet)) == 5
        assert pod_capacity(info, CapacityRules(prefix_delegation=True, eni_limited_pods=False)) == 110

    def test_the_kubelet_is_told_because_the_image_counts_addresses(self, cloud: Cloud, loaded: AWSProvider) -> None:
        provider = configured(cloud, loaded, enable_prefix_delegation=True)
        types = provider.instance_types(provisioner(), template())
        for name in ("t3.micro", "m5.large"):
            instance = provider.create(request(types, names=(name,)))
            assert instance.labels[keys.INSTANCE_PODS] == str(by_name(types)[name].capacity["pods"])
        assert sorted("maxPods: 34\n" in text for text in cloud.user_data()) == [False, True]
        assert sorted("maxPods: 110\n" in text for text in cloud.user_data()) == [False, True]

    @pytest.mark.parametrize(
        ("prefixes", "reserved", "pods"),
        [(False, 0, 29), (False, 1, 20), (False, 3, 2), (True, 1, 110), (True, 2, 110)],
    )
    def test_reserved_interfaces_have_no_pods_and_take_no_addresses(
        self, cloud: Cloud, loaded: AWSProvider, prefixes: bool, reserved: int, pods: int
    ) -> None:
        provider = configured(cloud, loaded, enable_prefix_delegation=prefixes, reserved_enis=reserved)
        kind = by_name(provider.instance_types(provisioner(), template()))["m5.large"]
        assert kind.capacity["pods"] == pods
        assert kind.interfaces is not None
        assert kind.interfaces.most == 3 - reserved

    def test_the_kubelet_is_told_of_reserved_interfaces(self, cloud: Cloud, loaded: AWSProvider) -> None:
        provider = configured(cloud, loaded, reserved_enis=1)
        types = provider.instance_types(provisioner(), template())
        instance = provider.create(request(types, names=("m5.large",)))
        assert instance.labels[keys.INSTANCE_PODS] == "20"
        (written,) = cloud.user_data()
        assert "maxPods: 20\n" in written

    def test_al2s_bootstrap_script_counts_no_addresses_of_its_own(self, cloud: Cloud, loaded: AWSProvider) -> None:
        provider = configured(cloud, loaded, enable_prefix_delegation=True)
        types = provider.instance_types(provisioner(), al2_template())
        provider.create(request(types, names=("m5.large",), template=al2_template()))
        (written,) = cloud.user_data()
        assert "--max-pods=110" in written
        assert "--use-max-pods false" in written


class TestInstanceStore:
    def test_it_is_the_data_device_of_types_that_have_one_and_the_volume_that_of_others(
        self, cloud: Cloud, loaded: AWSProvider
    ) -> None:
        plain = by_name(loaded.instance_types(provisioner(), template()))
        built = by_name(
            configured(cloud, loaded, instance_store_policy="RAID0").instance_types(provisioner(), template())
        )
        assert plain["m5d.large"].capacity["ephemeral-storage"] == 20 * 2**30
        assert built["m5d.large"].capacity["ephemeral-storage"] == 75 * 10**9
        assert built["m5d.large"].overhead["ephemeral-storage"] == 2**30 + 75 * 10**8
        assert built["m5.large"] == plain["m5.large"]

    @pytest.mark.parametrize(
        ("chosen", "text"), [(al2_template(), "--local-disks raid0"), (template(), "strategy: RAID0")]
    )
    def test_the_node_is_told_to_make_one_array(
        self, cloud: Cloud, loaded: AWSProvider, chosen: AWSNodeTemplate, text: str
    ) -> None:
        provider = configured(cloud, loaded, instance_store_policy="RAID0")
        types = provider.instance_types(provisioner(), chosen)
        provider.create(request(types, names=("m5d.large",), template=chosen))
        assert text in cloud.user_data()[0]

    def test_without_the_policy_nothing_is_said_of_disks(self, cloud: Cloud, provider: AWSProvider) -> None:
        types = provider.instance_types(provisioner(), template())
        provider.create(request(types, names=("m5d.large",)))
        assert "raid0" not in cloud.user_data()[0]

    def test_a_family_that_cannot_keeps_the_volume_and_the_user_is_told(
        self, cloud: Cloud, loaded: AWSProvider
    ) -> None:
        provider = configured(cloud, loaded, instance_store_policy="RAID0")
        chosen = template(ami_family="Bottlerocket")
        types = by_name(provider.instance_types(provisioner(), chosen))
        assert types["m5d.large"].capacity["ephemeral-storage"] == 20 * 2**30
        assert "aws.instanceStorePolicy RAID0 has no effect" in provider.advice(provisioner(), chosen)[0]


class TestZoneBalance:
    A = PricedOffering(0.1, "m5.large", "a", keys.SPOT)
    B = PricedOffering(0.11, "m5.large", "b", keys.SPOT)

    def test_the_zone_with_fewest_instances_of_the_provisioner_is_chosen(self) -> None:
        running = [
            cloud_instance(number=1, provisioner="web", zone="a"),
            cloud_instance(number=2, provisioner="other", zone="b"),
            cloud_instance(number=3, provisioner="other", zone="b"),
        ]
        balance = ZoneBalance(lambda: running, ManualClock())
        assert balance.fewest("web", [self.A, self.B]) == [self.B]
        assert balance.fewest("other", [self.A, self.B]) == [self.A]

    def test_of_equals_the_one_named_first_and_launches_since_the_count_count(self) -> None:
        nobody: list[CloudInstance] = []
        balance = ZoneBalance(lambda: nobody, ManualClock())
        assert balance.fewest("web", [self.A, self.B]) == [self.A]
        balance.launched("web", "a")
        assert balance.fewest("web", [self.A, self.B]) == [self.B]

    def test_a_burst_of_launches_is_spread_over_the_zones(self, cloud: Cloud, loaded: AWSProvider) -> None:
        provider = configured(cloud, loaded, enable_zone_balance=True, alternative_price_tolerance=10.0)
        types = provider.instance_types(provisioner(), template())
        wanted = [request(types, names=("m5.large",), capacity_types=(keys.ON_DEMAND,)) for _ in range(6)]
        zones = {offering.zone for offering in wanted[0].offerings}
        launched = Counter(provider.create(one).zone for one in wanted)
        assert set(launched) == zones
        assert max(launched.values()) - min(launched.values()) <= 1

    def test_it_never_keeps_a_node_from_being_launched(self, cloud: Cloud, loaded: AWSProvider) -> None:
        """The zone with fewest instances has no capacity: the next one is taken in the same call."""
        provider = configured(cloud, loaded, enable_zone_balance=True, alternative_price_tolerance=10.0)
        types = provider.instance_types(provisioner(), template())
        wanted = request(types, names=("m5.large",), capacity_types=(keys.ON_DEMAND,))
        empty = wanted.offerings[0].zone
        cloud.aws.faults.add_shortage(Shortage(zone=empty))
        assert provider.create(wanted).zone != empty


class TestPricesOfTheUser:
    def test_a_discount_changes_what_the_plan_sees(self, cloud: Cloud, loaded: AWSProvider) -> None:
        rules = (PriceRule(instance_types=("m5.large",), discount_percent=50.0),)
        listed = by_name(loaded.instance_types(provisioner(), template()))
        discounted = by_name(configured(cloud, loaded, price_rules=rules).instance_types(provisioner(), template()))
        for before, after in zip(listed["m5.large"].offerings, discounted["m5.large"].offerings, strict=True):
            share = 0.5 if before.capacity_type == keys.ON_DEMAND else 1.0
            assert after.price == pytest.approx(before.price * share)
        assert discounted["m5.xlarge"].offerings == listed["m5.xlarge"].offerings

    def test_a_type_without_a_list_price_stays_unavailable(self) -> None:
        prices = Prices(on_demand={"m5.large": 1.0}, book=PriceBook((PriceRule(price_per_hour=0.1),)))
        assert prices.of(keys.ON_DEMAND, "m5.large", "a") == 0.1
        assert prices.of(keys.ON_DEMAND, "x9.large", "a") is None

    def test_a_commitment_ends_with_the_instances_that_use_it_and_holds_again_after_them(
        self, cloud: Cloud, loaded: AWSProvider
    ) -> None:
        rules = (PriceRule(instance_types=("m5.large",), price_per_hour=0.01, instances=1),)
        provider = configured(cloud, loaded, price_rules=rules)

        def price() -> float:
            make_due(provider, "commitments")
            provider.refresh()
            types = provider.instance_types(provisioner(), template())
            return request(types, names=("m5.large",), capacity_types=(keys.ON_DEMAND,)).offerings[0].price

        assert price() == 0.01
        types = provider.instance_types(provisioner(), template())
        offered = by_name(types)["m5.large"].offerings
        left = {o.commitment.left for o in offered if o.commitment is not None and o.capacity_type == keys.ON_DEMAND}
        assert left == {1}, "the planner knows for how many it holds"
        instance = provider.create(request(types, names=("m5.large",), capacity_types=(keys.ON_DEMAND,)))
        assert price() == 0.118
        provider.delete(instance.provider_id)
        assert price() == 0.01


class TestAdvice:
    def test_bottlerockets_ignored_fields_are_named_and_those_that_it_takes_are_not(self) -> None:
        kubelet = KubeletConfiguration(
            pods_per_core=2, eviction_soft=FrozenMap({"memory.available": "1Gi"}), max_pods=20, cpu_cfs_quota=False
        )
        (said,) = advice(provisioner(kubelet=kubelet), template(), FAMILIES["Bottlerocket"], SETTINGS)
        assert "evictionSoft, podsPerCore" in said
        assert "AWSNodeTemplate default (amiFamily Bottlerocket)" in said
        assert "maxPods" not in said
        assert "cpuCFSQuota" not in said

    def test_a_custom_image_gets_no_kubelet_configuration_at_all(self) -> None:
        kubelet = KubeletConfiguration(max_pods=20)
        (said,) = advice(provisioner(kubelet=kubelet), template(), FAMILIES["Custom"], SETTINGS)
        assert "maxPods" in said
        assert "set them in its userData" in said

    def test_a_launch_template_of_the_users_own_gets_none_either(self) -> None:
        kubelet = KubeletConfiguration(max_pods=20)
        (said,) = advice(provisioner(kubelet=kubelet), template(launch_template="mine"), FAMILIES["AL2"], SETTINGS)
        assert "launch template mine" in said

    @pytest.mark.parametrize("family", sorted(FAMILIES))
    def test_without_settings_that_are_ignored_nothing_is_said(self, family: str) -> None:
        assert advice(provisioner(), template(), FAMILIES[family], Settings(cluster_name="c")) == ()

    def test_al2_takes_every_field(self) -> None:
        kubelet = KubeletConfiguration(container_runtime="containerd", pods_per_core=2, eviction_max_pod_grace_period=3)
        assert advice(provisioner(kubelet=kubelet), template(), FAMILIES["AL2"], SETTINGS) == ()
