"""An IAM role with its policies."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws


class RoleArgs(TypedDict):
    """Who may assume the role, and what it may do."""

    role_name: str
    """Name of the role."""
    arn: str
    """What its ARN will be, so that a preview knows it before the role is made."""
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
    """A role. Whoever is not to act with half of its permissions depends on the component, and so on all it attaches.

    ARN and name are known beforehand: one more policy shows in a preview as that policy, not as a new role.
    """

    arn: pulumi.Output[str]
    """ARN."""
    role_name: pulumi.Output[str]
    """Name."""

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
        for arn in args.get("managed_policy_arns", ()):
            short = arn.rsplit("/", 1)[-1]
            aws.iam.RolePolicyAttachment(f"{name}-{short}", role=role.name, policy_arn=arn, opts=child)
        for policy_name, document in args.get("policies", {}).items():
            policy = aws.iam.Policy(f"{name}-{policy_name}", name=policy_name, path=path, policy=document, opts=child)
            aws.iam.RolePolicyAttachment(
                f"{name}-{policy_name}-attachment", role=role.name, policy_arn=policy.arn, opts=child
            )
        self.resource = role
        self.arn = pulumi.Output.from_input(args["arn"])
        self.role_name = pulumi.Output.from_input(args["role_name"])
        self.register_outputs({"arn": self.arn, "role_name": self.role_name})
