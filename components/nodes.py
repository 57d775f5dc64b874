"""The nodes' IAM role, and how it is admitted to the cluster."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components.documents.nodes import with_node_role
from components.role import Role


class NodeIdentityArgs(TypedDict):
    """The role of the nodes and its profile."""

    role_name: str
    """Name of the role."""
    role_arn: str
    """What its ARN will be."""
    instance_profile_name: str
    """Name of the instance profile."""
    trust_policy: str
    """EC2 of this partition, as JSON."""
    policy_arns: Sequence[str]
    """What nodes may do."""
    path: NotRequired[str]
    """IAM path of both."""
    permissions_boundary_arn: NotRequired[str]
    """Policy that bounds the role."""


class NodeIdentity(pulumi.ComponentResource):
    """The role and the instance profile that the controller launches instances with."""

    role_arn: pulumi.Output[str]
    """ARN of the role."""
    instance_profile_name: pulumi.Output[str]
    """Name of the profile."""

    def __init__(self, name: str, args: NodeIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:NodeIdentity", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        path = args.get("path", "/")
        role = Role(
            name,
            {
                "role_name": args["role_name"],
                "arn": args["role_arn"],
                "trust_policy": args["trust_policy"],
                "path": path,
                "permissions_boundary_arn": args.get("permissions_boundary_arn", ""),
                "managed_policy_arns": args["policy_arns"],
            },
            opts=child,
        )
        aws.iam.InstanceProfile(
            f"{name}-instance-profile",
            name=args["instance_profile_name"],
            path=path,
            role=args["role_name"],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role]),
        )
        self.role_arn = role.arn
        self.instance_profile_name = pulumi.Output.from_input(args["instance_profile_name"])
        self.register_outputs({"role_arn": self.role_arn, "instance_profile_name": self.instance_profile_name})


class NodeAccessArgs(TypedDict):
    """The role that the cluster admits as nodes."""

    cluster_name: pulumi.Input[str]
    """Name of the cluster."""
    role_arn: pulumi.Input[str]
    """Role of the nodes."""
    by_access_entry: bool
    """By an access entry; else by the ConfigMap aws-auth."""


class NodeAccess(pulumi.ComponentResource):
    """Admit the nodes' role: without it instances run, and the API server refuses their kubelets."""

    def __init__(self, name: str, args: NodeAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:NodeAccess", name, {}, opts)
        if args["by_access_entry"]:
            aws.eks.AccessEntry(
                f"{name}-entry",
                cluster_name=args["cluster_name"],
                principal_arn=args["role_arn"],
                type="EC2_LINUX",
                opts=pulumi.ResourceOptions(parent=self),
            )
        else:
            self._merge(name, args["role_arn"])
        self.register_outputs({})

    def _merge(self, name: str, role_arn: pulumi.Input[str]) -> None:
        """Add the role to aws-auth; other entries stay. Kept on destroy: giving up the field would empty it and lock
        people out."""
        present = kubernetes.core.v1.ConfigMap.get(
            f"{name}-present", "kube-system/aws-auth", opts=pulumi.ResourceOptions(parent=self)
        )
        merged = pulumi.Output.all(present.data, role_arn).apply(
            lambda data_and_arn: with_node_role((data_and_arn[0] or {}).get("mapRoles", ""), data_and_arn[1])
        )
        kubernetes.core.v1.ConfigMapPatch(
            f"{name}-aws-auth",
            metadata={
                "name": "aws-auth",
                "namespace": "kube-system",
                "annotations": {"pulumi.com/patchForce": "true"},
            },
            data={"mapRoles": merged},
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=True),
        )
