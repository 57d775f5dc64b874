"""What the controller's role may and may not do: asked of the policies, as IAM would be asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.documents.account import Account
from components.documents.controller_policy import ControllerGrants, launch_policy, read_policy
from components.documents.policy import MAX_CHARACTERS, compact
from controller.aws.api import tags as tagging
from tests.components.policies import Request, allowed
from tests.components.source import aws_actions
from tests.source_trees import READS_SOURCES

pytestmark = READS_SOURCES
ACCOUNT = Account("aws", "111122223333", "ap-northeast-2")
CLUSTER = "myeks"
NODE_ROLE = ACCOUNT.iam_arn("role/KarpenterNodeRole-myeks")
QUEUE = ACCOUNT.arn("sqs", CLUSTER)
VPC = "vpc-0123456789abcdef0"
INSTANCE = ACCOUNT.arn("ec2", "instance/i-0123456789abcdef0")
TEMPLATE = ACCOUNT.arn("ec2", "launch-template/lt-0123456789abcdef0")
REGION = {"aws:RequestedRegion": "ap-northeast-2"}


def grants(**changes: Any) -> ControllerGrants:
    return replace(ControllerGrants(ACCOUNT, CLUSTER, NODE_ROLE, VPC, QUEUE), **changes)


def may(action: str, resource: str = "*", context: dict[str, str] | None = None, **changes: Any) -> bool:
    given = grants(**changes)
    return allowed([launch_policy(given), read_policy(given)], Request(action, resource, context or {}))


def tags(where: str, cluster: str = CLUSTER, **more: str) -> dict[str, str]:
    """Condition keys of the controller's own ownership tags. `where`: Request or Resource."""
    return {f"aws:{where}Tag/{key}": value for key, value in (tagging.ownership(cluster, "default") | more).items()}


SHIFTS = "arc-zonal-shift:GetManagedResource"
REQUESTS = {
    "ec2:CreateFleet": (ACCOUNT.arn("ec2", "fleet/*"), tags("Request")),
    "ec2:CreateLaunchTemplate": (ACCOUNT.arn("ec2", "launch-template/*"), tags("Request")),
    "ec2:DeleteLaunchTemplate": (TEMPLATE, tags("Resource")),
    "ec2:TerminateInstances": (INSTANCE, tags("Resource")),
    "eks:DescribeCluster": (ACCOUNT.arn("eks", "cluster/myeks"), REGION),
    "ssm:GetParameter": (
        ACCOUNT.public_arn("ssm", "parameter/aws/service/eks/optimized-ami/1.30/amazon-linux-2/recommended/image_id"),
        REGION,
    ),
    SHIFTS: ("*", {"arc-zonal-shift:ResourceIdentifier": ACCOUNT.arn("eks", f"cluster/{CLUSTER}")}),
    "sqs:DeleteMessage": (QUEUE, REGION),
    "sqs:GetQueueUrl": (QUEUE, REGION),
    "sqs:ReceiveMessage": (QUEUE, REGION),
}
"""Resource and condition keys of each action that is not a plain read of the region."""


def test_every_action_that_the_code_calls_is_allowed_on_its_own_resources() -> None:
    requests = {action: REQUESTS.get(action, ("*", REGION)) for action in aws_actions()}
    assert len(requests) > 15, "the reader of the source finds too little"
    denied = {action for action, (resource, context) in requests.items() if not may(action, resource, context)}
    assert not denied, "add them to components/documents/controller_policy.py"


def test_no_action_is_allowed_that_the_code_does_not_need() -> None:
    implied = {"ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"}
    statements = [*launch_policy(grants())["Statement"], *read_policy(grants())["Statement"]]
    granted = {action for statement in statements for action in statement["Action"]}
    assert granted - implied == aws_actions()
    assert not any("*" in action for action in granted)


@pytest.mark.parametrize("kind", ["fleet", "instance", "volume"])
def test_what_is_created_must_be_tagged_as_this_clusters(kind: str) -> None:
    resource = ACCOUNT.arn("ec2", f"{kind}/*")
    for action in ("ec2:CreateFleet", "ec2:RunInstances"):
        assert may(action, resource, tags("Request"))
        assert not may(action, resource)
        assert not may(action, resource, tags("Request", cluster="other"))
    created = {**tags("Request"), "ec2:CreateAction": "CreateFleet"}
    assert may("ec2:CreateTags", resource, created)
    assert not may("ec2:CreateTags", resource, tags("Request")), "tags on what is there already: it could be claimed"


def test_the_tags_that_the_controller_writes_are_the_ones_that_the_policy_asks_for() -> None:
    written = tagging.launch_tags(
        cluster_name=CLUSTER, provisioner_name="default", settings_tags={}, template_tags={}, labels={},
        pod_density={}, subject="test",
    )  # fmt: skip
    context = {f"aws:RequestTag/{key}": value for key, value in written.items()}
    assert may("ec2:RunInstances", ACCOUNT.arn("ec2", "instance/*"), context)


@pytest.mark.parametrize(
    "resource",
    [
        "arn:aws:ec2:ap-northeast-2::image/ami-0123456789abcdef0",
        ACCOUNT.arn("ec2", "key-pair/admin"),
        ACCOUNT.arn("ec2", "spot-instances-request/*"),
    ],
)
def test_inputs_of_a_launch_need_no_tag(resource: str) -> None:
    assert may("ec2:RunInstances", resource)


@pytest.mark.parametrize("kind", ["subnet/subnet-0123456789abcdef0", "security-group/sg-0123456789abcdef0"])
def test_subnets_and_groups_of_a_launch_are_those_of_the_clusters_vpc(kind: str) -> None:
    resource = ACCOUNT.arn("ec2", kind)
    for action in ("ec2:CreateFleet", "ec2:RunInstances"):
        assert may(action, resource, {"ec2:Vpc": ACCOUNT.arn("ec2", f"vpc/{VPC}")})
        assert not may(action, resource, {"ec2:Vpc": ACCOUNT.arn("ec2", "vpc/vpc-0fedcba9876543210")})
        assert not may(action, resource)


def test_a_users_launch_template_may_name_a_key_pair_and_tag_network_interfaces_as_it_likes() -> None:
    interface, elsewhere = ACCOUNT.arn("ec2", "network-interface/*"), {"ec2:Vpc": ACCOUNT.arn("ec2", "vpc/vpc-0")}
    team = {"aws:RequestTag/team": "data"}
    for context in ({}, team, {"ec2:Vpc": ACCOUNT.arn("ec2", f"vpc/{VPC}")}):
        assert may("ec2:RunInstances", interface, context)
    assert may("ec2:CreateTags", interface, {**team, "ec2:CreateAction": "RunInstances"})
    assert not may("ec2:CreateTags", interface, team), "interfaces that are there already"
    assert not may("ec2:RunInstances", interface, elsewhere)
    assert not may("ec2:RunInstances", ACCOUNT.arn("ec2", "instance/*"), team), "the instance is still ours by its tags"


def test_only_own_and_discoverable_templates_are_launched_from() -> None:
    assert may("ec2:CreateFleet", TEMPLATE, tags("Resource"))
    assert may("ec2:CreateFleet", TEMPLATE, {"aws:ResourceTag/karpenter.sh/discovery": CLUSTER})
    assert not may("ec2:CreateFleet", TEMPLATE)
    assert not may("ec2:CreateFleet", TEMPLATE, tags("Resource", cluster="other"))


def test_an_instance_without_our_tags_cannot_be_terminated() -> None:
    assert not may("ec2:TerminateInstances", INSTANCE)
    assert not may("ec2:TerminateInstances", INSTANCE, {"aws:ResourceTag/Name": "karpenter.sh/provisioner-name/x"})
    assert not may("ec2:TerminateInstances", INSTANCE, {"aws:ResourceTag/karpenter.sh/provisioner-name": "default"})
    assert not may("ec2:TerminateInstances", INSTANCE, tags("Resource", cluster="other"))


@pytest.mark.parametrize(
    ("scope", "context", "foreign"),
    [
        ("provisioner", {"aws:ResourceTag/karpenter.sh/provisioner-name": "x"}, {"aws:ResourceTag/Name": "karpenter"}),
        ("name", {"aws:ResourceTag/Name": "a-karpenter-node"}, {"aws:ResourceTag/Name": "database"}),
    ],
)
def test_the_guides_wider_scopes_of_termination_are_a_choice(
    scope: str, context: dict[str, str], foreign: dict[str, str]
) -> None:
    changes = {"terminate_scope": scope, "terminate_name_pattern": "*karpenter*"}
    assert may("ec2:TerminateInstances", INSTANCE, context, **changes)
    assert not may("ec2:TerminateInstances", INSTANCE, foreign, **changes)
    assert may("ec2:TerminateInstances", INSTANCE, foreign, terminate_scope="any")


def test_only_the_node_role_is_passed_and_only_to_ec2() -> None:
    to_ec2 = {"iam:PassedToService": "ec2.amazonaws.com"}
    assert may("iam:PassRole", NODE_ROLE, to_ec2)
    assert not may("iam:PassRole", NODE_ROLE, {"iam:PassedToService": "lambda.amazonaws.com"})
    assert not may("iam:PassRole", NODE_ROLE)
    assert not may("iam:PassRole", ACCOUNT.iam_arn("role/Admin"), to_ec2)


def test_china_passes_the_role_to_its_own_name_of_ec2() -> None:
    account = Account("aws-cn", "111122223333", "cn-north-1")
    role = account.iam_arn("role/n")
    assert may(
        "iam:PassRole", role, {"iam:PassedToService": "ec2.amazonaws.com.cn"}, account=account, node_role_arn=role
    )


def test_reads_stay_in_the_region_and_out_of_private_parameters() -> None:
    assert not may("ec2:DescribeInstances", "*", {"aws:RequestedRegion": "us-east-1"})
    assert not may("ssm:GetParameter", ACCOUNT.arn("ssm", "parameter/prod/password"), REGION)
    assert not may("eks:DescribeCluster", ACCOUNT.arn("eks", "cluster/other"), REGION)
    assert not may(SHIFTS, "*", {"arc-zonal-shift:ResourceIdentifier": ACCOUNT.arn("eks", "cluster/other")})
    assert may("pricing:GetProducts", "*", {"aws:RequestedRegion": "ap-south-1"}), "the Pricing API is elsewhere"


def test_the_queue_is_the_stacks_and_absent_without_interruption() -> None:
    assert not may("sqs:ReceiveMessage", ACCOUNT.arn("sqs", "other"))
    assert not may("sqs:ReceiveMessage", QUEUE, queue_arn="")


@pytest.mark.parametrize("partition", ["aws", "aws-us-gov", "aws-cn"])
def test_policies_stay_below_iams_size_with_the_longest_names_and_in_their_partition(partition: str) -> None:
    account = Account(partition, "111122223333", "ap-northeast-2")
    given = grants(
        account=account,
        cluster="c" * 100,
        node_role_arn=account.iam_arn("role/" + "r" * 64),
        queue_arn=account.arn("sqs", "q" * 80),
        queue_key_arn=account.arn("kms", "key/" + "k" * 36),
    )
    for document in (launch_policy(given), read_policy(given)):
        text = compact(document)
        assert len(text) <= MAX_CHARACTERS
        assert text.count("arn:") == text.count(f"arn:{partition}:")


def test_statements_of_all_resources_are_only_those_that_know_none() -> None:
    statements = [*launch_policy(grants())["Statement"], *read_policy(grants())["Statement"]]
    assert {each["Sid"] for each in statements if each["Resource"] == ["*"]} == {
        "ReadRegion",
        "ReadPrices",
        "ReadZonalShifts",
    }
    sids = [each["Sid"] for each in statements]
    assert len(set(sids)) == len(sids)
