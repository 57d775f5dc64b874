"""Look up what the stack builds on: the account, an existing cluster, its network.

This happens once, before anything is declared, so that preview reports everything that does not fit together, with key
paths. The look-ups are Pulumi's own, by the provider and the credentials that the stack runs with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.config.load import Stack
from components.config.schema import StackConfig
from components.credentials import provider_credentials
from components.documents.account import SUFFIXES, Account
from components.documents.controller_policy import DISCOVERY_TAG
from components.documents.credentials import Credentials
from components.documents.manifests import Place, keyed_objects
from components.documents.named import named
from components.lookups.adoption import STACK_TAG, Found, existing
from components.lookups.cluster_objects import ClusterApi, UnansweredError, check_objects, definition_warnings
from components.lookups.network import network, node_subnets, pod_subnets
from components.lookups.queries import or_none
from controller.core.api.strict import Report, did_you_mean
from controller.errors import ValidationError

DEFINITIONS = ("provisioners.karpenter.sh", "awsnodetemplates.karpenter.k8s.aws")
SPOT_ROLE = "AWSServiceRoleForEC2Spot"


@dataclass(frozen=True, slots=True)
class ExistingCluster:
    """An EKS cluster that was there before the stack."""

    version: str
    """Of Kubernetes: major.minor."""
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
    """What exists before the stack is deployed."""

    account: Account
    credentials: Credentials
    """The provider's, for what acts in its place."""
    cluster: ExistingCluster | None
    vpc_id: str
    """VPC of the cluster, existing or new."""
    node_subnet_ids: tuple[str, ...]
    """Subnets to tag for discovery."""
    pod_subnet_ids: tuple[str, ...]
    """Private subnets of Fargate pods."""
    node_group_id: str
    """Security group to tag; empty: none, or the one of a cluster that is yet to be made."""
    foreign_oidc_provider: bool
    """The OIDC provider exists, and this stack did not make it."""
    foreign_spot_role: bool
    """The spot service-linked role exists, and this stack did not make it."""
    imported: Mapping[str, str]
    """Ids of what is there already and becomes the stack's, by logical name; what its state has is left alone."""


def kubernetes_version(config: StackConfig, there: Surroundings) -> str:
    """Major.minor of the cluster, new or existing."""
    if config.cluster.create is not None:
        return config.cluster.create.version
    return there.cluster.version if there.cluster is not None else ""


def look_up(stack: Stack, stack_tag: str, *, finished: bool | None = None) -> Surroundings:
    """Ask AWS and an existing cluster. Raises ValidationError with everything that does not fit the configuration.

    `finished`: whether an `up` of the stack has come to its end; None: unknown. Where none has, even what carries the
    stack's tag is in the way.
    """
    config, report = stack.config, Report()
    region = aws.get_region().region
    partition = aws.get_partition().partition
    if partition not in SUFFIXES:
        report.add("aws:region", f"{region} is in partition {partition}", f"known: {', '.join(SUFFIXES)}")
    account = Account(partition, aws.get_caller_identity().account_id, region)
    credentials = provider_credentials(account, report)
    cluster = None if config.cluster.create else _existing(config.cluster.name, account, report)
    if report.problems:
        raise ValidationError("Stack in its account", report.problems)
    ground = network(config, cluster.vpc_id if cluster else "", cluster.subnet_ids if cluster else (), report)
    by_access_entry = admits_by_access_entry(config, cluster)
    names = named(config, account, by_access_entry=by_access_entry)
    lost = finished is False
    imported = existing(names, stack_tag, adopt=config.adopt, lost=lost, report=report)
    if cluster is not None and not config.adopt:
        _check_cluster(stack, cluster, account, stack_tag, lost=lost, report=report)
    oidc = _oidc_provider(cluster.issuer) if cluster else None
    spot = _spot_role() if config.identity.spot_service_linked_role else None
    # The spot role outlives the stack that made it, and all of them outlive a lost state.
    once = {"oidc-provider": oidc, "spot-role": spot}
    imported |= {name: found.id for name, found in once.items() if found and found.stack == stack_tag}
    surroundings = Surroundings(
        account=account,
        credentials=credentials,
        cluster=cluster,
        vpc_id=ground.vpc_id,
        node_subnet_ids=node_subnets(config, ground, report),
        pod_subnet_ids=pod_subnets(config, ground, report),
        node_group_id=_node_group(config, cluster, report),
        foreign_oidc_provider=oidc is not None and oidc.stack != stack_tag,
        foreign_spot_role=spot is not None and spot.stack != stack_tag,
        imported=imported,
    )
    if config.cluster.create:
        _check_new(config.cluster.name, stack_tag, report)
    _check_join(config, cluster, report)
    if report.problems:
        raise ValidationError("Stack in its account", report.problems)
    return surroundings


def _existing(name: str, account: Account, report: Report) -> ExistingCluster | None:
    cluster = or_none(lambda: aws.eks.get_cluster(name=name))
    if cluster is None:
        known = aws.eks.get_clusters().names
        remedy = did_you_mean(name, known) if known else "give cluster.create to have it made"
        report.add("cluster.name", f"there is no EKS cluster {name!r} in {account.region}", remedy)
        return None
    issuer = cluster.identities[0].oidcs[0].issuer if cluster.identities and cluster.identities[0].oidcs else ""
    if not issuer:
        report.add("cluster.name", f"cluster {name!r} has no OIDC issuer", "pods need it to take IAM roles")
    modes = [each.authentication_mode for each in cluster.access_configs]
    network = cluster.vpc_config
    return ExistingCluster(
        version=cluster.version,
        endpoint=cluster.endpoint,
        certificate_authority_data=cluster.certificate_authorities[0].data if cluster.certificate_authorities else "",
        issuer=issuer,
        vpc_id=network.vpc_id,
        subnet_ids=tuple(network.subnet_ids),
        security_group_id=network.cluster_security_group_id,
        access_entries=any(mode in ("API", "API_AND_CONFIG_MAP") for mode in modes),
    )


def _check_cluster(
    stack: Stack, cluster: ExistingCluster, account: Account, stack_tag: str, *, lost: bool, report: Report
) -> None:
    """Report the names that are taken in the cluster; where it cannot be asked, warn and go on."""
    config = stack.config
    place = Place(account, version_pair(cluster.version))
    unanswered, warnings = [], []
    try:
        api = _api(config, cluster)
        wanted = keyed_objects(config, place, stack.objects)
        unanswered = check_objects(api, wanted, stack_tag, lost=lost, report=report)
        if config.controller.manage_crds and not unanswered:
            warnings = definition_warnings(api, DEFINITIONS)
    except UnansweredError as error:
        unanswered = [str(error)]
    for reason in unanswered:
        warnings.append(f"the cluster was not asked which names are taken in it, `up` would tell: {reason}")
    for warning in warnings:
        pulumi.log.warn(warning)


def _api(config: StackConfig, cluster: ExistingCluster) -> ClusterApi:
    """The cluster's API by the stack's kubeconfig, else with a token of the AWS provider's own credentials."""
    if config.cluster.kubeconfig:
        return ClusterApi.of_kubeconfig(config.cluster.kubeconfig)
    try:
        token = aws.eks.get_cluster_auth(name=config.cluster.name).token
    except Exception as error:  # of the engine or the provider, each with a type of its own
        raise UnansweredError(f"no token: {error}") from error
    return ClusterApi.of_endpoint(cluster.endpoint, cluster.certificate_authority_data, token)


def version_pair(version: str) -> tuple[int, int]:
    """Major and minor of a Kubernetes version."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


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


def admits_by_access_entry(config: StackConfig, cluster: ExistingCluster | None) -> bool:
    """Whether nodes are admitted by an access entry: where it is asked for, or where the cluster can."""
    join = config.identity.node_join
    return join == "accessEntry" or (join == "auto" and (cluster is None or cluster.access_entries))


def _check_new(name: str, stack_tag: str, report: Report) -> None:
    found = or_none(lambda: aws.eks.get_cluster(name=name))
    if found is not None and (found.tags or {}).get(STACK_TAG) != stack_tag:
        message = f"cluster {name!r} exists, and this stack did not make it"
        report.add("cluster.create", message, "leave it out to use that cluster, or choose another cluster.name")


def _oidc_provider(issuer: str) -> Found | None:
    provider = or_none(lambda: aws.iam.get_open_id_connect_provider(url=issuer))
    return Found.tagged(provider.arn, provider.tags) if provider else None


def _spot_role() -> Found | None:
    role = or_none(lambda: aws.iam.get_role(name=SPOT_ROLE))
    return Found.tagged(role.arn, role.tags) if role else None
