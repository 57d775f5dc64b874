"""Removes what nodes of a cluster left behind in EC2; `pulumi destroy` runs it when the Provisioners are gone.

    uv run python scripts/sweep.py --cluster NAME --region REGION --account ID [--profile NAME] [--dry-run]

It acts with the credentials of the stack's AWS provider, which the stack hands it as --profile and --assume-role, and
refuses to when they are of another account than --account: that one may have a cluster of the same name.

Instances and launch templates go that carry the controller's own tags, and network interfaces that the VPC CNI made for
nodes which are no more. Nothing else is touched: instances of node groups don't carry the tags. Run it again after a
failure: what is gone is not looked for. Needs ec2:Describe{Instances,LaunchTemplates,NetworkInterfaces},
ec2:TerminateInstances, ec2:DeleteLaunchTemplate and ec2:DeleteNetworkInterface of whoever runs it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import boto3
import click
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")
TERMINATE_AT_ONCE = 100
"""Instances a call: EC2 recommends fewer than 1,000, and one that cannot go fails its whole call."""


class Role(click.ParamType):  # type: ignore[type-arg]
    """One of aws:assumeRoles as JSON, or an ARN alone."""

    name = "arn|json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        """The arguments of AssumeRole."""
        if value.startswith("arn:"):
            return {"RoleArn": value, "RoleSessionName": "nodeless"}
        try:
            role = json.loads(value)
            arguments = {"RoleArn": role["roleArn"], "RoleSessionName": role.get("sessionName", "nodeless")}
        except (ValueError, KeyError, TypeError, AttributeError):
            self.fail(f'{value!r} is no role; write an ARN, or {{"roleArn": "…", "externalId": "…"}}', param, ctx)
        return {**arguments, **({"ExternalId": role["externalId"]} if role.get("externalId") else {})}


@click.command(help=__doc__)
@click.option("--cluster", required=True, help="The cluster's name.")
@click.option("--region", required=True, help="Its region.")
@click.option("--account", required=True, help="Id of its account; credentials of another one are refused.")
@click.option("--profile", help="Profile of the AWS configuration, as aws:profile of the stack.")
@click.option("--assume-role", "roles", type=Role(), multiple=True, help="Assume this role; the next one from it.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
def main(
    cluster: str, region: str, account: str, profile: str | None, roles: Sequence[dict[str, str]], dry_run: bool
) -> None:
    """Sweep, and end with exit code 1 when something could not be removed."""
    try:
        session = _session(region, profile, roles)
        actual = session.client("sts").get_caller_identity()["Account"]
        if actual != account:
            remedy = "nothing was looked at; use the credentials that the stack is deployed with"
            raise click.ClickException(
                f"cluster {cluster} is in account {account}, and the credentials are of account {actual}; {remedy}"
            )
        failures = sweep(session.client("ec2"), cluster, dry_run=dry_run)
    except (ClientError, BotoCoreError) as error:
        raise click.ClickException(f"cluster {cluster} in {region}: {error}; mend it and run this again") from error
    for failure in failures:
        click.echo(f"Error: {failure}", err=True)
    sys.exit(bool(failures))


def _session(region: str, profile: str | None, roles: Sequence[dict[str, str]]) -> boto3.Session:
    """A session of the profile, or of the last role, each assumed from the one before it."""
    session = boto3.Session(profile_name=profile, region_name=region)
    for role in roles:
        given = session.client("sts").assume_role(**role)["Credentials"]
        session = boto3.Session(
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
            region_name=region,
        )
    return session


def sweep(ec2: EC2Client, cluster: str, *, dry_run: bool) -> list[str]:
    """Instances first, since the other two hang on them. Returns what could not be removed, a sentence each."""
    leftovers = {
        "instance": list(_instances(ec2, cluster)),
        "network interface": list(_interfaces(ec2, cluster)),
        "launch template": list(_launch_templates(ec2, cluster)),
    }
    for kind, ids in leftovers.items():
        click.echo(f"{kind}s left: {', '.join(ids) or 'none'}")
    if dry_run:
        return []
    failures = _terminate(ec2, leftovers["instance"])
    for interface in _interfaces(ec2, cluster):
        failures += _attempt(lambda id=interface: ec2.delete_network_interface(NetworkInterfaceId=id), interface)  # type: ignore[misc]
    for template in leftovers["launch template"]:
        failures += _attempt(lambda id=template: ec2.delete_launch_template(LaunchTemplateId=id), template)  # type: ignore[misc]
    return failures


def _instances(ec2: EC2Client, cluster: str) -> Iterator[str]:
    filters = [
        {"Name": f"tag:kubernetes.io/cluster/{cluster}", "Values": ["owned"]},
        {"Name": "tag-key", "Values": ["karpenter.sh/provisioner-name"]},
        {"Name": "instance-state-name", "Values": [*ALIVE]},
    ]
    return (instance["InstanceId"] for instance in _described(ec2, filters))


def _described(ec2: EC2Client, filters: list[Any]) -> Iterator[Any]:
    for page in ec2.get_paginator("describe_instances").paginate(Filters=filters):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def _interfaces(ec2: EC2Client, cluster: str) -> Iterator[str]:
    """Unattached interfaces of the VPC CNI whose node is gone; one that a living node is about to attach stays."""
    filters: list[Any] = [
        {"Name": "tag:cluster.k8s.amazonaws.com/name", "Values": [cluster]},
        {"Name": "tag-key", "Values": ["node.k8s.amazonaws.com/instance_id"]},
        {"Name": "status", "Values": ["available"]},
    ]
    pages = ec2.get_paginator("describe_network_interfaces").paginate(Filters=filters)
    nodes = {
        interface["NetworkInterfaceId"]: tag["Value"]
        for page in pages
        for interface in page["NetworkInterfaces"]
        for tag in interface["TagSet"]
        if tag["Key"] == "node.k8s.amazonaws.com/instance_id"
    }
    of_cluster: list[Any] = [
        {"Name": "tag-key", "Values": [f"kubernetes.io/cluster/{cluster}"]},
        {"Name": "instance-state-name", "Values": [*ALIVE]},
    ]
    alive = {instance["InstanceId"] for instance in _described(ec2, of_cluster)}
    return (interface for interface, node in sorted(nodes.items()) if node not in alive)


def _launch_templates(ec2: EC2Client, cluster: str) -> Iterator[str]:
    filters: list[Any] = [
        {"Name": "tag:karpenter.k8s.aws/cluster", "Values": [cluster]},
        {"Name": "tag:karpenter.sh/managed-by", "Values": ["nodeless"]},
    ]
    for page in ec2.get_paginator("describe_launch_templates").paginate(Filters=filters):
        yield from (template["LaunchTemplateId"] for template in page["LaunchTemplates"])


def _terminate(ec2: EC2Client, instances: list[str]) -> list[str]:
    failures = []
    for start in range(0, len(instances), TERMINATE_AT_ONCE):
        some = instances[start : start + TERMINATE_AT_ONCE]
        failures += _attempt(lambda some=some: ec2.terminate_instances(InstanceIds=some), ", ".join(some))  # type: ignore[misc]
    if instances and not failures:
        click.echo(f"waiting for {len(instances)} instances to end")
        ec2.get_waiter("instance_terminated").wait(InstanceIds=instances)
    return failures


def _attempt(remove: Callable[[], object], what: str) -> list[str]:
    try:
        remove()
    except ClientError as error:
        return [f"{what}: {error}; mend it and run this again"]
    click.echo(f"removed {what}")
    return []


if __name__ == "__main__":
    main()
