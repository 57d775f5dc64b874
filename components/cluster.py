"""A new EKS cluster: no node groups, access entries; and the OIDC provider of a new or an existing one."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components.documents.names import bounded
from components.documents.policy import compact, service_trust
from components.role import Role


class NewClusterArgs(TypedDict):
    """The control plane."""

    cluster_name: str
    """Name of the cluster."""
    version: str
    """Kubernetes version."""
    subnet_ids: Sequence[str]
    """Subnets of the control plane."""
    role_arn: str
    """What the ARN of its role will be."""
    cluster_policy_arn: str
    """AmazonEKSClusterPolicy in this partition."""
    admin_policy_arn: str
    """The access policy AmazonEKSClusterAdminPolicy in this partition."""
    admin_principal_arns: NotRequired[Sequence[str]]
    """Principals that get it."""
    public_access_cidrs: NotRequired[Sequence[str]]
    """Networks that may reach the public endpoint; none: it is private."""
    log_types: NotRequired[Sequence[str]]
    """Control plane logs."""
    secrets_key_arn: NotRequired[str]
    """KMS key of Secrets."""
    deletion_protection: NotRequired[bool]
    """Refuse to delete it."""
    path: NotRequired[str]
    """IAM path of its role."""
    permissions_boundary_arn: NotRequired[str]
    """Policy that bounds its role."""


def control_plane_role_name(cluster: str) -> str:
    """Name of the role of a cluster's control plane."""
    return bounded(f"{cluster}-control-plane")


class NewCluster(pulumi.ComponentResource):
    """The control plane and its role; its creator is its first administrator."""

    cluster_name: pulumi.Output[str]
    """Name, once the cluster is there."""
    endpoint: pulumi.Output[str]
    """URL of the Kubernetes API."""
    certificate_authority_data: pulumi.Output[str]
    """Base64."""
    issuer: pulumi.Output[str]
    """URL of its OIDC issuer."""
    vpc_id: pulumi.Output[str]
    """VPC of its subnets."""
    security_group_id: pulumi.Output[str]
    """The group that EKS makes, and Fargate pods carry."""

    def __init__(self, name: str, args: NewClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("nodeless:index:NewCluster", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = Role(
            f"{name}-control-plane",
            {
                "role_name": control_plane_role_name(args["cluster_name"]),
                "arn": args["role_arn"],
                "trust_policy": compact(service_trust("eks.amazonaws.com")),
                "path": args.get("path", "/"),
                "permissions_boundary_arn": args.get("permissions_boundary_arn", ""),
                "managed_policy_arns": [args["cluster_policy_arn"]],
            },
            opts=child,
        )
        cluster = self._cluster(name, args, role)
        for arn in args.get("admin_principal_arns", ()):
            self._admin(f"{name}-admin-{arn.rsplit('/', 1)[-1]}", cluster, arn, args["admin_policy_arn"])
        self.cluster_name = cluster.name
        self.endpoint = cluster.endpoint
        self.certificate_authority_data = cluster.certificate_authority.apply(lambda it: it.data or "")
        self.issuer = cluster.identities.apply(lambda identities: (identities[0].oidcs or [])[0].issuer or "")
        self.vpc_id = cluster.vpc_config.apply(lambda it: it.vpc_id or "")
        self.security_group_id = cluster.vpc_config.apply(lambda it: it.cluster_security_group_id or "")
        self.register_outputs({"cluster_name": self.cluster_name, "endpoint": self.endpoint, "issuer": self.issuer})

    def _cluster(self, name: str, args: NewClusterArgs, role: Role) -> aws.eks.Cluster:
        key = args.get("secrets_key_arn")
        cidrs = list(args.get("public_access_cidrs", ()))
        return aws.eks.Cluster(
            f"{name}-cluster",
            name=args["cluster_name"],
            version=args["version"],
            role_arn=role.arn,
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=list(args["subnet_ids"]),
                endpoint_private_access=True,
                endpoint_public_access=bool(cidrs),
                public_access_cidrs=cidrs or None,
            ),
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API_AND_CONFIG_MAP", bootstrap_cluster_creator_admin_permissions=True
            ),
            encryption_config=aws.eks.ClusterEncryptionConfigArgs(
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=key), resources=["secrets"]
            )
            if key
            else None,
            enabled_cluster_log_types=list(args.get("log_types", ())),
            deletion_protection=args.get("deletion_protection", False),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role]),
        )

    def _admin(self, name: str, cluster: aws.eks.Cluster, principal_arn: str, policy_arn: str) -> None:
        entry = aws.eks.AccessEntry(
            name, cluster_name=cluster.name, principal_arn=principal_arn, opts=pulumi.ResourceOptions(parent=self)
        )
        aws.eks.AccessPolicyAssociation(
            f"{name}-policy",
            cluster_name=cluster.name,
            principal_arn=entry.principal_arn,
            policy_arn=policy_arn,
            access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
            opts=pulumi.ResourceOptions(parent=self),
        )
