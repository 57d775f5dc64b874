"""Tags of launched resources: the write-ahead record from which the next process finds and adopts an instance.

Tags exist from the moment that the instance does. Beside Karpenter v0.27's three they hold the launch token, and the
Node labels that nothing else tells: those of the Provisioner at launch, and the values that the plan chose. Unlike in
v0.27, users cannot override the ownership tags, without which an instance is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from controller.core.api import labels as keys
from controller.core.api.provisioner import KubeletConfiguration
from controller.errors import NodeTemplateError

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import TagTypeDef

LAUNCH_TOKEN = "karpenter.sh/launch-token"  # noqa: S105 - a tag key
NODE_LABELS = "karpenter.sh/node-labels"
"""LABEL=VALUE pairs joined by `:`, split every 256 characters into NODE_LABELS, NODE_LABELS.1, NODE_LABELS.2 ..."""

POD_DENSITY = "karpenter.sh/pod-density"
"""maxPods=N:podsPerCore=N of the Provisioner at launch: the label instance-pods follows from it."""

TEMPLATE_CLUSTER = "karpenter.k8s.aws/cluster"
MANAGED_BY = "karpenter.sh/managed-by"
MANAGER = "nodeless"
MAX_VALUE_CHARACTERS = 256
MAX_TAGS = 50


def cluster_tag(cluster_name: str) -> str:
    """The tag key that marks resources of a cluster for AWS and Kubernetes."""
    return f"kubernetes.io/cluster/{cluster_name}"


def ownership(cluster_name: str, provisioner_name: str) -> dict[str, str]:
    """The tags by which an instance is found again; nothing overrides them."""
    return {cluster_tag(cluster_name): "owned", keys.PROVISIONER_NAME: provisioner_name}


def launch_tags(
    *,
    cluster_name: str,
    provisioner_name: str,
    settings_tags: Mapping[str, str],
    template_tags: Mapping[str, str],
    labels: Mapping[str, str],
    pod_density: Mapping[str, int],
    subject: str,
) -> dict[str, str]:
    """Tags of the instance, its volumes and the fleet: the template's win over the settings', ownership over all.

    There is room left for the launch token, which is added when the fleet is requested. Raises NodeTemplateError when
    there are more than EC2 allows.
    """
    tags = {"Name": f"{keys.PROVISIONER_NAME}/{provisioner_name}", **settings_tags, **template_tags}
    tags.update(ownership(cluster_name, provisioner_name))
    tags.update(encode_labels(labels))
    if pod_density:
        tags[POD_DENSITY] = ":".join(f"{name}={count}" for name, count in sorted(pod_density.items()))
    tags.pop(LAUNCH_TOKEN, None)
    if len(tags) >= MAX_TAGS:
        count = len(tags) + 1
        raise NodeTemplateError(
            f"{subject}: {count} tags are more than EC2's limit of {MAX_TAGS} for an instance; shorten spec.tags, "
            "aws.tags of the settings or the Provisioner's labels"
        )
    return dict(sorted(tags.items()))


def pod_density_of(kubelet: KubeletConfiguration, supports_pods_per_core: bool) -> dict[str, int]:
    """The members of the kubelet configuration that decide the number of pods."""
    counts = {}
    if kubelet.max_pods is not None:
        counts["maxPods"] = kubelet.max_pods
    if kubelet.pods_per_core and supports_pods_per_core:
        counts["podsPerCore"] = kubelet.pods_per_core
    return counts


def read_pod_density(tags: Mapping[str, str]) -> KubeletConfiguration:
    """The inverse of `pod_density_of`: a kubelet configuration with these members alone."""
    pairs = (part.partition("=") for part in tags.get(POD_DENSITY, "").split(":") if part)
    counts = {name: int(value) for name, _, value in pairs if value.isdecimal()}
    return KubeletConfiguration(max_pods=counts.get("maxPods"), pods_per_core=counts.get("podsPerCore"))


def encode_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels as tags. Neither `=` nor `:` occurs in a label's key or value."""
    text = ":".join(f"{key}={value}" for key, value in sorted(labels.items()))
    chunks = [text[at : at + MAX_VALUE_CHARACTERS] for at in range(0, len(text), MAX_VALUE_CHARACTERS)]
    return {f"{NODE_LABELS}.{index}" if index else NODE_LABELS: chunk for index, chunk in enumerate(chunks)}


def decode_labels(tags: Mapping[str, str]) -> dict[str, str]:
    """The labels that `encode_labels` wrote; anything else is left out."""
    text, index = tags.get(NODE_LABELS, ""), 1
    while (chunk := tags.get(f"{NODE_LABELS}.{index}")) is not None:
        text += chunk
        index += 1
    pairs = (part.partition("=") for part in text.split(":") if "=" in part)
    return {key: value for key, _, value in pairs if key}


def as_list(tags: Mapping[str, str]) -> list[TagTypeDef]:
    """Tags as the API takes them, sorted by key."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def as_dict(tags: list[TagTypeDef]) -> dict[str, str]:
    """Tags as the API gives them."""
    return {tag.get("Key", ""): tag.get("Value", "") for tag in tags}
