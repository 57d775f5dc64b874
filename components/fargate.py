"""Fargate: where system pods run without nodes."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components.objects import declare


class FargateProfilesArgs(TypedDict):
    """The profiles of a cluster."""

    cluster_name: pulumi.Input[str]
    """Name of the cluster."""
    pod_execution_role_arn: pulumi.Input[str]
    """Role that starts the pods."""
    subnet_ids: Sequence[str]
    """Private subnets."""
    profiles: Mapping[str, Sequence[Mapping[str, Any]]]
    """Selectors (namespace, labels) by name of the profile."""


class FargateProfiles(pulumi.ComponentResource):
    """Profiles one after the other: EKS refuses a second change while one is in progress."""

    profile_names: pulumi.Output[list[str]]
    """Names, once every profile is there."""

    def __init__(self, name: str, args: FargateProfilesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:FargateProfiles", name, {}, opts)
        before: list[pulumi.Resource] = []
        made: list[pulumi.Output[str]] = []
        for profile_name, selectors in args["profiles"].items():
            profile = aws.eks.FargateProfile(
                f"{name}-{profile_name}",
                cluster_name=args["cluster_name"],
                fargate_profile_name=profile_name,
                pod_execution_role_arn=args["pod_execution_role_arn"],
                subnet_ids=list(args["subnet_ids"]),
                selectors=[
                    aws.eks.FargateProfileSelectorArgs(namespace=each["namespace"], labels=each.get("labels"))
                    for each in selectors
                ],
                opts=pulumi.ResourceOptions(parent=self, depends_on=before),
            )
            before = [profile]
            made.append(profile.fargate_profile_name)
        self.profile_names = pulumi.Output.all(*made)
        self.register_outputs({"profile_names": self.profile_names})


class FargateLoggingArgs(TypedDict):
    """Logs of Fargate pods."""

    log_group_name: str
    """Where they go."""
    retention_days: int
    """How long they are kept."""
    objects: Mapping[str, Mapping[str, Any]]
    """The namespace and the ConfigMap that switch the log router on."""
    pod_execution_role_name: NotRequired[pulumi.Input[str]]
    """Role that is to write them."""
    policy: str
    """What it needs, as JSON."""


class FargateLogging(pulumi.ComponentResource):
    """Logging of Fargate pods to CloudWatch; pods that run already don't log there."""

    def __init__(self, name: str, args: FargateLoggingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:FargateLogging", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        aws.cloudwatch.LogGroup(
            f"{name}-log-group", name=args["log_group_name"], retention_in_days=args["retention_days"], opts=child
        )
        if "pod_execution_role_name" in args:
            aws.iam.RolePolicy(
                f"{name}-policy", role=args["pod_execution_role_name"], policy=args["policy"], opts=child
            )
        namespace = declare(f"{name}-namespace", args["objects"]["namespace"], child)
        after = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        declare(f"{name}-config-map", args["objects"]["config-map"], after)
        self.register_outputs({})
