"""What is there already: the account, and of an existing cluster what the stack builds on.

Asked once, at the edge, before anything is declared, so that what does not fit is said at preview, all at once, with
its key path. These are Pulumi's own look-ups, by the provider and the credentials that the stack runs with.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi_aws as aws

from components.config.schema import StackConfig
from components.documents.account import SUFFIXES, Account
from components.documents.controller_policy import DISCOVERY_TAG
from components.network import network, node_subnets, pod_subnets
from components.queries import or_none
from controller.core.api.strict import Report, did_you_mean
from controller.errors import ValidationError

STACK_TAG = "nodeless:stack"
"""On what an account has once, such as an OIDC provider: tells whether it is this stack's, or was there before."""
SPOT_ROLE = "AWSServiceRoleForEC2Spot"


@dataclass(frozen=True, slots=True)
class ExistingCluster:
    """An EKS cluster that was there before the stack."""

    endpoint: str
    certificate_authority_data: str
    issuer: str
    vpc_id: str
    subnet_ids: tuple[str, ...]
    security_group_id: str
    access_entries: bool
    """Its authentication mode takes access entries."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the stack meets."""

    account: Account
    cluster: ExistingCluster | None
    node_subnet_ids: tuple[str, ...]
    """Subnets to tag for discovery."""
    pod_subnet_ids: tuple[str, ...]
    """Private subnets of Fargate pods."""
    node_group_id: str
    """Security group to tag; empty: none, or the one of a cluster that is yet to be made."""
    foreign_oidc_provider: bool
    """The OIDC provider is there, and not this stack's."""
    foreign_spot_role: bool
    """So is the spot service-linked role."""


def look_up(config: StackConfig, stack_tag: str) -> Surroundings:
    """Raises ValidationError with everything that does not fit."""
    report = Report()
    region = aws.get_region().region
    partition = aws.get_partition().partition
    if partition not in SUFFIXES:
        report.add("aws:region", f"{region} is in partition {partition}", f"known: {', '.join(SUFFIXES)}")
    account = Account(partition, aws.get_caller_identity().account_id, region)
    cluster = None if config.cluster.create else _existing(config.cluster.name, account, report)
    if report.problems:
        raise ValidationError("Stack in its account", report.problems)
    ground = network(config, cluster.vpc_id if cluster else "", cluster.subnet_ids if cluster else (), report)
    found = Surroundings(
        account=account,
        cluster=cluster,
        node_subnet_ids=node_subnets(config, ground, report),
        pod_subnet_ids=pod_subnets(config, ground, report),
        node_group_id=_node_group(config, cluster, report),
        foreign_oidc_provider=cluster is not None and _foreign_provider(cluster.issuer, stack_tag),
        foreign_spot_role=_foreign_spot_role(stack_tag),
    )
    _check_join(config, cluster, report)
    if report.problems:
        raise ValidationError("Stack in its account", report.problems)
    return found


def _existing(name: str, account: Account, report: Report) -> ExistingCluster | None:
    found = or_none(lambda: aws.eks.get_cluster(name=name))
    if found is None:
        known = aws.eks.get_clusters().names
        remedy = did_you_mean(name, known) if known else "give cluster.create to have it made"
        report.add("cluster.name", f"there is no EKS cluster {name!r} in {account.region}", remedy)
        return None
    issuer = found.identities[0].oidcs[0].issuer if found.identities and found.identities[0].oidcs else ""
    if not issuer:
        report.add("cluster.name", f"cluster {name!r} has no OIDC issuer", "pods need it to take IAM roles")
    modes = [each.authentication_mode for each in found.access_configs]
    network = found.vpc_config
    return ExistingCluster(
        endpoint=found.endpoint,
        certificate_authority_data=found.certificate_authorities[0].data if found.certificate_authorities else "",
        issuer=issuer,
        vpc_id=network.vpc_id,
        subnet_ids=tuple(network.subnet_ids),
        security_group_id=network.cluster_security_group_id,
        access_entries=any(mode in ("API", "API_AND_CONFIG_MAP") for mode in modes),
    )


def _node_group(config: StackConfig, cluster: ExistingCluster | None, report: Report) -> str:
    wanted, path = config.discovery.security_group, "discovery.securityGroup"
    if cluster is None:
        return wanted if wanted.startswith("sg-") else ""
    tagged = aws.ec2.get_security_groups(
        filters=[
            aws.ec2.GetSecurityGroupsFilterArgs(name="vpc-id", values=[cluster.vpc_id]),
            aws.ec2.GetSecurityGroupsFilterArgs(name=f"tag:{DISCOVERY_TAG}", values=[config.cluster.name]),
        ]
    ).ids
    if wanted == "none":
        if len(tagged) != 1:
            report.add(path, f"is `none`, but {len(tagged)} groups carry the discovery tag", "tag exactly one")
        return ""
    chosen = cluster.security_group_id if wanted == "cluster" else wanted
    if wanted.startswith("nodeGroup/"):
        chosen = _launch_template_group(config.cluster.name, wanted.removeprefix("nodeGroup/"), path, report)
    others = sorted(set(tagged) - {chosen})
    if others and chosen:
        report.add(path, f"{', '.join(others)} would be tagged beside {chosen}", "untag it, or choose it here")
    return chosen


def _launch_template_group(cluster: str, name: str, path: str, report: Report) -> str:
    group = or_none(lambda: aws.eks.get_node_group(cluster, name))
    if group is None:
        report.add(path, f"the cluster has no node group {name!r}")
        return ""
    templates = [or_none(lambda id=each.id: aws.ec2.get_launch_template(id=id)) for each in group.launch_templates]  # type: ignore[misc]
    groups = [
        security_group
        for template in templates
        if template is not None
        for security_group in [
            *template.vpc_security_group_ids,
            *(member for interface in template.network_interfaces for member in interface.security_groups),
        ]
    ]
    if len(set(groups)) != 1:
        report.add(path, f"node group {name!r} has {len(set(groups))} groups in its launch template", "name one by id")
        return ""
    return str(groups[0])


def _check_join(config: StackConfig, cluster: ExistingCluster | None, report: Report) -> None:
    if config.identity.node_join == "accessEntry" and cluster is not None and not cluster.access_entries:
        message = "the cluster authenticates by the ConfigMap alone"
        report.add("identity.nodeJoin", message, "use `awsAuth`, or raise its authentication mode")


def _foreign_provider(issuer: str, stack_tag: str) -> bool:
    found = or_none(lambda: aws.iam.get_open_id_connect_provider(url=issuer))
    return found is not None and found.tags.get(STACK_TAG) != stack_tag


def _foreign_spot_role(stack_tag: str) -> bool:
    found = or_none(lambda: aws.iam.get_role(name=SPOT_ROLE))
    return found is not None and found.tags.get(STACK_TAG) != stack_tag
