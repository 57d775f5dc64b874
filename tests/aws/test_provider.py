"""AWSProvider as the shell uses it: get, list, delete, status, the start-up check, and many threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from controller.aws.launch.instances import FILTER_VALUES, Instances
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.cloud import CloudProvider
from controller.errors import CloudError, CloudUnauthorizedError, InstanceNotFoundError, NodeTemplateError
from sandbox.aws.faults import Fault
from tests.aws.conftest import (
    CLUSTER,
    SETTINGS,
    Cloud,
    Types,
    provisioner,
    request,
    template,
)


def test_it_is_a_cloud_provider(provider: AWSProvider) -> None:
    seam: CloudProvider = provider
    assert seam.list() == ()


def instances(cloud: Cloud) -> Instances:
    """The cluster's instances, described without the labels of their types."""
    return Instances(cloud.clients.ec2, CLUSTER, "", lambda _type, _tags: {}, cloud.clock)


class TestInstances:
    def test_an_instance_is_found_until_it_is_terminated_and_shutting_down_still_counts(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        instance = provider.create(request(types, names=("m5.large",)))
        assert provider.get(instance.provider_id).state == "pending"
        cloud.clock.advance(6)
        assert provider.get(instance.provider_id).state == "running"
        provider.delete(instance.provider_id)
        assert provider.get(instance.provider_id).state == "shutting-down"
        assert [item.state for item in provider.list()] == ["shutting-down"]
        cloud.clock.advance(11)
        with pytest.raises(InstanceNotFoundError, match=f"Instance {instance.id} is terminated or unknown"):
            provider.get(instance.provider_id)
        assert provider.list() == ()

    def test_only_nodes_of_its_instances_teach_their_memory_under_the_type_that_ec2_names(
        self, cloud: Cloud, provider: AWSProvider, types: Types, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        instance = provider.create(request(types, names=("m5.large",)))
        told = {keys.INSTANCE_TYPE: "c5.large", keys.INSTANCE_AMI_ID: "ami-false", keys.INITIALIZED: "true"}
        fields: dict[str, Any] = {"labels": FrozenMap(told), "capacity": FrozenMap({"memory": 8_000_000_000})}
        strange = Node(name="stranger", provider_id="aws:///a/i-0123456789abcdef0", **fields)
        assert provider.learn_memory([strange]) == {}
        own = Node(name="own", provider_id=instance.provider_id, **fields)
        monkeypatch.setattr(Instances, "launched", None)  # thousands of instances are not listed for the sake of one
        learned = provider.learn_memory([own])
        assert learned == {f"m5.large_{instance.image_id}": "8000000000"}

    def test_what_does_not_exist_is_not_found(self, provider: AWSProvider) -> None:
        nowhere = "aws:///ap-northeast-2a/i-0123456789abcdef0"
        with pytest.raises(InstanceNotFoundError):
            provider.get(nowhere)
        with pytest.raises(InstanceNotFoundError):
            provider.delete(nowhere)

    @pytest.mark.parametrize("provider_id", ["", "i-0123", "aws:///zone", "gce:///zone/i-0123", "aws:///a/b/i-0123"])
    def test_an_id_that_is_not_ours_is_a_value_error(self, provider: AWSProvider, provider_id: str) -> None:
        with pytest.raises(ValueError, match="is not a provider id of AWS"):
            provider.get(provider_id)
        with pytest.raises(ValueError, match="is not a provider id of AWS"):
            provider.delete(provider_id)

    def test_instances_of_others_are_neither_listed_nor_found(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        instance = provider.create(request(types, names=("m5.large",)))
        elsewhere = cloud.provider(replace(SETTINGS, cluster_name="elsewhere"))
        assert elsewhere.list() == ()
        with pytest.raises(InstanceNotFoundError):
            elsewhere.get(instance.provider_id)

    def test_an_instance_that_lost_the_clusters_tag_is_found_by_its_bare_id(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        """Neither listed nor ours by its tags, it runs all the same: whoever asks whether it is gone is told no."""
        instance = provider.create(request(types, names=("m5.large",)))
        tag = {"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"}
        cloud.aws.client("ec2").delete_tags(Resources=[instance.id], Tags=[tag])
        assert provider.list() == ()
        with pytest.raises(InstanceNotFoundError, match="exists without the tag"):
            provider.get(instance.provider_id)
        instance_now = provider.find(instance.provider_id)
        assert instance_now is not None
        assert (instance_now.state, instance_now.owned) == ("pending", False)
        assert provider.known([instance.provider_id, "aws:///a/i-0123456789abcdef0", "kind://x"]) == {
            instance.provider_id
        }
        provider.delete(instance.provider_id)
        cloud.clock.advance(11)
        ended = provider.find(instance.provider_id)
        assert ended is not None
        assert ended.state == "terminated"

    def test_many_ids_are_asked_for_in_as_many_values_as_a_filter_takes(self, cloud: Cloud) -> None:
        nobody = [f"aws:///a/i-{number:017x}" for number in range(FILTER_VALUES + 1)]
        assert cloud.provider().known(nobody) == frozenset()
        assert cloud.calls("DescribeInstances") == 2

    def test_the_identity_is_the_clients_region_and_the_arn_that_eks_answers(
        self, cloud: Cloud, provider: AWSProvider
    ) -> None:
        identity = provider.identity()
        assert identity.region == cloud.clients.region
        assert identity.cluster_arn == cloud.aws.client("eks").describe_cluster(name=CLUSTER)["cluster"]["arn"]
        assert f":{identity.region}:" in identity.cluster_arn

    def test_terminating_many_at_once_is_one_call_and_a_bad_id_does_not_stop_the_others(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        first, second = (provider.create(request(types, names=("m5.large",))) for _ in range(2))
        results = instances(cloud).terminate_all([first.id, "i-0123456789abcdef0", second.id])
        assert (results[first.id], results[second.id]) == (None, None)
        assert isinstance(results["i-0123456789abcdef0"], InstanceNotFoundError)
        assert cloud.alive() == []

    def test_a_terminate_that_half_succeeds_is_finished(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        both = [provider.create(request(types, names=("m5.large",))).id for _ in range(2)]
        cloud.aws.faults.add(Fault(service="ec2", action="TerminateInstances", half=True, times=1))
        assert instances(cloud).terminate_all(both) == dict.fromkeys(both)
        assert cloud.alive() == []

    def test_nodes_are_named_by_the_resource_where_the_settings_say_so(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        instance = provider.create(request(types, names=("m5.large",)))
        named = cloud.restarted(provider, replace(SETTINGS, node_name_convention="resource-name"))
        (listed,) = named.list()
        assert listed.node_name == instance.id


class TestThreads:
    def test_many_launches_at_once_are_one_instance_each(
        self, cloud: Cloud, provider: AWSProvider, types: Types
    ) -> None:
        requests = [request(types, names=("m5.large", "c5.large")) for _ in range(20)]
        with ThreadPoolExecutor(10) as pool:
            made = list(pool.map(provider.create, requests * 2))
        assert len({instance.id for instance in made}) == 20
        assert [a.id for a in made[:20]] == [b.id for b in made[20:]]
        assert len(cloud.alive()) == 20
        assert cloud.calls("CreateLaunchTemplate") <= 1

    def test_the_catalog_read_by_many_threads_is_read_from_ec2_once(self, cloud: Cloud) -> None:
        provider = cloud.provider()
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: provider.instance_types(provisioner(), template()), range(16)))
        assert len({id(answer) for answer in answers}) == 1
        assert cloud.calls("DescribeSubnets") == 1
        assert cloud.calls("DescribeCluster") == 1


class TestStatus:
    def test_subnets_by_free_addresses_and_groups(self, cloud: Cloud, provider: AWSProvider) -> None:
        status = provider.template_status(template())
        assert cloud.aws.seeded is not None
        assert {subnet_id for subnet_id, _ in status.subnets or ()} == set(cloud.aws.seeded.subnet_ids)
        assert status.security_groups == (cloud.aws.seeded.security_group_id,)
        assert status.problems == ()

    def test_each_list_is_resolved_on_its_own(self, provider: AWSProvider) -> None:
        status = provider.template_status(template(subnet_selector=FrozenMap({"no": "such"})))
        assert status.subnets == ()
        assert status.security_groups is not None
        assert len(status.security_groups) == 1
        (problem,) = status.problems
        assert "spec.subnetSelector {no: such} matches no subnet" in problem

    @pytest.mark.parametrize(
        ("code", "unanswered", "problem"),
        [("RequestLimitExceeded", "it is tried again", ""), ("UnauthorizedOperation", "", "allow ec2:DescribeSubnets")],
    )
    def test_no_answer_is_told_apart_from_no_match_and_from_a_refusal(
        self, cloud: Cloud, provider: AWSProvider, code: str, unanswered: str, problem: str
    ) -> None:
        cloud.aws.faults.add(Fault(service="ec2", action="DescribeSubnets", code=code))
        status = provider.template_status(template(subnet_selector=FrozenMap({"aws-ids": "subnet-0123456789abcdef0"})))
        assert status.subnets is None
        assert unanswered in "".join(status.unanswered)
        assert bool(unanswered) == bool(status.unanswered)
        assert problem in "".join(status.problems)
        assert bool(problem) == bool(status.problems)

    def test_a_template_with_its_own_launch_template_needs_no_groups(self, provider: AWSProvider) -> None:
        status = provider.template_status(template(launch_template="own", security_group_selector=FrozenMap()))
        assert status.problems == ()

    def test_images_are_those_that_nodes_may_run_now(self, provider: AWSProvider, types: Types) -> None:
        instance = provider.create(request(types, names=("m5.large",)))
        assert instance.image_id in provider.image_ids(template())
        assert instance.image_id not in provider.image_ids(template(ami_family="Bottlerocket"))


class TestStartUpCheck:
    def test_a_role_that_may_do_everything_passes_and_nothing_is_made(self, cloud: Cloud) -> None:
        cloud.provider().check_permissions()
        assert cloud.alive() == []
        assert all(call.params.get("DryRun") for call in cloud.aws.calls.calls() if call.action.startswith("Create"))

    def test_all_that_is_refused_is_named_at_once_with_the_statement_to_add(self, cloud: Cloud) -> None:
        for action in ("CreateLaunchTemplate", "DescribeSubnets"):
            cloud.aws.faults.add(Fault(service="ec2", action=action, code="UnauthorizedOperation"))
        cloud.aws.faults.add(Fault(service="ssm", action="GetParameter", code="AccessDeniedException"))
        with pytest.raises(CloudUnauthorizedError) as caught:
            cloud.provider().check_permissions()
        assert '"Action": ["ec2:DescribeSubnets", "ec2:CreateLaunchTemplate", "ssm:GetParameter"]' in str(caught.value)

    def test_the_pricing_api_can_be_done_without_and_a_fleets_dry_run_may_be_refused_for_its_template(
        self, cloud: Cloud
    ) -> None:
        cloud.aws.faults.add(Fault(service="pricing", code="AccessDeniedException"))
        cloud.aws.faults.add(Fault(service="ec2", action="CreateFleet", code="UnauthorizedOperation"))
        cloud.provider().check_permissions()
        said = [entry["action"] for entry in cloud.logs.entries if entry["log_level"] == "warning"]
        assert said == ["ec2:CreateFleet", "pricing:GetProducts"]

    @pytest.mark.parametrize(
        ("code", "kind"), [("ExpiredToken", CloudUnauthorizedError), ("InternalError", CloudError)]
    )
    def test_bad_credentials_and_no_answer_are_not_taken_for_missing_permissions(
        self, cloud: Cloud, code: str, kind: type[CloudError]
    ) -> None:
        cloud.aws.faults.add(Fault(service="ec2", code=code))
        with pytest.raises(kind) as caught:
            cloud.provider().check_permissions()
        assert "Action" not in str(caught.value)


class TestStart:
    def test_with_ec2_away_at_the_start_it_is_an_error_now_and_works_later(self, cloud: Cloud) -> None:
        cloud.aws.faults.add(Fault(service="ec2", action="DescribeInstanceTypes", code="RequestLimitExceeded"))
        provider = cloud.provider()
        with pytest.raises(CloudError, match="Instance types are not known yet"):
            provider.instance_types(provisioner(), template())
        cloud.aws.faults.clear()
        assert provider.instance_types(provisioner(), template())

    def test_a_template_without_subnets_fails_alone(self, provider: AWSProvider) -> None:
        with pytest.raises(NodeTemplateError, match="AWSNodeTemplate lost"):
            provider.instance_types(provisioner(), template(name="lost", subnet_selector=FrozenMap({"no": "such"})))
        assert provider.instance_types(provisioner(), template())
