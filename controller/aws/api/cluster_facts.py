"""What a node must know to join the cluster, from the settings and eks:DescribeCluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.aws.api.aws_errors import translated
from controller.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_eks import EKSClient


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a node must know to join. `ca_bundle` is base64; `dns_ip` the ClusterIP of kube-dns, empty when unknown."""

    name: str
    endpoint: str
    ca_bundle: str
    kubernetes_version: str
    """major.minor."""
    service_cidr: str = ""
    dns_ip: str = ""
    arn: str = ""

    @property
    def ipv6(self) -> bool:
        return ":" in (self.dns_ip or self.service_cidr)


def describe_cluster(eks: EKSClient, settings: Settings, dns_ip: str = "") -> ClusterFacts:
    """Ask EKS; the settings' endpoint wins over EKS's. Raises CloudErrors."""
    with translated("eks:DescribeCluster", f"cluster {settings.cluster_name}"):
        cluster = eks.describe_cluster(name=settings.cluster_name)["cluster"]
    network = cluster.get("kubernetesNetworkConfig", {})
    return ClusterFacts(
        name=settings.cluster_name,
        endpoint=settings.cluster_endpoint or cluster.get("endpoint", ""),
        ca_bundle=cluster.get("certificateAuthority", {}).get("data", ""),
        kubernetes_version=cluster.get("version", ""),
        service_cidr=network.get("serviceIpv6Cidr") or network.get("serviceIpv4Cidr", ""),
        dns_ip=dns_ip,
        arn=cluster.get("arn", ""),
    )
