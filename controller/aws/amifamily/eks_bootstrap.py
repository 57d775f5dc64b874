"""Amazon Linux 2 and Ubuntu: families whose nodes join by the EKS bootstrap script, in MIME user data.

Source: `/etc/eks/bootstrap.sh` of awslabs/amazon-eks-ami, and Karpenter v0.27's order of arguments.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from controller.aws.amifamily.family import AMIFamily, Bootstrap, ImageAlias, default_device, needs
from controller.aws.amifamily.user_data import SHELL_SCRIPT, Part, merge_mime
from controller.core.api.provisioner import KubeletConfiguration

_AL2_PATH = "/aws/service/eks/optimized-ami/{version}/amazon-linux-2"
_UBUNTU_PATH = "/aws/service/canonical/ubuntu/eks/{release}/{{version}}/stable/current/{arch}/hvm/ebs-{volume}/ami-id"
_UBUNTU_RELEASES = (("20.04", "gp2"), ("22.04", "gp2"), ("24.04", "gp3"))
"""Karpenter v0.27's release first, then those for which Canonical publishes images of later Kubernetes versions."""

HEADER = """#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
"""


def bootstrap_script(bootstrap: Bootstrap, container_runtime: str | None) -> str:
    """Return the script that runs bootstrap.sh; `container_runtime` None: the image's default."""
    cluster = bootstrap.cluster
    lines = [f"/etc/eks/bootstrap.sh {quoted(cluster.name)} --apiserver-endpoint {quoted(cluster.endpoint)}"]
    if cluster.ca_bundle:
        lines[0] += f" --b64-cluster-ca {quoted(cluster.ca_bundle)}"
    if any(":" in ip for ip in bootstrap.dns_ips[:1]):
        lines.append("--ip-family ipv6")
    if bootstrap.max_pods is not None:
        lines.append("--use-max-pods false")
    if container_runtime:
        lines.append(f"--container-runtime {shlex.quote(container_runtime)}")
    arguments = " ".join(kubelet_arguments(bootstrap))
    if arguments:
        lines.append(f"--kubelet-extra-args {quoted(arguments)}")
    if bootstrap.dns_ips:
        lines.append(f"--dns-cluster-ip {quoted(bootstrap.dns_ips[0])}")
    if bootstrap.instance_store:
        lines.append("--local-disks raid0")
    return HEADER + " \\\n".join(lines)


def shell_user_data(bootstrap: Bootstrap, container_runtime: str | None) -> str:
    """Return the user's parts and bootstrap.sh as one MIME document. Raises NodeTemplateError for bad spec.userData."""
    script = bootstrap_script(bootstrap, container_runtime)
    return merge_mime(bootstrap.custom, [Part(SHELL_SCRIPT, script)], bootstrap.subject)


def kubelet_arguments(bootstrap: Bootstrap) -> list[str]:
    kubelet = bootstrap.kubelet
    arguments = []
    if bootstrap.labels:
        arguments.append("--node-labels=" + _pairs(bootstrap.labels, "="))
    if bootstrap.taints:
        taints = (f"{taint.key}={taint.value}:{taint.effect}" for taint in bootstrap.taints)
        arguments.append("--register-with-taints=" + ",".join(taints))
    if bootstrap.max_pods is not None:
        arguments.append(f"--max-pods={bootstrap.max_pods}")
    if kubelet.pods_per_core is not None:
        arguments.append(f"--pods-per-core={kubelet.pods_per_core}")
    return arguments + _reservations(kubelet) + _limits(kubelet)


def _reservations(kubelet: KubeletConfiguration) -> list[str]:
    flags = (
        ("--system-reserved", kubelet.system_reserved, "="),
        ("--kube-reserved", kubelet.kube_reserved, "="),
        ("--eviction-hard", kubelet.eviction_hard, "<"),
        ("--eviction-soft", kubelet.eviction_soft, "<"),
        ("--eviction-soft-grace-period", kubelet.eviction_soft_grace_period, "="),
    )
    return [f"{flag}={_pairs(values, sign)}" for flag, values, sign in flags if values]


def _limits(kubelet: KubeletConfiguration) -> list[str]:
    flags = (
        ("--eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period),
        ("--image-gc-high-threshold", kubelet.image_gc_high_threshold_percent),
        ("--image-gc-low-threshold", kubelet.image_gc_low_threshold_percent),
    )
    arguments = [f"{flag}={value}" for flag, value in flags if value is not None]
    if kubelet.cpu_cfs_quota is not None:
        arguments.append(f"--cpu-cfs-quota={'true' if kubelet.cpu_cfs_quota else 'false'}")
    return arguments


def _pairs(values: Mapping[str, str], sign: str) -> str:
    return ",".join(f"{key}{sign}{value}" for key, value in sorted(values.items()))


def quoted(text: str) -> str:
    """Quote for the shell, whatever the text holds."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _ubuntu_parameters(arch: str) -> tuple[str, ...]:
    return tuple(_UBUNTU_PATH.format(release=release, arch=arch, volume=volume) for release, volume in _UBUNTU_RELEASES)


AL2 = AMIFamily(
    name="AL2",
    aliases=(
        ImageAlias((f"{_AL2_PATH}/recommended/image_id",), needs("amd64", never=("nvidia", "aws"))),
        ImageAlias((f"{_AL2_PATH}-gpu/recommended/image_id",), needs("amd64", only=("nvidia", "aws"))),
        ImageAlias((f"{_AL2_PATH}-arm64/recommended/image_id",), needs("arm64", never=("nvidia", "aws"))),
    ),
    user_data=lambda boot: shell_user_data(boot, boot.kubelet.container_runtime or "containerd"),
    block_devices=(default_device("/dev/xvda", 20),),
    storage_device="/dev/xvda",
    supports_instance_store=True,
)

UBUNTU = AMIFamily(
    name="Ubuntu",
    aliases=tuple(ImageAlias(_ubuntu_parameters(arch), needs(arch)) for arch in ("amd64", "arm64")),
    user_data=lambda boot: shell_user_data(boot, container_runtime=None),
    block_devices=(default_device("/dev/sda1", 20),),
    storage_device="/dev/sda1",
    ignored_kubelet_fields=("containerRuntime",),
)
