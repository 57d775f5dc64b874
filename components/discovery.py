"""Discovery tags, by which node templates find subnets and the security group."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components.documents.controller_policy import DISCOVERY_TAG


class DiscoveryTagsArgs(TypedDict):
    """What is tagged."""

    cluster_name: str
    """Value of the tag."""
    subnet_ids: Sequence[str]
    """Subnets that nodes may be launched in."""
    security_group_id: NotRequired[pulumi.Input[str]]
    """The nodes' only group: with two, load balancers don't know which to open."""


class DiscoveryTags(pulumi.ComponentResource):
    """One tag resource each, so that tags of others on the same subnet are left alone."""

    def __init__(self, name: str, args: DiscoveryTagsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:DiscoveryTags", name, {}, opts)
        targets: dict[str, pulumi.Input[str]] = {subnet_id: subnet_id for subnet_id in args["subnet_ids"]}
        if "security_group_id" in args:
            targets["security-group"] = args["security_group_id"]
        for suffix, resource_id in targets.items():
            aws.ec2.Tag(
                f"{name}-{suffix}",
                resource_id=resource_id,
                key=DISCOVERY_TAG,
                value=args["cluster_name"],
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})
