"""An IAM role with its policies."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws


class RoleArgs(TypedDict):
    """Who may assume the role, and what it may do."""

    role_name: str
    """Name of the role."""
    trust_policy: pulumi.Input[str]
    """Trust policy, as JSON."""
    path: NotRequired[str]
    """IAM path of the role and of its policies."""
    permissions_boundary_arn: NotRequired[str]
    """Policy that bounds it."""
    managed_policy_arns: NotRequired[Sequence[str]]
    """Policies that exist already."""
    policies: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Policies to make, as JSON by name."""


class Role(pulumi.ComponentResource):
    """A role whose `arn` resolves once every policy is attached, so that nobody acts with half of its permissions."""

    arn: pulumi.Output[str]
    """ARN, after all policies are attached."""
    role_name: pulumi.Output[str]
    """Name, after all policies are attached."""

    def __init__(self, name: str, args: RoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:Role", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        path = args.get("path", "/")
        role = aws.iam.Role(
            f"{name}-role",
            name=args["role_name"],
            path=path,
            assume_role_policy=args["trust_policy"],
            permissions_boundary=args.get("permissions_boundary_arn") or None,
            opts=child,
        )
        attached: list[pulumi.Output[str]] = []
        for arn in args.get("managed_policy_arns", ()):
            short = arn.rsplit("/", 1)[-1]
            attachment = aws.iam.RolePolicyAttachment(f"{name}-{short}", role=role.name, policy_arn=arn, opts=child)
            attached.append(attachment.id)
        for policy_name, document in args.get("policies", {}).items():
            policy = aws.iam.Policy(f"{name}-{policy_name}", name=policy_name, path=path, policy=document, opts=child)
            attachment = aws.iam.RolePolicyAttachment(
                f"{name}-{policy_name}-attachment", role=role.name, policy_arn=policy.arn, opts=child
            )
            attached.append(attachment.id)
        self.arn = pulumi.Output.all(role.arn, *attached).apply(lambda values: str(values[0]))
        self.role_name = pulumi.Output.all(role.name, *attached).apply(lambda values: str(values[0]))
        self.register_outputs({"arn": self.arn, "role_name": self.role_name})
