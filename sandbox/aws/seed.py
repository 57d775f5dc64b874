"""The account as the stack would leave it: network, cluster, roles, queue. Written with boto3, for any endpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import boto3

VPC_CIDR = "10.0.0.0/16"


@dataclass(frozen=True, slots=True)
class Seed:
    """What was made. Subnets are in the order of their zones; what a stack is yet to make is empty."""

    cluster: str
    vpc_id: str
    subnet_ids: tuple[str, ...]
    security_group_id: str
    instance_profile: str
    node_role_arn: str
    queue_url: str


def seed_account(
    endpoint: str, *, region: str, cluster: str, version: str, credentials: dict[str, str], installed: bool = True
) -> Seed:
    """Make everything that a cluster named `cluster` needs. `credentials`: boto3's aws_access_key_id and so on.

    Without `installed` there are the network and the cluster alone: a stack makes the rest.
    """

    def client(service: str) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service, endpoint_url=endpoint, region_name=region, **credentials
        )

    ec2 = client("ec2")
    vpc_id, subnet_ids = _network(ec2, cluster)
    group_id = _security_group(ec2, cluster, vpc_id)
    iam = client("iam")
    cluster_role = _role(iam, f"{cluster}-cluster", "eks.amazonaws.com")
    client("eks").create_cluster(
        name=cluster, version=version, roleArn=cluster_role,
        resourcesVpcConfig={"subnetIds": list(subnet_ids), "securityGroupIds": [group_id]},
    )  # fmt: skip
    if not installed:
        return Seed(cluster, vpc_id, subnet_ids, group_id, "", "", "")
    node_role_arn = _role(iam, f"KarpenterNodeRole-{cluster}", "ec2.amazonaws.com")
    profile = f"KarpenterNodeInstanceProfile-{cluster}"
    iam.create_instance_profile(InstanceProfileName=profile)
    iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=f"KarpenterNodeRole-{cluster}")
    queue_url = _interruption_queue(client("sqs"), client("events"), cluster)
    return Seed(cluster, vpc_id, subnet_ids, group_id, profile, node_role_arn, queue_url)


def _tags(resource: str, tags: dict[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": resource, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]


def _network(ec2: Any, cluster: str) -> tuple[str, tuple[str, ...]]:
    """A VPC with one private /19 in each of the region's zones."""
    owned = {f"kubernetes.io/cluster/{cluster}": "shared"}
    vpc = ec2.create_vpc(CidrBlock=VPC_CIDR, TagSpecifications=_tags("vpc", {"Name": cluster} | owned))
    vpc_id: str = vpc["Vpc"]["VpcId"]
    subnet_ids = []
    zones = sorted(z["ZoneName"] for z in ec2.describe_availability_zones()["AvailabilityZones"])
    for index, zone in enumerate(zones):
        tags = {
            "Name": f"{cluster}-private-{zone}",
            "karpenter.sh/discovery": cluster,
            "kubernetes.io/role/internal-elb": "1",
        }
        subnet = ec2.create_subnet(
            VpcId=vpc_id, AvailabilityZone=zone, CidrBlock=f"10.0.{index * 32}.0/19",
            TagSpecifications=_tags("subnet", tags | owned),
        )  # fmt: skip
        subnet_ids.append(subnet["Subnet"]["SubnetId"])
    return vpc_id, tuple(subnet_ids)


def _security_group(ec2: Any, cluster: str, vpc_id: str) -> str:
    tags = {"Name": f"{cluster}-node", "karpenter.sh/discovery": cluster, f"kubernetes.io/cluster/{cluster}": "owned"}
    group = ec2.create_security_group(
        GroupName=f"{cluster}-node", Description="Nodes of the cluster", VpcId=vpc_id,
        TagSpecifications=_tags("security-group", tags),
    )  # fmt: skip
    group_id: str = group["GroupId"]
    return group_id


def _role(iam: Any, name: str, service: str) -> str:
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}],
    }
    arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
    return arn


def _interruption_queue(sqs: Any, events: Any, cluster: str) -> str:
    """The queue named after the cluster, and the four EventBridge rules that feed it."""
    queue_url: str = sqs.create_queue(QueueName=cluster, Attributes={"MessageRetentionPeriod": "300"})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sources = {
        "ScheduledChange": ("aws.health", "AWS Health Event"),
        "SpotInterruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
        "Rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
        "InstanceStateChange": ("aws.ec2", "EC2 Instance State-change Notification"),
    }
    for name, (source, detail_type) in sources.items():
        rule = f"Karpenter{name}-{cluster}"
        events.put_rule(Name=rule, EventPattern=json.dumps({"source": [source], "detail-type": [detail_type]}))
        events.put_targets(Rule=rule, Targets=[{"Id": "KarpenterInterruptionQueueTarget", "Arn": arn}])
    return queue_url
