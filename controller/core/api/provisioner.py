"""A pool: which nodes may be launched for which pods, and when they may be removed. Read by a front end (front_end)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import Resources, SelectorRequirement


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """spec.kubeletConfiguration. None: not set, the AMI family's default holds."""

    cluster_dns: tuple[str, ...] = ()
    container_runtime: str | None = None
    max_pods: int | None = None
    pods_per_core: int | None = None
    system_reserved: FrozenMap[str, str] = EMPTY
    """Quantities as the user wrote them (they go to the kubelet verbatim)."""
    kube_reserved: FrozenMap[str, str] = EMPTY
    eviction_hard: FrozenMap[str, str] = EMPTY
    eviction_soft: FrozenMap[str, str] = EMPTY
    eviction_soft_grace_period: FrozenMap[str, str] = EMPTY
    eviction_max_pod_grace_period: int | None = None
    image_gc_high_threshold_percent: int | None = None
    image_gc_low_threshold_percent: int | None = None
    cpu_cfs_quota: bool | None = None


KUBELET_MEMBERS: Final[Mapping[str, str]] = {
    "clusterDNS": "cluster_dns",
    "containerRuntime": "container_runtime",
    "maxPods": "max_pods",
    "podsPerCore": "pods_per_core",
    "systemReserved": "system_reserved",
    "kubeReserved": "kube_reserved",
    "evictionHard": "eviction_hard",
    "evictionSoft": "eviction_soft",
    "evictionSoftGracePeriod": "eviction_soft_grace_period",
    "evictionMaxPodGracePeriod": "eviction_max_pod_grace_period",
    "imageGCHighThresholdPercent": "image_gc_high_threshold_percent",
    "imageGCLowThresholdPercent": "image_gc_low_threshold_percent",
    "cpuCFSQuota": "cpu_cfs_quota",
}
"""Members of spec.kubeletConfiguration → attributes of KubeletConfiguration."""


@dataclass(frozen=True, slots=True)
class Provisioner:
    """A Provisioner as the controller uses it: defaults applied, quantities read."""

    name: str
    uid: str = ""
    generation: int = 0
    requirements: tuple[SelectorRequirement, ...] = ()
    """As written, plus the defaults (os, arch, capacity-type, category and generation)."""
    labels: FrozenMap[str, str] = EMPTY
    annotations: FrozenMap[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    kubelet: KubeletConfiguration = field(default_factory=KubeletConfiguration)
    provider_ref: str | None = None
    inline_template: AWSNodeTemplate | None = None
    """The node template that the deprecated spec.provider stands for, named after the Provisioner."""
    disruption: DisruptionPolicy = field(default_factory=DisruptionPolicy)
    limits: Resources | None = None
    weight: int = 0
    object_annotations: FrozenMap[str, str] = EMPTY
    """metadata.annotations of the Provisioner itself."""
    status_resources: Resources = EMPTY
    deleted_at: float | None = None
    resource_version: str = field(default="", compare=False)
