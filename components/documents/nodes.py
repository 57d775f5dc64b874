"""Policies of the nodes' role, and its entry in aws-auth."""

from __future__ import annotations

from typing import Any

import yaml

from components.documents.account import Account

POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonSSMManagedInstanceCore",
)
"""AWS-managed policies that an EKS node needs (EKS user guide, node IAM role); the last for Session Manager."""

GROUPS = ("system:bootstrappers", "system:nodes")
USERNAME = "system:node:{{EC2PrivateDNSName}}"
"""aws-iam-authenticator replaces the braces by the node's name."""


CNI_POLICY = "AmazonEKS_CNI_Policy"
"""Attach, detach and address network interfaces: the node's, unless the VPC CNI has a role of its own."""


def node_policy_arns(account: Account, extra: tuple[str, ...], *, cni: bool = True) -> tuple[str, ...]:
    """Every policy of the node role. `cni`: the VPC CNI acts as the node."""
    needed = (name for name in POLICIES if cni or name != CNI_POLICY)
    return (*(account.managed_policy_arn(name) for name in needed), *extra)


def with_node_role(map_roles: str, role_arn: str) -> str:
    """`mapRoles` of the ConfigMap aws-auth with the node role in it; every other entry is kept as it is.

    Raises ValueError when the present text is no list: better no change than one that locks people out.
    """
    entries = yaml.safe_load(map_roles) if map_roles.strip() else []
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError("mapRoles of the ConfigMap kube-system/aws-auth is no list of entries; repair it by hand")
    for entry in entries:
        if entry.get("rolearn") == role_arn:
            missing = [group for group in GROUPS if group not in (entry.get("groups") or [])]
            if not missing and entry.get("username") == USERNAME:
                return map_roles
            entry["groups"], entry["username"] = [*(entry.get("groups") or []), *missing], USERNAME
            return _dump(entries)
    return _dump([*entries, {"groups": list(GROUPS), "rolearn": role_arn, "username": USERNAME}])


def _dump(entries: list[dict[str, Any]]) -> str:
    return yaml.safe_dump(entries, sort_keys=False, width=4096)
