"""What the controller may do in AWS: create only what is tagged as its own, destroy only its own, read the rest.

Keyed on the ownership tags that the controller writes on all that it launches. Source: Karpenter's scoped policies
from v0.29 on, with v1alpha5's tag names. Where we differ: instances and templates of other clusters of the account are
out of reach, templates that are not ours cannot be launched from unless they carry the discovery tag, subnets and
groups are those of the cluster's VPC, the queue is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.documents.account import Account
from components.documents.policy import Policy, Statement, allow, policy

PROVISIONER_TAG = "karpenter.sh/provisioner-name"
DISCOVERY_TAG = "karpenter.sh/discovery"

REGIONAL_READS = (
    "ec2:DescribeFleets",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
)
"""EC2's read actions have no resource types: IAM accepts only `*` for them."""
LAUNCHES = ("ec2:CreateFleet", "ec2:RunInstances")
TAGGED_AT_LAUNCH = ("fleet", "instance", "volume")
"""What CreateFleet's own tags go to; network interfaces get theirs from the launch template, which may be a user's."""


@dataclass(frozen=True, slots=True)
class ControllerGrants:
    """What the policy is about. `queue_arn` is empty without interruption handling."""

    account: Account
    cluster: str
    node_role_arn: str
    vpc_id: str
    queue_arn: str = ""
    queue_key_arn: str = ""
    terminate_scope: str = "owned"
    terminate_name_pattern: str = ""


def launch_policy(grants: ControllerGrants) -> Policy:
    """Creating and destroying."""
    account, owned = grants.account, _owned(grants.cluster, "ResourceTag")
    ours = _owned(grants.cluster, "RequestTag")
    created = [account.arn("ec2", f"{kind}/*") for kind in TAGGED_AT_LAUNCH]
    templates = [account.arn("ec2", "launch-template/*")]
    tagging = {**ours, "StringEquals": {**ours["StringEquals"], "ec2:CreateAction": ["CreateFleet", "RunInstances"]}}
    template_tagging = {**ours, "StringEquals": {**ours["StringEquals"], "ec2:CreateAction": "CreateLaunchTemplate"}}
    vpc = account.arn("ec2", f"vpc/{grants.vpc_id}")
    interfaces = [account.arn("ec2", "network-interface/*")]
    return policy(
        allow("LaunchFromSharedInputs", LAUNCHES, _inputs(account)),
        allow("LaunchInVpc", LAUNCHES, _network(account), {"ArnEquals": {"ec2:Vpc": vpc}}),
        # An interface that the launch makes is in one of these subnets anyway; IAM does not say that it knows its VPC.
        allow("LaunchWithInterfaces", LAUNCHES, interfaces, {"ArnEqualsIfExists": {"ec2:Vpc": vpc}}),
        allow("LaunchFromOwnTemplates", LAUNCHES, templates, owned),
        allow(
            "LaunchFromDiscoverableTemplates",
            LAUNCHES,
            templates,
            {"StringEquals": {f"aws:ResourceTag/{DISCOVERY_TAG}": grants.cluster}},
        ),
        allow("LaunchOnlyTagged", LAUNCHES, created, ours),
        allow("CreateOnlyTaggedTemplates", ["ec2:CreateLaunchTemplate"], templates, ours),
        allow("TagAtLaunch", ["ec2:CreateTags"], created, tagging),
        allow(
            "TagInterfacesAtLaunch",
            ["ec2:CreateTags"],
            interfaces,
            {"StringEquals": {"ec2:CreateAction": ["CreateFleet", "RunInstances"]}},
        ),
        allow("TagTemplates", ["ec2:CreateTags"], templates, template_tagging),
        allow("DeleteOwnTemplates", ["ec2:DeleteLaunchTemplate"], templates, owned),
        _termination(grants),
        allow(
            "PassNodeRoleToEC2",
            ["iam:PassRole"],
            [grants.node_role_arn],
            {"StringEquals": {"iam:PassedToService": sorted({"ec2.amazonaws.com", f"ec2.{account.dns_suffix}"})}},
        ),
    )


def read_policy(grants: ControllerGrants) -> Policy:
    """Looking up, and the interruption queue."""
    account = grants.account
    region = {"StringEquals": {"aws:RequestedRegion": account.region}}
    cluster = account.arn("eks", f"cluster/{grants.cluster}")
    statements = [
        allow("ReadRegion", REGIONAL_READS, ["*"], region),
        # The Pricing API serves few regions, and prices are no resources.
        allow("ReadPrices", ["pricing:GetProducts"], ["*"]),
        allow("ReadPublicParameters", ["ssm:GetParameter"], [account.public_arn("ssm", "parameter/aws/service/*")]),
        allow("ReadCluster", ["eks:DescribeCluster"], [cluster]),
        # IAM knows load balancers alone as resources of this action; others are named by its condition key.
        allow(
            "ReadZonalShifts",
            ["arc-zonal-shift:GetManagedResource"],
            ["*"],
            {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": cluster}},
        ),
    ]
    if grants.queue_arn:
        actions = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
        statements.append(allow("TakeInterruptions", actions, [grants.queue_arn]))
    if grants.queue_key_arn:
        statements.append(allow("DecryptInterruptions", ["kms:Decrypt"], [grants.queue_key_arn]))
    return policy(*statements)


def _owned(cluster: str, where: str) -> dict[str, dict[str, Any]]:
    """`where`: RequestTag for what is being made, ResourceTag for what is there."""
    return {
        "StringEquals": {f"aws:{where}/kubernetes.io/cluster/{cluster}": "owned"},
        "StringLike": {f"aws:{where}/{PROVISIONER_TAG}": "*"},
    }


def _inputs(account: Account) -> list[str]:
    """What a launch uses but does not make. Spot requests are here because CreateFleet leaves them untagged."""
    shared = ["capacity-reservation/*", "key-pair/*", "placement-group/*", "snapshot/*", "spot-instances-request/*"]
    public = ["image/*", "snapshot/*"]
    return [account.arn("ec2", each) for each in shared] + [account.public_arn("ec2", each) for each in public]


def _network(account: Account) -> list[str]:
    """Inputs whose VPC IAM knows (service authorization reference, EC2: condition key ec2:Vpc)."""
    return [account.arn("ec2", f"{kind}/*") for kind in ("security-group", "subnet")]


def _termination(grants: ControllerGrants) -> Statement:
    conditions: Mapping[str, Mapping[str, Any]] | None = {
        "owned": _owned(grants.cluster, "ResourceTag"),
        "provisioner": {"StringLike": {f"aws:ResourceTag/{PROVISIONER_TAG}": "*"}},
        "name": {"StringLike": {"aws:ResourceTag/Name": grants.terminate_name_pattern}},
        "any": None,
    }[grants.terminate_scope]
    return allow(
        "TerminateOwnInstances", ["ec2:TerminateInstances"], [grants.account.arn("ec2", "instance/*")], conditions
    )
