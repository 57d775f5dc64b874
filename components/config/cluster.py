"""Keys on the cluster itself, on who its nodes are, and on where its pods run without nodes."""

from __future__ import annotations

from typing import Final

from components.config.keys import key, section
from controller.core.api.frozen import EMPTY, FrozenMap

ARN: Final = r"arn:(aws|aws-us-gov|aws-cn):[a-z0-9-]+:[a-z0-9-]*:(\d{12}|aws)?:.+"
"""The account is `aws` in the ARNs of AWS's own policies."""
ARN_FORM: Final = "a full ARN, such as arn:aws:iam::111122223333:policy/Boundary"
SUBNET: Final = r"subnet-[0-9a-f]{8,17}"
SUBNET_FORM: Final = "a subnet's id, such as subnet-0123456789abcdef0"
GROUP: Final = r"sg-[0-9a-f]{8,17}"
GROUP_FORM: Final = "a security group's id, such as sg-0123456789abcdef0"


@section
class NewCluster:
    """A cluster that the stack creates: no node groups, an OIDC issuer, access entries."""

    version: str = key("Kubernetes version.", pattern=r"1\.\d\d", form='major.minor in quotes, such as "1.35"')
    subnet_ids: tuple[str, ...] = key(
        "Subnets of the control plane and the pods, in two zones at least; private ones with a way out (NAT or VPC "
        "endpoints for EC2, ECR, EKS, S3, SQS, SSM and STS).",
        pattern=SUBNET,
        form=SUBNET_FORM,
    )
    public_access_cidrs: tuple[str, ...] = key(
        "Networks that may reach the public endpoint; empty: the endpoint is private.",
        default=(),
        pattern=r"[0-9.]+/\d{1,2}",
        form="a CIDR block, such as 203.0.113.0/24",
    )
    log_types: tuple[str, ...] = key(
        "Control plane logs to send to CloudWatch.",
        default=("api", "audit", "authenticator"),
        allowed=("api", "audit", "authenticator", "controllerManager", "scheduler"),
    )
    admin_principal_arns: tuple[str, ...] = key(
        "IAM principals that get cluster-admin by an access entry, besides whoever runs the stack.",
        default=(),
        pattern=ARN,
        form=ARN_FORM,
    )
    secrets_key_arn: str = key(
        "KMS key that Kubernetes Secrets are encrypted with.", default="", pattern=ARN, form=ARN_FORM
    )
    deletion_protection: bool = key("Refuse to delete the cluster.", default=False)


@section
class ClusterConfig:
    """The EKS cluster: an existing one by name, or a new one."""

    name: str = key(
        "Name of the EKS cluster; all other names derive from it.",
        pattern=r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}",
        form="letters, digits, - and _, at most 100",
    )
    create: NewCluster | None = key("Create the cluster; absent: it exists already and is looked up.", default=None)
    kubeconfig: str = key(
        "Path of a kubeconfig; empty: made from the cluster's endpoint, with a token by `aws eks get-token`.",
        default="",
    )


@section
class DiscoveryConfig:
    """What gets the tag `karpenter.sh/discovery: CLUSTER`, by which node templates find subnets and groups."""

    subnet_ids: tuple[str, ...] = key("Subnets, by id.", default=(), pattern=SUBNET, form=SUBNET_FORM)
    subnet_tags: FrozenMap[str, str] = key(
        "Subnets of the cluster's VPC that carry all of these tags; `*` stands for any value.", default=EMPTY
    )
    vpc_name: str = key(
        "Subnets of the VPC whose tag Name is this, which has to be the cluster's; subnetTags narrow them down.",
        default="",
    )
    node_groups: tuple[str, ...] = key("The subnets of these managed node groups of the cluster.", default=())
    public_subnets: bool = key(
        "Tag public subnets too (those that give public addresses). By default only private ones are.", default=False
    )
    security_group: str = key(
        "The one group to tag: `cluster` (the cluster's own, which Fargate pods carry), a group's id, "
        "`nodeGroup/NAME` (the group in that node group's launch template), or `none` (it is tagged already).",
        default="cluster",
        pattern=rf"cluster|none|{GROUP}|nodeGroup/[0-9A-Za-z][0-9A-Za-z_-]*",
        form=f"cluster, none, nodeGroup/NAME or {GROUP_FORM}",
    )


@section
class IdentityConfig:
    """IAM roles of the nodes and of the controller."""

    node_role_name: str = key("Role of the nodes; empty: KarpenterNodeRole-CLUSTER.", default="")
    instance_profile_name: str = key(
        "Instance profile of the nodes; empty: KarpenterNodeInstanceProfile-CLUSTER.", default=""
    )
    controller_role_name: str = key("Role of the controller; empty: KarpenterControllerRole-CLUSTER.", default="")
    path: str = key(
        "IAM path of roles, policies and the profile.", default="/", pattern=r"/(.{0,510}/)?", form="/team/"
    )
    permissions_boundary_arn: str = key(
        "Policy that bounds every role of the stack.", default="", pattern=ARN, form=ARN_FORM
    )
    node_policy_arns: tuple[str, ...] = key(
        "Policies of the nodes besides the four that EKS nodes need.", default=(), pattern=ARN, form=ARN_FORM
    )
    terminate_scope: str = key(
        "Instances that the controller may terminate: `owned` (tagged by this cluster's controller), `provisioner` "
        "(tagged with any Provisioner's name), `name` (by terminateNamePattern), or `any`.",
        default="owned",
        allowed=("owned", "provisioner", "name", "any"),
    )
    terminate_name_pattern: str = key("Name tags that terminateScope `name` allows.", default="*karpenter*")
    node_join: str = key(
        "How nodes are let into the cluster: `accessEntry`, `awsAuth` (the role is merged into that ConfigMap), "
        "`auto` (the first where the cluster's authentication mode allows), or `none`.",
        default="auto",
        allowed=("auto", "accessEntry", "awsAuth", "none"),
    )
    spot_service_linked_role: bool = key(
        "See to AWSServiceRoleForEC2Spot, which an account needs once for spot instances; an existing one is fine.",
        default=True,
    )


@section
class SelectorConfig:
    """Pods that a Fargate profile takes."""

    namespace: str = key("Namespace; `*` and `?` are wildcards.")
    labels: FrozenMap[str, str] = key("Labels that the pods must carry.", default=EMPTY)


@section
class ProfileConfig:
    """One more Fargate profile."""

    name: str = key(
        "Name of the profile.", pattern=r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}", form="letters, digits, - and _, at most 100"
    )
    selectors: tuple[SelectorConfig, ...] = key("One to five selectors.")


@section
class FargateConfig:
    """Where system pods run without nodes."""

    enabled: bool = key("Make the profiles `karpenter` and `kube-system`. Off: pods go to node groups.", default=True)
    subnet_ids: tuple[str, ...] = key(
        "Private subnets of the pods; empty: the cluster's own private ones.",
        default=(),
        pattern=SUBNET,
        form=SUBNET_FORM,
    )
    pod_execution_role_name: str = key(
        "Role that pulls images and writes logs for the pods; empty: NodelessFargatePodExecutionRole-CLUSTER.",
        default="",
    )
    profiles: tuple[ProfileConfig, ...] = key("Further profiles.", default=())
    logging: bool = key("Send the pods' logs to CloudWatch, log group /aws/eks/CLUSTER/fargate.", default=False)
    log_retention_days: int = key("How long they are kept.", default=30, minimum=1, maximum=3653)
