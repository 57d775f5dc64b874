"""A new EKS cluster, by `pulumi_eks.Cluster`: no node groups, access entries, an OIDC provider.

What is not taken from that component, and why (docs/adr/0073-a-new-cluster-is-made-by-pulumi-eks.md):

- Fargate profiles (`fargate`): it makes one, and CoreDNS with it, under a role without path and boundary; a stack has
  several, one after the other as EKS takes them.
- kube-proxy, the VPC CNI and CoreDNS: they are add-ons of a stack, with roles, versions and values of their own.
- The role of the control plane: its own has neither a path nor a boundary.
- Security groups: the one that EKS makes is what Fargate pods and nodes carry.
- Its kubeconfig: it knows none of the stack's assumed roles and endpoints.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from components.documents.named import control_plane_role_name
from components.documents.policy import compact, service_trust
from components.role import Role


class NewClusterArgs(TypedDict):
    """The control plane."""

    cluster_name: str
    """Name of the cluster."""
    version: str
    """Kubernetes version."""
    vpc_id: str
    """VPC of its subnets."""
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
    tags: NotRequired[Mapping[str, str]]
    """Tags of the cluster."""
    deletion_protection: NotRequired[bool]
    """Refuse to delete it."""
    path: NotRequired[str]
    """IAM path of its role."""
    permissions_boundary_arn: NotRequired[str]
    """Policy that bounds its role."""


class NewCluster(pulumi.ComponentResource):
    """The control plane, its role and its OIDC provider; its creator is its first administrator."""

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
            opts=pulumi.ResourceOptions(parent=self),
        )
        cluster = self._cluster(name, args, role)
        api = cluster.kubeconfig_json.apply(_api)
        self.cluster_name = api.apply(lambda _: args["cluster_name"])
        self.endpoint = api.apply(lambda it: str(it["server"]))
        self.certificate_authority_data = api.apply(lambda it: str(it["certificate-authority-data"]))
        self.issuer = cluster.oidc_provider_url
        self.vpc_id = pulumi.Output.from_input(args["vpc_id"])
        self.security_group_id = cluster.cluster_security_group_id
        self.register_outputs({"cluster_name": self.cluster_name, "endpoint": self.endpoint, "issuer": self.issuer})

    def _cluster(self, name: str, args: NewClusterArgs, role: Role) -> eks.Cluster:
        cidrs = list(args.get("public_access_cidrs", ()))
        policy = eks.AccessPolicyAssociationArgs(
            policy_arn=args["admin_policy_arn"],
            access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
        )
        return eks.Cluster(
            f"{name}-eks",
            name=args["cluster_name"],
            version=args["version"],
            vpc_id=args["vpc_id"],
            subnet_ids=list(args["subnet_ids"]),
            service_role=role.resource,
            endpoint_private_access=True,
            endpoint_public_access=bool(cidrs),
            public_access_cidrs=cidrs or None,
            authentication_mode=eks.AuthenticationMode.API,
            access_entries={
                _entry_name(arn): eks.AccessEntryArgs(principal_arn=arn, access_policies={"admin": policy})
                for arn in args.get("admin_principal_arns", ())
            },
            create_oidc_provider=True,
            encryption_config_key_arn=args.get("secrets_key_arn") or None,
            enabled_cluster_log_types=list(args.get("log_types", ())),
            cluster_tags=dict(args.get("tags", {})),
            deletion_protection=args.get("deletion_protection", False),
            skip_default_node_group=True,
            skip_default_security_groups=True,
            use_default_vpc_cni=True,
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role]),
        )


def _api(kubeconfig: str) -> dict[str, Any]:
    """Where the API is, by the component's kubeconfig: it is there once the API answers."""
    cluster: dict[str, Any] = json.loads(kubeconfig)["clusters"][0]["cluster"]
    return cluster


def _entry_name(arn: str) -> str:
    """A name of its own for each principal: account, kind, path and name."""
    return arn.split(":", 4)[-1].replace(":", "-").replace("/", "-")
