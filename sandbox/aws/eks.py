"""EKS's DescribeCluster: moto's cluster, what moto lacks or makes up, and where the sandbox's Kubernetes API is."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from moto.ec2.models import ec2_backends


@dataclass(frozen=True, slots=True)
class KubernetesEndpoint:
    """Where the cluster's Kubernetes API is. `certificate_authority_data` is base64, empty for plain HTTP."""

    url: str
    certificate_authority_data: str = ""


class Clusters:
    """What moto doesn't know of the region's clusters. Each gets a cluster security group, as EKS makes it."""

    def __init__(self, account: str, region: str) -> None:
        self._ec2 = ec2_backends[account][region]
        self._endpoint: dict[str, KubernetesEndpoint] = {}
        self._group: dict[str, str] = {}

    def set_endpoint(self, cluster: str, endpoint: KubernetesEndpoint) -> None:
        """From now on DescribeCluster names this Kubernetes API."""
        self._endpoint[cluster] = endpoint

    def completed(self, body: bytes) -> bytes:
        """moto's answer to CreateCluster or DescribeCluster, completed."""
        document: dict[str, Any] = json.loads(body)
        cluster = document.get("cluster")
        if not cluster:
            return body
        name = cluster["name"]
        network = cluster.setdefault("resourcesVpcConfig", {})
        network["clusterSecurityGroupId"] = self._cluster_group(name, network)
        network.setdefault("endpointPublicAccess", True)
        cluster.setdefault("accessConfig", {"authenticationMode": "API_AND_CONFIG_MAP"})
        endpoint = self._endpoint.get(name)
        if endpoint is not None:
            cluster["endpoint"] = endpoint.url
            cluster["certificateAuthority"] = {"data": endpoint.certificate_authority_data}
        else:
            cluster["certificateAuthority"] = {
                "data": base64.b64encode(f"certificate authority of {name}".encode()).decode()
            }
        return json.dumps(document).encode()

    def _cluster_group(self, name: str, network: dict[str, Any]) -> str:
        if name not in self._group:
            subnets = [self._ec2.get_subnet(subnet_id) for subnet_id in network.get("subnetIds", [])]
            vpc_id = subnets[0].vpc_id if subnets else network.get("vpcId")
            group = self._ec2.create_security_group(
                f"eks-cluster-sg-{name}", "EKS created security group applied to ENI that is attached to EKS "
                "Control Plane",
                vpc_id=vpc_id, tags={"aws:eks:cluster-name": name, f"kubernetes.io/cluster/{name}": "owned"},
            )  # fmt: skip
            self._group[name] = group.id
            network.setdefault("vpcId", vpc_id)
        return self._group[name]
