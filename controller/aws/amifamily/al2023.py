"""Amazon Linux 2023, EKS optimized: nodeadm reads a NodeConfig from MIME user data.

Source: awslabs/amazon-eks-ami, nodeadm (API node.eks.aws/v1alpha1). Karpenter v0.27 does not have the family.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from controller.aws.amifamily.family import AMIFamily, Bootstrap, ImageAlias, default_device, needs
from controller.aws.amifamily.user_data import Part, merge_mime
from controller.core.api.provisioner import KUBELET_MEMBERS
from controller.errors import NodeTemplateError

NODE_CONFIG = "application/node.eks.aws"
_PATH = "/aws/service/eks/optimized-ami/{version}/amazon-linux-2023"
MOST_KEPT = 64
"""Texts of user data that are kept: every node of a launch has the same, and writing YAML takes milliseconds."""


@lru_cache(MOST_KEPT)
def user_data(bootstrap: Bootstrap) -> str:
    """Return the user's parts, then the controller's NodeConfig:
    nodeadm merges NodeConfigs in order, the last one wins.

    spec.userData may be a MIME document, a shell script, or a NodeConfig on its own. Raises NodeTemplateError when it
    cannot be read, or when another container runtime than containerd is set.
    """
    runtime = bootstrap.kubelet.container_runtime
    if runtime not in (None, "containerd"):
        raise NodeTemplateError(
            f"{bootstrap.subject}: AL2023 runs containerd alone, not {runtime!r}; remove containerRuntime from the "
            "Provisioner's kubeletConfiguration"
        )
    document = yaml.safe_dump(node_config(bootstrap), sort_keys=False, width=2**31)
    custom = bootstrap.custom
    if custom is not None and custom.lstrip().startswith("apiVersion: node.eks.aws/"):
        return merge_mime(None, [Part(NODE_CONFIG, custom), Part(NODE_CONFIG, document)], bootstrap.subject)
    return merge_mime(custom, [Part(NODE_CONFIG, document)], bootstrap.subject)


def node_config(bootstrap: Bootstrap) -> dict[str, Any]:
    cluster = bootstrap.cluster
    config: dict[str, Any] = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": cluster.name,
                "apiServerEndpoint": cluster.endpoint,
                "certificateAuthority": cluster.ca_bundle,
                "cidr": cluster.service_cidr,
            }
        },
    }
    kubelet: dict[str, Any] = {}
    if settings := _kubelet_config(bootstrap):
        kubelet["config"] = settings
    if bootstrap.labels:
        pairs = ",".join(f"{key}={value}" for key, value in sorted(bootstrap.labels.items()))
        kubelet["flags"] = [f"--node-labels={pairs}"]
    if kubelet:
        config["spec"]["kubelet"] = kubelet
    if bootstrap.instance_store:
        config["spec"]["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return config


def _kubelet_config(bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the members of kubelet.config.k8s.io/v1beta1 KubeletConfiguration; unset ones are left to the image."""
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in bootstrap.taints]
    members: dict[str, Any] = {
        "clusterDNS": list(bootstrap.dns_ips),
        "maxPods": bootstrap.max_pods,
        "registerWithTaints": taints,
    }
    for name, attribute in KUBELET_MEMBERS.items():
        value = getattr(bootstrap.kubelet, attribute)
        if name not in ("clusterDNS", "maxPods", "containerRuntime"):
            members[name] = dict(sorted(value.items())) if isinstance(value, Mapping) else value
    return {name: value for name, value in members.items() if value not in (None, [], {})}


AL2023 = AMIFamily(
    name="AL2023",
    aliases=(
        ImageAlias((f"{_PATH}/x86_64/standard/recommended/image_id",), needs("amd64", never=("nvidia", "aws"))),
        ImageAlias((f"{_PATH}/x86_64/nvidia/recommended/image_id",), needs("amd64", only=("nvidia",))),
        ImageAlias((f"{_PATH}/x86_64/neuron/recommended/image_id",), needs("amd64", only=("aws",))),
        ImageAlias((f"{_PATH}/arm64/standard/recommended/image_id",), needs("arm64", never=("nvidia", "aws"))),
        ImageAlias((f"{_PATH}/arm64/nvidia/recommended/image_id",), needs("arm64", only=("nvidia",))),
    ),
    user_data=user_data,
    block_devices=(default_device("/dev/xvda", 20),),
    storage_device="/dev/xvda",
    supports_instance_store=True,
)
