"""What a stack makes under a name that an account or a cluster has once: made twice, AWS refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from components.config.schema import StackConfig
from components.documents import fargate
from components.documents.account import Account
from components.documents.names import bounded

ROLE: Final = "aws:iam/role:Role"
PROFILE: Final = "aws:iam/instanceProfile:InstanceProfile"
POLICY: Final = "aws:iam/policy:Policy"
QUEUE: Final = "aws:sqs/queue:Queue"
FARGATE: Final = "aws:eks/fargateProfile:FargateProfile"
ENTRY: Final = "aws:eks/accessEntry:AccessEntry"
ADDON: Final = "aws:eks/addon:Addon"
LOG_GROUP: Final = "aws:cloudwatch/logGroup:LogGroup"
REPOSITORY: Final = "aws:ecr/repository:Repository"


@dataclass(frozen=True, slots=True)
class Named:
    """One of them."""

    type: str
    """Pulumi's token."""
    logical: str
    """Its name in the program."""
    name: str
    """Its name, in the form in which AWS is asked: of a policy its ARN, of what a cluster has CLUSTER:NAME."""
    path: str
    """The configuration key that names it, or leaves it out."""


def controller_policies(config: StackConfig) -> tuple[str, str]:
    """Names of the controller's policies: launching, reading. They follow a role name of the user's own."""
    own = config.identity.controller_role_name
    if own:
        return f"{own}-launch", f"{own}-read"
    cluster = config.cluster.name
    return f"KarpenterControllerPolicy-{cluster}", f"KarpenterControllerReadPolicy-{cluster}"


def control_plane_role_name(cluster: str) -> str:
    """Name of the role of a new cluster's control plane."""
    return bounded(f"{cluster}-control-plane")


def repository_name(config: StackConfig) -> str:
    """The repository of a controller image that the stack builds; empty where it builds none."""
    build = config.controller.build
    return (build.repository or f"nodeless/{config.cluster.name}".lower()) if build else ""


def named(config: StackConfig, account: Account, *, by_access_entry: bool) -> Iterator[Named]:
    """All that the stack makes besides the cluster. `by_access_entry`: so are its nodes admitted."""
    identity, cluster = config.identity, config.cluster.name
    yield Named(ROLE, "nodes-role", config.node_role_name, "identity.nodeRoleName")
    yield Named(PROFILE, "nodes-instance-profile", config.instance_profile_name, "identity.instanceProfileName")
    yield Named(ROLE, "controller-identity-role", config.controller_role_name, "identity.controllerRoleName")
    for policy in controller_policies(config):
        arn = account.iam_arn(f"policy{identity.path}{policy}")
        yield Named(POLICY, f"controller-identity-{policy}", arn, "identity.controllerRoleName")
    if by_access_entry:
        principal = account.role_arn(config.node_role_name, identity.path)
        yield Named(ENTRY, "node-access-entry", f"{cluster}:{principal}", "identity.nodeJoin")
    if config.interruption.enabled:
        yield Named(QUEUE, "interruption-queue", config.queue_name, "interruption.queueName")
    if repository := repository_name(config):
        yield Named(REPOSITORY, "image-repository", repository, "controller.build.repository")
    if config.cluster.create:
        name = control_plane_role_name(cluster)
        yield Named(ROLE, "cluster-control-plane-role", name, "cluster.create")
    yield from _fargate(config)
    yield from _addons(config, account)


def _fargate(config: StackConfig) -> Iterator[Named]:
    if not config.fargate.enabled:
        return
    yield Named(ROLE, "fargate-identity-role", config.pod_execution_role_name, "fargate.podExecutionRoleName")
    in_fargate = config.controller.placement == "fargate"
    for profile in fargate.profiles(config.fargate, config.controller.namespace, in_fargate=in_fargate):
        yield Named(FARGATE, f"fargate-{profile}", f"{config.cluster.name}:{profile}", "fargate")
    if config.fargate.logging:
        name = fargate.log_group(config.cluster.name)
        yield Named(LOG_GROUP, "fargate-logging-log-group", name, "fargate.logging")


def _addons(config: StackConfig, account: Account) -> Iterator[Named]:
    chosen, cluster = config.addons, config.cluster.name
    managed = {
        "vpc-cni": ("addons.vpcCni", chosen.vpc_cni),
        "kube-proxy": ("addons.kubeProxy", chosen.kube_proxy),
        "coredns": ("addons.coreDns", chosen.core_dns),
        "aws-ebs-csi-driver": ("addons.ebsCsi", chosen.ebs_csi),
    }
    for addon, (path, section) in managed.items():
        if section:
            yield Named(ADDON, f"{addon}-addon", f"{cluster}:{addon}", path)
    roles: dict[str, tuple[str, object, tuple[str, ...]]] = {
        "vpc-cni": ("addons.vpcCni", chosen.vpc_cni, ()),
        "ebs-csi": ("addons.ebsCsi", chosen.ebs_csi, ()),
        "load-balancer-controller": (
            "addons.loadBalancerController",
            chosen.load_balancer_controller,
            ("load-balancer-controller", "load-balancer-listeners"),
        ),
        "external-dns": ("addons.externalDns", chosen.external_dns, ("external-dns",)),
    }
    for addon, (path, wanted, policies) in roles.items():
        if not wanted:
            continue
        yield Named(ROLE, f"{addon}-identity-role", bounded(f"{addon}-{cluster}"), path)
        for policy in policies:
            arn = account.iam_arn(f"policy{config.identity.path}{policy}-{cluster}")
            yield Named(POLICY, f"{addon}-identity-{policy}-{cluster}", arn, path)
