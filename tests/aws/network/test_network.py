"""Subnets and security groups: selectors, the choice by free addresses, launches under way."""

from __future__ import annotations

from typing import Any

import pytest

from controller.aws.network.security_groups import SecurityGroups, surplus_tagged
from controller.aws.network.selector_filters import filters
from controller.aws.network.subnets import CLOSED_TAG, Subnets
from controller.aws.template_status import resolve_status
from controller.core.api.frozen import FrozenMap
from controller.errors import CloudThrottledError, NodeTemplateError
from sandbox.aws.faults import Fault
from tests.aws.conftest import Cloud, template

OTHER = "ap-northeast-2b"
ZONE = "ap-northeast-2a"


@pytest.fixture
def subnets(cloud: Cloud) -> Subnets:
    return Subnets(cloud.clients.ec2, cloud.clock)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"aws-ids": "subnet-1, subnet-2,"}, [("subnet-id", ["subnet-1", "subnet-2"])]),
        ({"team": "*"}, [("tag-key", ["team"])]),
        ({"Name": "a-*,b"}, [("tag:Name", ["a-*", "b"])]),
        ({"z": "1", "aws-ids": "subnet-1"}, [("subnet-id", ["subnet-1"]), ("tag:z", ["1"])]),
    ],
)
def test_selectors_as_filters(selector: dict[str, str], expected: list[tuple[str, list[str]]]) -> None:
    assert [(item["Name"], item["Values"]) for item in filters(selector, "subnet-id")] == expected


def vpc_of(ec2: Any, subnet: str) -> str:
    return str(ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"])


class TestSubnets:
    def test_a_selector_finds_subnets_by_tag_by_wildcard_and_by_id(self, cloud: Cloud, subnets: Subnets) -> None:
        everything = subnets.matching(template())
        assert {s.zone for s in everything} == {f"ap-northeast-2{letter}" for letter in "abcd"}
        assert subnets.matching(template(subnet_selector=FrozenMap({"karpenter.sh/discovery": "de*"}))) == everything
        one = everything[0]
        assert subnets.matching(template(subnet_selector=FrozenMap({"aws-ids": one.id}))) == (one,)

    @pytest.mark.parametrize("selector", [{"karpenter.sh/discovery": "other"}, {}])
    def test_none_is_an_error_that_names_template_selector_and_remedy(
        self, subnets: Subnets, selector: dict[str, str]
    ) -> None:
        with pytest.raises(
            NodeTemplateError, match=r"AWSNodeTemplate default: spec\.subnetSelector \{.*\} matches no subnet; tag"
        ):
            subnets.matching(template(subnet_selector=FrozenMap(selector)))

    def test_a_zone_whose_subnets_give_public_addresses_is_public(self, cloud: Cloud, subnets: Subnets) -> None:
        assert subnets.public_zones(template()) == frozenset()
        public = next(s.id for s in subnets.matching(template()) if s.zone == ZONE)
        cloud.clients.ec2.modify_subnet_attribute(SubnetId=public, MapPublicIpOnLaunch={"Value": True})
        cloud.clock.advance(61)
        assert subnets.public_zones(template()) == {ZONE}

    def test_answers_are_kept_for_a_minute(self, cloud: Cloud, subnets: Subnets) -> None:
        subnets.matching(template())
        subnets.matching(template())
        assert cloud.calls("DescribeSubnets") == 1
        cloud.clock.advance(61)
        subnets.matching(template())
        assert cloud.calls("DescribeSubnets") == 2

    def test_throttling_is_bridged_by_the_last_answer_but_not_for_ever(self, cloud: Cloud, subnets: Subnets) -> None:
        known = subnets.matching(template())
        cloud.aws.faults.add(Fault(service="ec2", action="DescribeSubnets", code="RequestLimitExceeded"))
        cloud.clock.advance(61)
        assert subnets.matching(template()) == known
        cloud.clock.advance(3600)
        with pytest.raises(CloudThrottledError):
            subnets.matching(template())


class TestChoice:
    @pytest.fixture
    def two(self, cloud: Cloud) -> tuple[str, str]:
        """Two subnets in one zone, the first with one free address more than the second."""
        ec2 = cloud.aws.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        subnets = []
        for cidr in ("10.9.0.0/28", "10.9.1.0/28"):
            made = ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
            ec2.create_tags(Resources=[made], Tags=[{"Key": "test", "Value": vpc}])
            subnets.append(made)
        ec2.create_network_interface(SubnetId=subnets[1])
        return subnets[0], subnets[1]

    def choose(self, subnets: Subnets, two: tuple[str, str]) -> str:
        by_id = template(subnet_selector=FrozenMap({"aws-ids": ",".join(two)}))
        chosen, _ = subnets.reserve(by_id, {ZONE: 5})
        return chosen[ZONE].id

    def test_most_free_addresses_first_counting_launches_under_way(
        self, subnets: Subnets, two: tuple[str, str]
    ) -> None:
        assert [self.choose(subnets, two) for _ in range(3)] == [two[0], two[1], two[0]]

    def test_what_a_launch_did_not_use_is_given_back(self, subnets: Subnets, two: tuple[str, str]) -> None:
        by_id = template(subnet_selector=FrozenMap({"aws-ids": ",".join(two)}))
        _, reservation = subnets.reserve(by_id, {ZONE: 5})
        subnets.release(reservation)
        assert self.choose(subnets, two) == two[0]
        _, reservation = subnets.reserve(by_id, {ZONE: 5})
        subnets.release(reservation, used=[two[1]])
        assert self.choose(subnets, two) == two[0]

    def test_ec2s_own_count_replaces_the_predictions(
        self, cloud: Cloud, subnets: Subnets, two: tuple[str, str]
    ) -> None:
        assert self.choose(subnets, two) == two[0]
        cloud.clock.advance(61)
        assert self.choose(subnets, two) == two[0]

    def test_an_exhausted_subnet_is_left_out_for_three_minutes(
        self, cloud: Cloud, subnets: Subnets, two: tuple[str, str]
    ) -> None:
        subnets.exhaust(two[0])
        assert self.choose(subnets, two) == two[1]
        subnets.exhaust(two[1])
        by_id = template(subnet_selector=FrozenMap({"aws-ids": ",".join(two)}))
        assert subnets.zones(by_id) == frozenset()
        cloud.clock.advance(181)
        assert subnets.zones(by_id) == {ZONE}

    def test_a_subnet_with_fewer_addresses_than_the_node_takes_is_left_out(
        self, cloud: Cloud, subnets: Subnets, two: tuple[str, str]
    ) -> None:
        ec2 = cloud.aws.client("ec2")
        made = ec2.create_subnet(VpcId=vpc_of(ec2, two[0]), CidrBlock="10.9.2.0/24", AvailabilityZone=OTHER)["Subnet"]
        wide = template(subnet_selector=FrozenMap({"aws-ids": f"{two[0]},{made['SubnetId']}"}))
        assert subnets.zones(wide, 12) == {OTHER}, "11 are free in the other: 16 less five that AWS keeps"
        assert subnets.zones(wide, 10) == {ZONE, OTHER}
        assert set(subnets.reserve(wide, {ZONE: 10, OTHER: 10})[0]) == {ZONE, OTHER}
        assert subnets.zones(wide, 10) == {OTHER}, "a launch is in flight"
        assert set(subnets.reserve(wide, {ZONE: 10, OTHER: 10})[0]) == {OTHER}

    def test_where_no_subnet_is_thought_to_have_enough_ec2_decides(
        self, subnets: Subnets, two: tuple[str, str]
    ) -> None:
        by_id = template(subnet_selector=FrozenMap({"aws-ids": two[0]}))
        assert set(subnets.reserve(by_id, {ZONE: 12})[0]) == {ZONE}
        assert subnets.zones(by_id, 12) == {ZONE}

    def test_a_subnet_that_is_closed_by_its_tag_gets_no_node_until_it_is_open(
        self, cloud: Cloud, subnets: Subnets, two: tuple[str, str]
    ) -> None:
        ec2 = cloud.aws.client("ec2")
        by_id = template(subnet_selector=FrozenMap({"aws-ids": ",".join(two)}))
        for value, zones in (("true", {ZONE}), ("false", {ZONE}), ("true", set())):
            closed = two[:1] if zones else two
            ec2.create_tags(Resources=list(closed), Tags=[{"Key": CLOSED_TAG, "Value": value}])
            cloud.clock.advance(61)
            assert self.choose(subnets, two) == two[value == "true"] if zones else True
            assert subnets.zones(by_id) == zones
        assert subnets.all_zones(by_id) == {ZONE}, "types stay known"
        assert subnets.reserve(by_id, {ZONE: 1}) == ({}, {})

    def test_with_custom_networking_pods_addresses_are_of_the_zones_other_subnet(
        self, cloud: Cloud, subnets: Subnets, two: tuple[str, str]
    ) -> None:
        by_id = template(subnet_selector=FrozenMap({"aws-ids": two[1]}))
        assert subnets.zones(by_id, 11) == {ZONE}, "no zone has so many: EC2 decides"
        ec2 = cloud.aws.client("ec2")
        vpc = vpc_of(ec2, two[0])
        wide = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.4.0/26", AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
        other = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.5.0/24", AvailabilityZone=OTHER)["Subnet"]["SubnetId"]
        both = template(subnet_selector=FrozenMap({"aws-ids": f"{two[1]},{other}"}))
        assert subnets.zones(both, 30) == {OTHER}
        subnets.use_for_pods({ZONE: wide, "nowhere": "subnet-0000"})
        assert subnets.zones(both, 30) == {ZONE, OTHER}, "59 are free for pods"
        chosen, reservation = subnets.reserve(both, {ZONE: 30})
        assert chosen[ZONE].id == two[1]
        assert reservation == {two[1]: 1, wide: 30}
        assert subnets.zones(both, 30) == {OTHER}, "29 are left for pods"
        subnets.release(reservation)
        _, reservation = subnets.reserve(both, {ZONE: 30})
        subnets.release(reservation, used=[two[1]])
        assert subnets.zones(both, 30) == {OTHER}, "the node stands, and its pods' addresses are gone"
        subnets.use_for_pods({})
        assert subnets.zones(both, 9) == {ZONE, OTHER}

    def test_a_zone_whose_subnet_for_pods_is_full_gets_no_nodes_and_its_status_tells(
        self, cloud: Cloud, subnets: Subnets, two: tuple[str, str]
    ) -> None:
        ec2 = cloud.aws.client("ec2")
        groups = SecurityGroups(cloud.clients.ec2, "demo", cloud.clock, cloud.logger())
        for _ in range(9):
            ec2.create_network_interface(SubnetId=two[1])
        by_id = template(subnet_selector=FrozenMap({"aws-ids": two[0]}))
        subnets.use_for_pods({ZONE: two[1]})
        assert subnets.zones(by_id) == frozenset()
        status = resolve_status(by_id, subnets, groups)
        assert status.pod_subnets == ((two[1], ZONE),)
        assert status.free_addresses == {two[0]: 11, two[1]: 1}

    def test_a_zone_without_a_subnet_is_left_out(self, subnets: Subnets, two: tuple[str, str]) -> None:
        by_id = template(subnet_selector=FrozenMap({"aws-ids": two[0]}))
        chosen, _ = subnets.reserve(by_id, {ZONE: 1, "ap-northeast-2b": 1})
        assert set(chosen) == {ZONE}


class TestSecurityGroups:
    def test_every_match_is_used_and_none_is_an_error(self, cloud: Cloud) -> None:
        groups = SecurityGroups(cloud.clients.ec2, "demo", cloud.clock, cloud.logger())
        assert cloud.aws.seeded is not None
        assert groups.matching(template()) == (cloud.aws.seeded.security_group_id,)
        nothing = template(security_group_selector=FrozenMap({"karpenter.sh/discovery": "other"}))
        with pytest.raises(
            NodeTemplateError, match=r"spec\.securityGroupSelector \{.*\} matches no security group; tag"
        ):
            groups.matching(nothing)

    def test_of_several_groups_with_the_clusters_tag_one_is_attached_and_it_is_said_once(self, cloud: Cloud) -> None:
        ec2 = cloud.aws.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.8.0.0/16")["Vpc"]["VpcId"]
        made = []
        for name in ("one", "two", "three"):
            group = ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
            tags = {"test": vpc} | ({} if name == "three" else {"kubernetes.io/cluster/demo": "owned"})
            ec2.create_tags(Resources=[group], Tags=[{"Key": k, "Value": v} for k, v in tags.items()])
            made.append(group)
        groups = SecurityGroups(cloud.clients.ec2, "demo", cloud.clock, cloud.logger())
        for _ in range(3):
            matching = groups.matching(template(security_group_selector=FrozenMap({"test": vpc})))
            assert matching == tuple(sorted({made[2], min(made[:2])}))
            cloud.clock.advance(61)
        assert len(cloud.events("warning")) == 1

    def test_the_group_that_eks_made_is_the_one_that_stays(self) -> None:
        tag = "kubernetes.io/cluster/demo"
        groups = {"sg-1": {tag: "owned"}, "sg-2": {tag: "owned", "aws:eks:cluster-name": "demo"}, "sg-3": {}}
        assert surplus_tagged(groups, tag) == ("sg-1",)
