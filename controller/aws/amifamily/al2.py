"""Amazon Linux 2, EKS optimized. The family when a template names none."""

from __future__ import annotations

from controller.aws.amifamily.family import AMIFamily, Bootstrap, ImageAlias, default_device, needs
from controller.aws.amifamily.shell import shell_user_data

_PATH = "/aws/service/eks/optimized-ami/{version}/amazon-linux-2"


def user_data(bootstrap: Bootstrap) -> str:
    """bootstrap.sh in MIME."""
    return shell_user_data(bootstrap, bootstrap.kubelet.container_runtime or "containerd")


AL2 = AMIFamily(
    name="AL2",
    aliases=(
        ImageAlias((f"{_PATH}/recommended/image_id",), needs("amd64", never=("nvidia", "aws"))),
        ImageAlias((f"{_PATH}-gpu/recommended/image_id",), needs("amd64", only=("nvidia", "aws"))),
        ImageAlias((f"{_PATH}-arm64/recommended/image_id",), needs("arm64", never=("nvidia", "aws"))),
    ),
    user_data=user_data,
    block_devices=(default_device("/dev/xvda", 20),),
    storage_device="/dev/xvda",
    supports_instance_store=True,
)
