"""Read the AWS provider's credentials from the stack's keys `aws:…`, as far as other processes can have them."""

from __future__ import annotations

from typing import Any

import pulumi

from components.documents.account import Account
from components.documents.credentials import SESSION, AssumedRole, Credentials
from controller.core.api.strict import Report

NOT_HANDED_ON = ("accessKey", "assumeRoleWithWebIdentity", "sharedConfigFiles", "sharedCredentialsFiles")
"""Secrets, or files of one machine: neither belongs into a stack's state or a kubeconfig."""


def provider_credentials(account: Account, report: Report) -> Credentials:
    """The profile and the roles of the provider, and its account. A malformed role becomes a problem of `report`."""
    profile = pulumi.Config("aws").get("profile") or ""
    return Credentials(account.id, account.region, profile, assumed_roles(report))


def assumed_roles(report: Report) -> tuple[AssumedRole, ...]:
    """The roles of `aws:assumeRoles`, which become problems of `report` where they are none."""
    listed = _listed(pulumi.Config("aws"), "assumeRoles", report)
    roles = []
    for index, each in enumerate(listed):
        if not isinstance(each, dict) or not isinstance(each.get("roleArn"), str):
            report.add(f"aws:assumeRoles[{index}].roleArn", "is missing")
            continue
        role = AssumedRole(each["roleArn"], each.get("sessionName") or SESSION, each.get("externalId") or "")
        roles.append(role)
    return tuple(roles)


def credential_warnings() -> list[str]:
    """What the provider alone has, so that whoever runs the sweep or kubectl must have it in the environment."""
    config = pulumi.Config("aws")
    return [
        f"aws:{name} is not handed to scripts/sweep.py and the kubeconfig: they take the environment's credentials, "
        "and refuse those of another account; use aws:profile or aws:assumeRoles"
        for name in NOT_HANDED_ON
        if config.get(name)
    ]


def _listed(config: pulumi.Config, name: str, report: Report) -> list[Any]:
    try:
        listed = config.get_object(name) or []
    except pulumi.ConfigTypeError:
        listed = None
    if not isinstance(listed, list):
        report.add(f"aws:{name}", "is no list", "write [{roleArn: …}]")
        return []
    return listed
