"""Ubuntu for EKS, by Canonical."""

from __future__ import annotations

from controller.aws.amifamily.family import AMIFamily, Bootstrap, ImageAlias, default_device, needs
from controller.aws.amifamily.shell import shell_user_data

_PATH = "/aws/service/canonical/ubuntu/eks/{release}/{{version}}/stable/current/{arch}/hvm/ebs-{volume}/ami-id"
_RELEASES = (("20.04", "gp2"), ("22.04", "gp2"), ("24.04", "gp3"))
"""Karpenter v0.27's release first, then those in which Canonical publishes images for later Kubernetes versions."""


def user_data(bootstrap: Bootstrap) -> str:
    """bootstrap.sh in MIME; the image has one container runtime, so none is named."""
    return shell_user_data(bootstrap, container_runtime=None)


def _parameters(arch: str) -> tuple[str, ...]:
    return tuple(_PATH.format(release=release, arch=arch, volume=volume) for release, volume in _RELEASES)


UBUNTU = AMIFamily(
    name="Ubuntu",
    aliases=tuple(ImageAlias(_parameters(arch), needs(arch)) for arch in ("amd64", "arm64")),
    user_data=user_data,
    block_devices=(default_device("/dev/sda1", 20),),
    storage_device="/dev/sda1",
    ignored_kubelet_fields=("containerRuntime",),
)
