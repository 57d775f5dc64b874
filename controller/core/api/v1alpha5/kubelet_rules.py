"""Read spec.kubeletConfiguration of a Provisioner and check its rules, which are those of Karpenter v0.27."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from controller.core.api.duration import duration_seconds
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.provisioner import KubeletConfiguration
from controller.core.api.settings.readers import decimal
from controller.core.api.strict import MAX_INT32, Fields, Report, amount_nanos, did_you_mean, step

EVICTION_SIGNALS: Final = frozenset({
    "memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
    "pid.available",
})  # fmt: skip
CONTAINER_RUNTIMES: Final = ("containerd", "dockerd")
"""Runtimes that bootstrap.sh of the EKS images accepts; the second up to Kubernetes 1.23."""
RESERVABLE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})


def read_kubelet(fields: Fields) -> KubeletConfiguration:
    """Return the kubelet's configuration; every broken rule goes to the report of `fields`."""
    soft = _kept(fields, "evictionSoft", _check_threshold)
    grace = _kept(fields, "evictionSoftGracePeriod", _check_grace_period)
    _check_pairs(fields, soft, grace)
    high = fields.integer("imageGCHighThresholdPercent", 0, 100)
    low = fields.integer("imageGCLowThresholdPercent", 0, 100)
    if high is not None and low is not None and high < low:
        remedy = "images are collected from the high threshold down to the low one: set high to at least low"
        for name in ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent"):
            fields.problem(name, f"the high threshold ({high}) is below the low one ({low})", remedy)
    return KubeletConfiguration(
        cluster_dns=fields.strings("clusterDNS"),
        container_runtime=_container_runtime(fields),
        max_pods=fields.integer("maxPods", 0, MAX_INT32),
        pods_per_core=fields.integer("podsPerCore", 0, MAX_INT32),
        system_reserved=_kept(fields, "systemReserved", _check_reserved),
        kube_reserved=_kept(fields, "kubeReserved", _check_reserved),
        eviction_hard=_kept(fields, "evictionHard", _check_threshold),
        eviction_soft=soft,
        eviction_soft_grace_period=grace,
        eviction_max_pod_grace_period=fields.integer("evictionMaxPodGracePeriod", -MAX_INT32, MAX_INT32),
        image_gc_high_threshold_percent=high,
        image_gc_low_threshold_percent=low,
        cpu_cfs_quota=fields.boolean("cpuCFSQuota"),
    )


def _container_runtime(fields: Fields) -> str | None:
    runtime = fields.text("containerRuntime")
    if runtime and runtime not in CONTAINER_RUNTIMES:
        remedy = f"write {' or '.join(CONTAINER_RUNTIMES)}, or leave it out"
        fields.problem("containerRuntime", f"{runtime!r} is no container runtime of the images", remedy)
    return runtime


def _kept(fields: Fields, name: str, check: Callable[[Report, str, str, Any], None]) -> FrozenMap[str, str]:
    """Return a map as written, for the kubelet; `check` gets report, path, key and value of each entry."""
    kept: dict[str, str] = {}
    for path, key, value in fields.entries(name):
        check(fields.report, path, key, value)
        kept[key] = str(value)
    return FrozenMap(kept) if kept else EMPTY


def _check_reserved(report: Report, path: str, resource: str, value: Any) -> None:
    """A quantity of 0 or more of what can be reserved."""
    if resource not in RESERVABLE:
        report.add(path, f"{resource!r} cannot be reserved", did_you_mean(resource, RESERVABLE))
    amount = amount_nanos(report, path, value)
    if amount is not None and amount < 0:
        report.add(path, f"{value!r} is negative", "reserve 0 or more")


def _check_threshold(report: Report, path: str, signal: str, value: Any) -> None:
    """A quantity or a percentage at an eviction signal."""
    _check_signal(report, path, signal)
    if not isinstance(value, str):
        report.add(path, f"must be a string, not {value!r}", "write a quantity or a percentage, such as 5%")
    elif value.endswith("%"):
        if not 0 <= decimal(value.removesuffix("%")) <= 100:
            report.add(path, f"{value!r} is not a percentage", "write a number from 0 to 100 with %, such as 5%")
    else:
        amount_nanos(report, path, value)


def _check_grace_period(report: Report, path: str, signal: str, value: Any) -> None:
    _check_signal(report, path, signal)
    if not isinstance(value, str):
        report.add(path, f"must be a duration, not {value!r}", "write a number with a unit, such as 2m")
    elif (report.read(path, value, duration_seconds) or 0) < 0:
        report.add(path, f"{value!r} is negative", "write 0s or more")


def _check_signal(report: Report, path: str, signal: str) -> None:
    if signal not in EVICTION_SIGNALS:
        report.add(path, f"{signal!r} is not an eviction signal", did_you_mean(signal, EVICTION_SIGNALS))


def _check_pairs(fields: Fields, soft: FrozenMap[str, str], grace: FrozenMap[str, str]) -> None:
    """Each soft threshold has a grace period, and each grace period a threshold."""
    for signal in (each for each in soft if each not in grace):
        path = step(fields.at("evictionSoft"), signal)
        fields.report.add(path, "has no grace period", f"add evictionSoftGracePeriod.{signal}, such as 2m")
    for signal in (each for each in grace if each not in soft):
        path = step(fields.at("evictionSoftGracePeriod"), signal)
        remedy = f"add evictionSoft.{signal}, such as 5%, or take the grace period out"
        fields.report.add(path, "has no threshold", remedy)
