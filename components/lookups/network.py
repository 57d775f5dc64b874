"""The VPC of the cluster, and which of its subnets nodes and Fargate pods get."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pulumi_aws as aws

from components.config.schema import StackConfig
from components.lookups.queries import or_none
from controller.core.api.strict import Report


@dataclass(frozen=True, slots=True)
class Network:
    """Where the cluster is, or will be."""

    vpc_id: str
    """Empty when not even one of its subnets is there."""
    subnet_ids: tuple[str, ...]
    """The cluster's own."""


@dataclass(frozen=True, slots=True)
class _Subnet:
    id: str
    public: bool
    zone: str


def network(config: StackConfig, vpc_id: str, subnet_ids: tuple[str, ...], report: Report) -> Network:
    """Of an existing cluster: its VPC and subnets, as given. Of a new one: those of cluster.create.subnetIds."""
    create = config.cluster.create
    if create is None:
        return Network(vpc_id, subnet_ids)
    first = next((subnet for each in create.subnet_ids if (subnet := _subnet(each))), None)
    ground = Network(first.vpc_id if first else "", create.subnet_ids)
    zones = {each.zone for each in _subnets(create.subnet_ids, ground, "cluster.create.subnetIds", report)}
    if len(zones) == 1 and len(create.subnet_ids) > 1:
        report.add("cluster.create.subnetIds", f"are all in zone {zones.pop()}", "EKS wants two zones at least")
    return ground


def node_subnets(config: StackConfig, ground: Network, report: Report) -> tuple[str, ...]:
    """Subnets to tag for discovery: the private ones of what config.discovery names, in its order."""
    path, ids = _named(config, ground, report)
    before = len(report.problems)
    subnets = _subnets(ids, ground, path, report)
    chosen = tuple(each.id for each in subnets if config.discovery.public_subnets or not each.public)
    if not chosen and len(report.problems) == before:
        remedy = "set discovery.publicSubnets, or name private ones" if subnets else "check the names and tags"
        report.add(path, "no private subnet is left for nodes", remedy)
    return chosen


def pod_subnets(config: StackConfig, ground: Network, report: Report) -> tuple[str, ...]:
    """Private subnets of Fargate pods; none where Fargate is off."""
    if not config.fargate.enabled:
        return ()
    given, path = config.fargate.subnet_ids, "fargate.subnetIds"
    subnets = _subnets(given or ground.subnet_ids, ground, path, report if given else Report())
    for each in subnets if given else ():
        if each.public:
            report.add(path, f"{each.id} is public", "Fargate pods run in private subnets alone")
    chosen = tuple(each.id for each in subnets if not each.public)
    if not chosen and not given:
        report.add(path, "the cluster has no private subnet", "name private subnets of its VPC")
    return chosen


def _named(config: StackConfig, ground: Network, report: Report) -> tuple[str, Iterable[str]]:
    """The key that names subnets for nodes, and their ids."""
    discovery = config.discovery
    if discovery.vpc_name:
        _check_vpc(discovery.vpc_name, ground, report)
    if discovery.vpc_name or discovery.subnet_tags:
        path = "discovery.subnetTags" if discovery.subnet_tags else "discovery.vpcName"
        return path, _by_tags(ground.vpc_id, dict(discovery.subnet_tags))
    if discovery.node_groups:
        return "discovery.nodeGroups", _of_node_groups(config.cluster.name, discovery.node_groups, report)
    return "discovery.subnetIds", discovery.subnet_ids or ground.subnet_ids


def _check_vpc(name: str, ground: Network, report: Report) -> None:
    vpcs = aws.ec2.get_vpcs(tags={"Name": name}).ids
    path = "discovery.vpcName"
    if not vpcs:
        report.add(path, f"no VPC is called {name!r}", "it is the value of the VPC's tag Name")
    elif ground.vpc_id and ground.vpc_id not in vpcs:
        report.add(path, f"{name!r} is {', '.join(sorted(vpcs))}", f"the cluster is in {ground.vpc_id}")


def _by_tags(vpc_id: str, tags: dict[str, str]) -> list[str]:
    wanted = {"vpc-id": vpc_id, **{f"tag:{name}": value for name, value in tags.items()}}
    filters = [aws.ec2.GetSubnetsFilterArgs(name=name, values=[value]) for name, value in wanted.items()]
    return sorted(aws.ec2.get_subnets(filters=filters).ids) if vpc_id else []


def _of_node_groups(cluster: str, names: tuple[str, ...], report: Report) -> list[str]:
    ids: list[str] = []
    for index, name in enumerate(names):
        group = or_none(lambda name=name: aws.eks.get_node_group(cluster, name))  # type: ignore[misc]
        if group is None:
            report.add(f"discovery.nodeGroups[{index}]", f"the cluster has no node group {name!r}")
        else:
            ids += group.subnet_ids
    return ids


def _subnet(subnet_id: str) -> aws.ec2.GetSubnetResult | None:
    return or_none(lambda: aws.ec2.get_subnet(id=subnet_id))


def _subnets(ids: Iterable[str], ground: Network, path: str, report: Report) -> list[_Subnet]:
    subnets = []
    for subnet_id in dict.fromkeys(ids):
        subnet = _subnet(subnet_id)
        if subnet is None:
            report.add(path, f"there is no subnet {subnet_id}")
        elif ground.vpc_id and subnet.vpc_id != ground.vpc_id:
            report.add(path, f"{subnet_id} is in {subnet.vpc_id}", f"the cluster is in {ground.vpc_id}")
        else:
            subnets.append(_Subnet(subnet_id, subnet.map_public_ip_on_launch, subnet.availability_zone))
    return subnets
