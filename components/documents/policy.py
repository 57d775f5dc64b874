"""The grammar of IAM policy documents (IAM JSON policy reference), and trust policies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.documents.account import Account

Statement = dict[str, Any]
Policy = dict[str, Any]

VERSION = "2012-10-17"
MAX_CHARACTERS = 6144
"""Of a customer-managed policy, white space not counted (IAM quotas)."""


def policy(*statements: Statement) -> Policy:
    """A policy document."""
    return {"Version": VERSION, "Statement": list(statements)}


def allow(
    sid: str,
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: Mapping[str, Mapping[str, Any]] | None = None,
) -> Statement:
    """A statement of an identity's policy."""
    statement: Statement = {"Sid": sid, "Effect": "Allow", "Action": sorted(actions), "Resource": sorted(resources)}
    if conditions:
        statement["Condition"] = {operator: dict(keys) for operator, keys in conditions.items()}
    return statement


def compact(document: Policy) -> str:
    """Without white space, which would count against some of IAM's quotas."""
    return json.dumps(document, separators=(",", ":"))


def service_trust(service: str, conditions: Mapping[str, Mapping[str, str]] | None = None) -> Policy:
    """Trust an AWS service, such as ec2.amazonaws.com."""
    statement: Statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    if conditions:
        statement["Condition"] = {operator: dict(keys) for operator, keys in conditions.items()}
    return policy(statement)


def service_account_trust(account: Account, issuer: str, namespace: str, name: str) -> Policy:
    """Trust one Kubernetes ServiceAccount, by the cluster's OIDC issuer (IRSA).

    `issuer` with or without https://. Both audience and subject are pinned: without `sub` every pod of the cluster
    could take the role.
    """
    host = issuer.removeprefix("https://")
    return policy(
        {
            "Effect": "Allow",
            "Principal": {"Federated": account.iam_arn(f"oidc-provider/{host}")},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {
                    f"{host}:aud": "sts.amazonaws.com",
                    f"{host}:sub": f"system:serviceaccount:{namespace}:{name}",
                }
            },
        }
    )


def fargate_trust(account: Account, cluster: str) -> Policy:
    """Trust Fargate pods of this cluster alone: without SourceArn any profile of the account could use the role."""
    profiles = account.arn("eks", f"fargateprofile/{cluster}/*")
    return service_trust("eks-fargate-pods.amazonaws.com", {"ArnLike": {"aws:SourceArn": profiles}})
