"""The type of an AMI family: images, user data, and what its nodes support."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from controller.aws.api.cluster_facts import ClusterFacts
from controller.core.api import labels as keys
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Taint
from controller.core.api.nodetemplate import BlockDevice, BlockDeviceMapping
from controller.core.api.provisioner import KubeletConfiguration
from controller.core.scheduling.requirements import Requirement, Requirements
from controller.errors import NodeTemplateError

GIB = 2**30

_WORD = re.compile(r"[A-Za-z0-9_./%+-]*")
"""Labels, taints, amounts: as parts of lists such as `a=b,c=d`."""
_TEXT = re.compile(r"[A-Za-z0-9_./%+:=@\[\]-]*")
"""Names, URLs, addresses, base64."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The input of user data."""

    subject: str
    """The object that errors name, such as `AWSNodeTemplate default`."""
    cluster: ClusterFacts
    kubelet: KubeletConfiguration
    labels: FrozenMap[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    """The Provisioner's taints, then its startup taints."""
    max_pods: int | None = None
    """None: the image's own rule (the ENI formula) holds."""
    custom: str | None = None
    """spec.userData."""
    instance_store: bool = False
    """The instance's NVMe disks, if any, become its data device."""

    def __post_init__(self) -> None:
        """Refuse text that a shell, the kubelet's command line, MIME, TOML or YAML could take for anything but text.

        Raises NodeTemplateError. Provisioners with most of it are refused before; this holds for the rest, too.
        """
        kubelet, cluster = self.kubelet, self.cluster
        words = [*self.labels.items(), *((taint.key, taint.value, taint.effect) for taint in self.taints)]
        for amounts in (kubelet.system_reserved, kubelet.kube_reserved, kubelet.eviction_hard, kubelet.eviction_soft):
            words += amounts.items()
        words += [*kubelet.eviction_soft_grace_period.items(), (kubelet.container_runtime or "",)]
        texts = (cluster.name, cluster.endpoint, cluster.ca_bundle, cluster.service_cidr or "", *self.dns_ips)
        wrong = [word for each in words for word in each if not _WORD.fullmatch(word)]
        wrong += [text for text in texts if not _TEXT.fullmatch(text)]
        if wrong:
            raise NodeTemplateError(
                f"{self.subject}: {wrong[0][:60]!r} cannot be part of user data; correct it in the Provisioner "
                "(labels, taints, kubeletConfiguration) or in the settings of the cluster"
            )

    @property
    def dns_ips(self) -> tuple[str, ...]:
        """kubeletConfiguration.clusterDNS, else kube-dns, else nothing."""
        return self.kubelet.cluster_dns or ((self.cluster.dns_ip,) if self.cluster.dns_ip else ())


@dataclass(frozen=True, slots=True)
class ImageAlias:
    """An SSM parameter that names the newest image for the instance types that meet `requirements`.

    `{version}` stands for the cluster's Kubernetes version. `parameters` are tried in order: the first
    that exists counts.
    """

    parameters: tuple[str, ...]
    requirements: Requirements


@dataclass(frozen=True, slots=True)
class AMIFamily:
    """One family. `user_data` raises NodeTemplateError when spec.userData cannot be read or merged."""

    name: str
    aliases: tuple[ImageAlias, ...]
    user_data: Callable[[Bootstrap], str]
    block_devices: tuple[BlockDeviceMapping, ...] = ()
    """Used where the template has none; empty: the image's own."""
    storage_device: str | None = None
    """The device whose size is the node's ephemeral storage; None: the last one."""
    eni_limited_memory_overhead: bool = True
    supports_pods_per_core: bool = True
    supports_eviction_soft: bool = True
    supports_instance_store: bool = False
    """Its user data can combine the NVMe disks into one array."""
    ignored_kubelet_fields: tuple[str, ...] = ()
    """Members of kubeletConfiguration that its user data cannot express; `*` alone: all of them."""


def default_device(name: str, gib: int) -> BlockDeviceMapping:
    """Return an encrypted gp3 volume that is deleted with its instance."""
    return BlockDeviceMapping(
        name, BlockDevice(delete_on_termination=True, encrypted=True, volume_size_bytes=gib * GIB, volume_type="gp3")
    )


def needs(arch: str, only: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> Requirements:
    """Return the types of an architecture, with accelerators of the manufacturers `only`, or of none of `never`."""
    requirements = [Requirement.of(keys.ARCH, "In", (arch,))]
    if only:
        requirements.append(Requirement.of(keys.INSTANCE_ACCELERATOR_MANUFACTURER, "In", only))
    if never:
        requirements.append(Requirement.of(keys.INSTANCE_ACCELERATOR_MANUFACTURER, "NotIn", never))
    return Requirements(requirements)
