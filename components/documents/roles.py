"""The IAM roles of a stack with their policies, whoever makes them: the program, or a user of `nodeless manifests`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.config.schema import StackConfig
from components.documents import addon_policies, controller_policy, fargate
from components.documents.account import Account
from components.documents.labels import NAME
from components.documents.named import controller_policies
from components.documents.names import bounded
from components.documents.nodes import CNI_POLICY, node_policy_arns
from components.documents.policy import Policy, fargate_trust, service_account_trust, service_trust
from controller.core.api.frozen import EMPTY

SYSTEM = "kube-system"
LOGGING_POLICY = "fargate-logging"
"""The one policy that is part of its role."""


@dataclass(frozen=True, slots=True)
class RoleDocument:
    """One role."""

    name: str
    arn: str
    """What it is, or will be."""
    path: str
    trusted: Policy | tuple[str, str]
    """Its trust policy; or namespace and name of the ServiceAccount whose pods take it."""
    managed_policy_arns: tuple[str, ...] = ()
    """Policies that exist already."""
    policies: Mapping[str, Policy] = EMPTY
    """Policies to make, by name."""
    inline_policies: Mapping[str, Policy] = EMPTY
    """Policies that are part of it."""

    def trust_policy(self, account: Account, issuer: str) -> Policy:
        """`issuer`: the cluster's OIDC issuer, with or without https://."""
        if isinstance(self.trusted, tuple):
            return service_account_trust(account, issuer, *self.trusted)
        return self.trusted


def roles(config: StackConfig, account: Account, vpc_id: str) -> tuple[RoleDocument, ...]:
    """All of them but a new cluster's own."""
    return (
        node_role(config, account),
        controller_role(config, account, vpc_id),
        *([fargate_role(config, account)] if config.fargate.enabled else []),
        *addon_roles(config, account).values(),
    )


def node_role(config: StackConfig, account: Account) -> RoleDocument:
    """The nodes'."""
    identity = config.identity
    return RoleDocument(
        name=config.node_role_name,
        arn=account.role_arn(config.node_role_name, identity.path),
        path=identity.path,
        trusted=service_trust(f"ec2.{account.dns_suffix}"),
        managed_policy_arns=node_policy_arns(account, identity.node_policy_arns, cni=config.addons.vpc_cni is None),
    )


def controller_role(config: StackConfig, account: Account, vpc_id: str) -> RoleDocument:
    """The controller's. `vpc_id`: the cluster's VPC, whose subnets and groups it may use."""
    identity = config.identity
    grants = controller_policy.ControllerGrants(
        account=account,
        cluster=config.cluster.name,
        node_role_arn=node_role(config, account).arn,
        vpc_id=vpc_id,
        queue_arn=account.arn("sqs", config.queue_name) if config.interruption.enabled else "",
        queue_key_arn=config.interruption.kms_key_arn,
        terminate_scope=identity.terminate_scope,
        terminate_name_pattern=identity.terminate_name_pattern,
    )
    launching, reading = controller_policies(config)
    return RoleDocument(
        name=config.controller_role_name,
        arn=controller_role_arn(config, account),
        path=identity.path,
        trusted=(config.controller.namespace, NAME),
        policies={
            launching: controller_policy.launch_policy(grants),
            reading: controller_policy.read_policy(grants),
        },
    )


def controller_role_arn(config: StackConfig, account: Account) -> str:
    """What the controller's ServiceAccount is annotated with."""
    return account.role_arn(config.controller_role_name, config.identity.path)


def fargate_role(config: StackConfig, account: Account) -> RoleDocument:
    """The one that starts pods on Fargate, and writes their logs."""
    name, cluster = config.pod_execution_role_name, config.cluster.name
    logs = {LOGGING_POLICY: fargate.logging_policy(account, cluster)} if config.fargate.logging else EMPTY
    return RoleDocument(
        name=name,
        arn=account.role_arn(name),
        path="/",
        trusted=fargate_trust(account, cluster),
        managed_policy_arns=(account.managed_policy_arn(fargate.POD_EXECUTION_POLICY),),
        inline_policies=logs,
    )


def addon_roles(config: StackConfig, account: Account) -> dict[str, RoleDocument]:
    """Those of the add-ons that the stack has switched on, by add-on."""
    chosen, cluster = config.addons, config.cluster.name
    found: dict[str, RoleDocument] = {}

    def add(addon: str, service_account: str, *managed: str, **policies: Policy) -> None:
        name = bounded(f"{addon}-{cluster}")
        found[addon] = RoleDocument(
            name=name,
            arn=account.role_arn(name, config.identity.path),
            path=config.identity.path,
            trusted=(SYSTEM, service_account),
            managed_policy_arns=tuple(map(account.managed_policy_arn, managed)),
            policies={f"{key}-{cluster}": document for key, document in policies.items()},
        )

    if chosen.vpc_cni:
        add("vpc-cni", "aws-node", CNI_POLICY)
    if chosen.ebs_csi:
        add("ebs-csi", "ebs-csi-controller-sa", "service-role/AmazonEBSCSIDriverPolicy")
    if chosen.load_balancer_controller:
        policies = {
            "load-balancer-controller": addon_policies.load_balancer_policy(account, cluster),
            "load-balancer-listeners": addon_policies.load_balancer_listener_policy(account, cluster),
        }
        add("load-balancer-controller", "aws-load-balancer-controller", **policies)
    if chosen.external_dns:
        records = addon_policies.external_dns_policy(account, chosen.external_dns.zone_id)
        add("external-dns", "external-dns", **{"external-dns": records})
    return found
