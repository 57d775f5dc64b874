"""Launches: one instance for a token, whatever happens between the calls (invariant 4), and EC2's bad days."""

from __future__ import annotations

import base64
import threading
from dataclasses import replace

import pytest
import yaml

from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.provisioner import KubeletConfiguration
from controller.errors import (
    CloudError,
    CloudThrottledError,
    CloudUnauthorizedError,
    InsufficientCapacityError,
    NodeTemplateError,
)
from sandbox.aws.ec2.instances import Delays
from sandbox.aws.faults import Fault, Shortage
from tests.aws.conftest import SETTINGS, Cloud, Types, available, provisioner, request, template

SMALL = ("m5.large", "c5.large", "m6i.large")


class TestOneInstanceForAToken:
    def test_a_launch_gives_what_the_plan_asked_for(self, cloud: Cloud, provider: AWSProvider, types: Types) -> None:
        wanted = request(types, names=SMALL)
        instance = provider.create(wanted)
        assert (instance.instance_type, instance.zone) in {(o.instance_type, o.zone) for o in wanted.offerings}
        assert instance.provider_id == f"aws:///{instance.zone}/{instance.id}"
        assert instance.node_name.endswith(".ap-northeast-2.compute.internal")
        assert instance.capacity_type == keys.SPOT
        assert instance.provisioner_name == "default"
        assert [i["instanceId"] for i in cloud.alive()] == [instance.id]

    def test_the_same_token_again_gives_the_same_instance(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        first = provider.create(wanted)
        again = provider.create(wanted)
        assert (again.id, again.labels) == (first.id, first.labels)
        assert cloud.calls("CreateFleet") == 1

    def test_a_process_that_died_after_create_fleet_left_one_instance_which_the_next_one_gets(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        first = provider.create(wanted)
        assert cloud.restarted(provider).create(wanted).id == first.id
        assert len(cloud.alive()) == 1

    def test_while_describe_does_not_show_it_yet_the_client_token_gives_the_same_instance(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        cloud.aws.world.instances.delays = Delays(unseen_seconds=10)
        cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="InternalError", after=True, times=4))
        with pytest.raises(CloudError, match="InternalError"):
            provider.create(wanted)
        assert len(cloud.aws.instances()) == 1
        instance = cloud.restarted(provider).create(wanted)
        assert [i["instanceId"] for i in cloud.aws.instances()] == [instance.id]

    def test_other_offerings_for_the_same_token_find_the_instance_that_was_launched_for_the_first(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        cloud.aws.world.instances.delays = Delays(unseen_seconds=10)  # the look-up by tag comes too early
        cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="InternalError", after=True, times=4))
        with pytest.raises(CloudError, match="InternalError"):
            provider.create(wanted)
        cloud.aws.calls.clear()
        other = replace(wanted, offerings=wanted.offerings[1:])
        instance = cloud.restarted(provider).create(other)
        assert cloud.aws.calls.errors() == {"ec2.CreateFleet:IdempotentParameterMismatch": 1}
        assert [i["instanceId"] for i in cloud.aws.instances()] == [instance.id]

    def test_an_instance_that_is_gone_is_not_given_again(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        first = provider.create(wanted)
        provider.delete(first.provider_id)
        second = cloud.restarted(provider).create(wanted)
        assert second.id != first.id
        cloud.clock.advance(30)
        provider.delete(second.provider_id)
        cloud.clock.advance(2 * 3600)  # EC2 has forgotten both
        third = cloud.restarted(provider).create(wanted)
        assert third.id not in (first.id, second.id)
        assert [i["instanceId"] for i in cloud.alive()] == [third.id]

    def test_an_old_failure_that_ec2_repeats_is_not_taken_for_one_of_now(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=("m5.large",))
        shortage = cloud.aws.faults.add_shortage(Shortage(instanceType="m5.large"))
        with pytest.raises(InsufficientCapacityError):
            provider.create(wanted)
        cloud.aws.faults.remove(shortage)
        cloud.clock.advance(600)
        cloud.logs.entries.clear()
        assert cloud.restarted(provider).create(wanted).instance_type == "m5.large"
        assert cloud.events("info") == []

    def test_describe_that_stays_blind_is_an_error_and_the_next_call_finds_the_instance(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        cloud.aws.world.instances.delays = Delays(unseen_seconds=50)
        with pytest.raises(CloudError, match="EC2 does not show it"):
            provider.create(wanted)
        cloud.clock.advance(60)
        assert provider.create(wanted).id == cloud.alive()[0]["instanceId"]
        assert len(cloud.alive()) == 1

    def test_a_process_that_is_told_to_stop_while_it_waits_launches_no_second_one(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        cloud.aws.world.instances.delays = Delays(unseen_seconds=10)
        cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="InternalError", after=True, times=4))
        with pytest.raises(CloudError, match="InternalError"):
            provider.create(wanted)
        stop = threading.Event()
        stop.set()
        stopping = cloud.restarted(provider, stop=stop)
        other = replace(wanted, offerings=wanted.offerings[1:])
        with pytest.raises(CloudError, match="The controller stops while"):
            stopping.create(other)
        assert len(cloud.aws.instances()) == 1
        assert cloud.restarted(provider).create(other).id == cloud.aws.instances()[0]["instanceId"]

    def test_an_instance_that_gets_no_name_is_neither_given_out_nor_launched_again(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        first = provider.create(wanted)
        launched = cloud.aws.world.instances.get(first.id)
        assert launched is not None
        name = launched.entry["PrivateDnsName"]
        launched.entry["PrivateDnsName"] = ""
        launched.retag(launched.tags)
        for process in (provider, cloud.restarted(provider)):
            with pytest.raises(CloudError, match="has no private DNS name after 20 s"):
                process.create(wanted)
        launched.entry["PrivateDnsName"] = name
        launched.retag(launched.tags)
        assert provider.create(wanted).id == first.id
        assert len(cloud.alive()) == 1

    @pytest.mark.parametrize("done", range(12))
    def test_wherever_a_process_dies_between_two_calls_the_next_one_ends_with_one_instance(
        self, cloud: Cloud, provider: AWSProvider, types: Types, done: int
    ) -> None:
        """The process dies when the answer to its `done`th call is on the way, and finds nobody for a while."""
        wanted = request(types, names=SMALL)
        provider.create(replace(wanted, token=f"{wanted.token}-warm-up"))
        before = {i["instanceId"] for i in cloud.aws.instances()}
        cloud.aws.world.instances.delays = Delays(unseen_seconds=3)
        dying = cloud.restarted(provider)
        cloud.aws.faults.add(Fault(skip=done, code="ServiceUnavailable", after=True))
        try:
            dying.create(wanted)
        except CloudError:
            assert "ServiceUnavailable" in "".join(cloud.aws.calls.errors())
        cloud.aws.faults.clear()
        instance = cloud.restarted(provider).create(wanted)
        assert {i["instanceId"] for i in cloud.aws.instances()} - before == {instance.id}


class TestWriteAheadRecord:
    def test_labels_are_the_same_just_launched_and_found_by_list(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        many = FrozenMap({f"example.com/label-{index:02}": "v" * 50 for index in range(20)})
        kubelet = KubeletConfiguration(max_pods=20, pods_per_core=4)
        wanted = request(
            types,
            names=("m5.large",),
            labels=FrozenMap({**many, "team": "a"}),
            provisioner=provisioner(kubelet=kubelet),
        )
        created = provider.create(wanted)
        (listed,) = cloud.restarted(provider).list()
        assert listed.labels == created.labels
        assert listed.labels.items() >= many.items()
        assert listed.labels[keys.INSTANCE_PODS] == "8"
        assert listed.labels[keys.INSTANCE_AMI_ID] == created.image_id

    def test_ownership_tags_cannot_be_overridden_and_the_templates_win_over_the_settings(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        tags = FrozenMap(
            {"kubernetes.io/cluster/demo": "shared", keys.PROVISIONER_NAME: "other", "Name": "mine", "a": "b"}
        )
        created = provider.create(request(types, names=("m5.large",), template=template(tags=tags)))
        assert created.tags["kubernetes.io/cluster/demo"] == "owned"
        assert created.tags[keys.PROVISIONER_NAME] == "default"
        assert (created.tags["Name"], created.tags["a"]) == ("mine", "b")

    def test_more_tags_than_ec2_takes_are_refused_before_anything_is_launched(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        tags = FrozenMap({f"tag-{index}": "x" for index in range(48)})
        with pytest.raises(
            NodeTemplateError, match=r"AWSNodeTemplate default: \d+ tags are more than EC2's limit of 50"
        ):
            provider.create(request(types, names=("m5.large",), template=template(tags=tags)))
        assert cloud.calls("CreateFleet") == 0


class TestBadDays:
    def test_with_all_but_one_offering_out_of_capacity_that_one_is_launched(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        last = wanted.offerings[-1]
        for offering in wanted.offerings[:-1]:
            cloud.aws.faults.add_shortage(Shortage(offering.instance_type, offering.zone, offering.capacity_type))
        instance = provider.create(wanted)
        assert (instance.instance_type, instance.zone) == (last.instance_type, last.zone)

    def test_an_alternative_that_costs_much_more_is_not_sent_while_a_cheap_one_may_be_had(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        names = ("m5.large", "m5.xlarge", "m5.4xlarge")
        wanted = request(types, names=names, capacity_types=(keys.ON_DEMAND,))
        assert provider.create(wanted).instance_type == "m5.large"
        assert cloud.sent_types() == [{"m5.large"}]

    def test_when_the_cheap_ones_have_no_capacity_the_dear_ones_are_sent_in_the_same_launch(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        for name in ("m5.large", "m5.xlarge"):
            cloud.aws.faults.add_shortage(Shortage(instanceType=name))
        names = ("m5.large", "m5.xlarge", "m5.4xlarge")
        wanted = request(types, names=names, capacity_types=(keys.ON_DEMAND,))
        assert provider.create(wanted).instance_type == "m5.4xlarge"
        assert cloud.sent_types() == [{"m5.large"}, {"m5.xlarge"}, {"m5.4xlarge"}]

    def test_what_has_no_capacity_is_unavailable_at_once_and_available_again_later(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        cloud.aws.faults.add_shortage(Shortage(instanceType="m5.large", capacityType="spot"))
        with pytest.raises(InsufficientCapacityError, match="InsufficientInstanceCapacity"):
            provider.create(request(types, names=("m5.large",)))
        assert not any(available(provider, "m5.large", keys.SPOT).values())
        said = [entry["offerings"] for entry in cloud.logs.entries if entry["event"] == "Offerings have no capacity"]
        assert [len(offerings) for offerings in said] == [3, 1], "the rest is asked for at once; each is said once"
        assert len(set().union(*said)) == 4
        assert all(available(provider, "m5.large", keys.ON_DEMAND).values())
        cloud.clock.advance(181)
        assert all(available(provider, "m5.large", keys.SPOT).values())

    def test_spot_falls_back_to_on_demand_in_the_same_call(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        cloud.aws.faults.add_shortage(Shortage(capacityType="spot"))
        wanted = request(types, names=SMALL, capacity_types=(keys.SPOT, keys.ON_DEMAND))
        instance = provider.create(wanted)
        assert instance.capacity_type == keys.ON_DEMAND
        assert instance.labels[keys.CAPACITY_TYPE] == keys.ON_DEMAND
        assert any("spot is allowed" in event for event in cloud.events("warning"))
        assert len(cloud.alive()) == 1

    def test_after_a_failure_the_next_plan_for_the_same_pods_is_launched_without_waiting(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        cloud.aws.faults.add_shortage(Shortage(instanceType="m5.large"))
        failed = request(types, names=("m5.large",))
        with pytest.raises(InsufficientCapacityError):
            provider.create(failed)
        before = cloud.clock.now()
        again = replace(request(types, names=("c5.large",)), token=failed.token)
        assert provider.create(again).instance_type == "c5.large"
        assert cloud.clock.now() - before < 1
        assert cloud.aws.calls.errors() == {}

    @pytest.mark.parametrize("code", ["MaxSpotInstanceCountExceeded", "SpotMaxPriceTooLow", "UnfulfillableCapacity",
                                      "Unsupported", "VcpuLimitExceeded", "InvalidFleetConfiguration"])  # fmt: skip
    def test_every_capacity_code_sends_the_launch_elsewhere(
        self, cloud: Cloud, provider: AWSProvider, types: Types, code: str
    ) -> None:
        wanted = request(types, names=SMALL)
        cloud.aws.faults.add_shortage(Shortage(instanceType=wanted.offerings[0].instance_type, code=code))
        assert provider.create(wanted).instance_type != wanted.offerings[0].instance_type

    def test_throttled_at_every_kind_of_call_a_new_process_still_launches(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        actions = {"ec2": ("CreateFleet", "CreateLaunchTemplate", "DescribeInstances", "DescribeLaunchTemplates",
                           "DescribeSecurityGroups", "DescribeSubnets"),
                   "ssm": ("GetParameter",), "eks": ("DescribeCluster",)}  # fmt: skip
        for service, names in actions.items():
            for action in names:
                code = "RequestLimitExceeded" if service == "ec2" else "ThrottlingException"
                cloud.aws.faults.add(Fault(service=service, action=action, code=code, times=2))
        wanted = request(types, names=SMALL, template=template(detailed_monitoring=True))
        instance = cloud.restarted(provider).create(wanted)
        assert [i["instanceId"] for i in cloud.alive()] == [instance.id]
        assert len(cloud.aws.calls.errors()) >= sum(map(len, actions.values()))

    def test_a_new_instance_that_describe_does_not_show_for_ten_seconds_is_waited_for(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        cloud.aws.world.instances.delays = Delays(unseen_seconds=10)
        began = cloud.clock.now()
        assert provider.create(request(types, names=SMALL)).node_name
        assert 10 <= cloud.clock.now() - began < 15

    def test_a_fleet_that_is_refused_as_a_whole_for_capacity_is_treated_as_each_of_its_offerings(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="MaxSpotInstanceCountExceeded", times=2))
        wanted = request(types, names=("m5.large",), capacity_types=(keys.SPOT, keys.ON_DEMAND))
        assert provider.create(wanted).capacity_type == keys.ON_DEMAND
        assert not any(available(provider, "m5.large", keys.SPOT).values())

    def test_throttled_beyond_the_clients_retries_nothing_is_lost(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=SMALL)
        cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="RequestLimitExceeded", times=4))
        with pytest.raises(CloudThrottledError, match="ec2:CreateFleet for Provisioner default: RequestLimitExceeded"):
            provider.create(wanted)
        assert provider.create(wanted).id
        assert len(cloud.alive()) == 1

    def test_a_missing_permission_says_which_action_and_where_to_allow_it(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="UnauthorizedOperation"))
        with pytest.raises(CloudUnauthorizedError, match="allow ec2:CreateFleet in the policy"):
            provider.create(request(types, names=SMALL))

    def test_expired_credentials_are_told_apart_from_a_missing_permission(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        cloud.aws.faults.add(Fault(service="ec2", code="RequestExpired"))
        with pytest.raises(CloudUnauthorizedError, match="credentials are expired"):
            provider.create(request(types, names=SMALL))

    def test_a_launch_template_that_somebody_deleted_is_made_again(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=("m5.large",))
        provider.create(wanted)
        ec2 = cloud.aws.client("ec2")
        for existing in ec2.describe_launch_templates()["LaunchTemplates"]:
            ec2.delete_launch_template(LaunchTemplateId=existing["LaunchTemplateId"])
        assert provider.create(request(types, names=("m5.large",))).instance_type == "m5.large"

    def test_a_subnet_without_addresses_is_left_and_the_launch_goes_to_another_zone(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(types, names=("m5.large",), capacity_types=(keys.ON_DEMAND,))
        zone = wanted.offerings[0].zone
        cloud.aws.faults.add_shortage(Shortage(zone=zone, code="InsufficientFreeAddressesInSubnet"))
        instance = provider.create(wanted)
        assert instance.zone != zone
        assert "Subnet has no free addresses" in cloud.events("warning")
        offerings = [o for item in provider.instance_types(provisioner(), template()) for o in item.offerings]
        assert zone not in {o.zone for o in offerings if o.available}
        assert zone in {o.zone for o in offerings}, "what is only sold there stays known: nodes of it may start"


class TestWhatTheNodeGets:
    def test_taints_of_both_kinds_and_the_provisioners_labels_reach_the_kubelet(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        wanted = request(
            types,
            names=("m5.large",),
            taints=(Taint("dedicated", "x"),),
            startup_taints=(Taint("cilium", "", "NoExecute"),),
        )
        instance = provider.create(wanted)
        launched = cloud.aws.world.instances.get(instance.id)
        assert launched is not None
        user_data = base64.b64decode(launched.user_data).decode()
        (document,) = [part for part in user_data.split("\n\n") if part.startswith("apiVersion: node.eks.aws/")]
        kubelet = yaml.safe_load(document.partition("\n--")[0])["spec"]["kubelet"]
        assert kubelet["config"]["registerWithTaints"] == [
            {"key": "dedicated", "value": "x", "effect": "NoSchedule"},
            {"key": "cilium", "value": "", "effect": "NoExecute"},
        ]
        assert "--node-labels=karpenter.sh/capacity-type=spot,karpenter.sh/provisioner-name=default,team=a" in user_data

    def test_no_instance_profile_anywhere_is_refused_with_the_remedy(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        bare = cloud.provider(replace(SETTINGS, default_instance_profile=""))
        with pytest.raises(
            NodeTemplateError, match=r"AWSNodeTemplate default: no instance profile; set spec\.instanceProfile"
        ):
            bare.create(request(types, names=("m5.large",)))

    def test_a_launch_template_of_the_users_own_is_used_as_it_is(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        provider.create(request(types, names=("m5.large",)))
        ec2 = cloud.aws.client("ec2")
        data = ec2.describe_launch_template_versions(
            LaunchTemplateName=ec2.describe_launch_templates()["LaunchTemplates"][0]["LaunchTemplateName"],
            Versions=["$Latest"],
        )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        ec2.create_launch_template(LaunchTemplateName="my-own", LaunchTemplateData={"ImageId": data["ImageId"]})
        cloud.aws.calls.clear()
        own = template(launch_template="my-own", security_group_selector=FrozenMap())
        provider.create(request(types, names=("m5.large",), template=own))
        assert cloud.calls("CreateLaunchTemplate") == 0
        (sent,) = cloud.aws.calls.calls("CreateFleet")
        (config,) = sent.params["LaunchTemplateConfigs"]
        assert config["LaunchTemplateSpecification"] == {"LaunchTemplateName": "my-own", "Version": "$Latest"}
