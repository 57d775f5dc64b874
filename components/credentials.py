"""Read the AWS provider's credentials from the stack's keys `aws:…`, as far as other processes can have them."""

from __future__ import annotations

from typing import Any

import pulumi

from components.documents.account import Account
from components.documents.credentials import SESSION, AssumedRole, Credentials
from controller.core.api.strict import Report

NOT_HANDED_ON = ("accessKey", "assumeRoleWithWebIdentity", "sharedConfigFiles", "sharedCredentialsFiles")
"""Secrets, or files of one machine: neither belongs into a stack's state or a kubeconfig."""


LISTS = {"assumeRoles": "[{roleArn: …}]", "endpoints": "[{ec2: https://…}]"}
"""Keys that are lists, and how they are written."""
ASKED = ("ec2", "eks", "sts")
"""Services that the sweep and a kubeconfig's token ask."""


def provider_credentials(account: Account, report: Report) -> Credentials:
    """The provider's profile, roles, endpoints and account. What is malformed becomes a problem of `report`."""
    profile = pulumi.Config("aws").get("profile") or ""
    return Credentials(account.id, account.region, profile, _roles(report), _endpoints(report))


def check_provider_keys(report: Report) -> None:
    """Problems of the keys `aws:…` that other processes are given as well, as far as they show without AWS."""
    _roles(report)
    _endpoints(report)
    if pulumi.Config("aws").get("assumeRole"):
        report.add("aws:assumeRole", "is not read by version 7 of the AWS provider", "write aws:assumeRoles: [{…}]")


def _endpoints(report: Report) -> tuple[tuple[str, str], ...]:
    """`aws:endpoints`: objects of URLs by service, of which those are kept that other processes ask."""
    given: dict[str, str] = {}
    for index, each in enumerate(_listed(pulumi.Config("aws"), "endpoints", report)):
        if not isinstance(each, dict) or not all(isinstance(url, str) for url in each.values()):
            report.add(f"aws:endpoints[{index}]", "must be an object of URLs by service", "write {ec2: https://…}")
            continue
        given |= {service: url for service, url in each.items() if service in ASKED}
    return tuple(sorted(given.items()))


def _roles(report: Report) -> tuple[AssumedRole, ...]:
    """The roles of `aws:assumeRoles`."""
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
        report.add(f"aws:{name}", "is no list", f"write {LISTS[name]}")
        return []
    return listed
