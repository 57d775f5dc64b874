"""Whose rights the AWS provider acts with, for what acts in its place: the sweep, and a kubeconfig's token.

Either takes the same profile and roles, and compares its account with the one that the provider saw: a cluster of the
same name in another account is nobody's to touch.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

SESSION = "nodeless"
"""Session name of an assumed role where the stack gives none."""


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """One of aws:assumeRoles."""

    arn: str
    session_name: str = SESSION
    external_id: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The provider's: a profile, roles assumed one from the other, and the account that they lead to."""

    account_id: str
    region: str
    profile: str = ""
    roles: tuple[AssumedRole, ...] = ()
    endpoints: tuple[tuple[str, str], ...] = ()
    """Name of a service, such as ec2, and the URL that it is asked at instead of its own."""

    @property
    def endpoint_variables(self) -> dict[str, str]:
        """The endpoints as the AWS CLI and boto3 read them from the environment."""
        return {f"AWS_ENDPOINT_URL_{service.upper()}": url for service, url in self.endpoints}


def sweep_command(cluster: str, credentials: Credentials) -> str:
    """scripts/sweep.py for a shell, from the project's folder."""
    variables = [f"{name}={url}" for name, url in credentials.endpoint_variables.items()]
    words = ["env", *variables] if variables else []
    words += ["uv", "run", "--locked", "python", "scripts/sweep.py", "--cluster", cluster]
    words += ["--region", credentials.region, "--account", credentials.account_id, *_profile(credentials)]
    for role in credentials.roles:
        members = {"roleArn": role.arn, "sessionName": role.session_name, "externalId": role.external_id}
        words += ["--assume-role", json.dumps({name: value for name, value in members.items() if value})]
    return shlex.join(words)


def token_script(cluster: str, credentials: Credentials) -> str:
    """A script for sh that prints a token of the cluster, as kubectl's exec plug-ins do; it needs the AWS CLI alone."""
    account, region = credentials.account_id, ["--region", credentials.region]
    ambient = [*region, *_profile(credentials)]
    lines = ["set -eu"]
    lines += [f"export {name}={shlex.quote(url)}" for name, url in credentials.endpoint_variables.items()]
    for role in credentials.roles:
        external = ["--external-id", role.external_id] if role.external_id else []
        lines += [
            _into("keys", "sts", "assume-role", "--role-arn", role.arn, "--role-session-name", role.session_name,
                  *external, *ambient, query="Credentials.[AccessKeyId,SecretAccessKey,SessionToken]"),
            "set -- $keys",
            'export AWS_ACCESS_KEY_ID="$1" AWS_SECRET_ACCESS_KEY="$2" AWS_SESSION_TOKEN="$3"',
            "unset AWS_PROFILE AWS_DEFAULT_PROFILE",
        ]  # fmt: skip
        ambient = region
    token = shlex.join(["aws", "eks", "get-token", "--cluster-name", cluster, *ambient, "--output", "json"])
    refusal = f"cluster {cluster} is in account {account}, and the AWS credentials are of account"
    return "\n".join(
        [
            *lines,
            _into("account", "sts", "get-caller-identity", *ambient, query="Account"),
            f'if [ "$account" != {account} ]; then echo {shlex.quote(refusal)} "$account" >&2; exit 1; fi',
            f"exec {token}",
        ]
    )


def _profile(credentials: Credentials) -> list[str]:
    """As an option: in the environment it would give way to keys that are there."""
    return ["--profile", credentials.profile] if credentials.profile else []


def _into(variable: str, *words: str, query: str) -> str:
    return f"{variable}=$({shlex.join(['aws', *words, '--query', query, '--output', 'text'])})"
