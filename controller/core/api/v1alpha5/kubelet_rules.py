"""Reads spec.kubeletConfiguration of a Provisioner and checks its rules, which are those of Karpenter v0.27."""

from __future__ import annotations

import math
from typing import Any, Final

from controller.core.api.duration import duration_seconds
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.provisioner import KubeletConfiguration
from controller.core.api.strict import MAX_INT32, Fields, Report, amount_nanos, did_you_mean, step

KUBELET_FIELDS: Final = (
    "clusterDNS",
    "containerRuntime",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
)
EVICTION_SIGNALS: Final = frozenset(
    {
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "pid.available",
    }
)
RESERVABLE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})


def read_kubelet(fields: Fields) -> KubeletConfiguration:
    """The kubelet's configuration; every broken rule goes to the report of `fields`."""
    soft = _thresholds(fields, "evictionSoft")
    grace = _grace_periods(fields)
    _check_pairs(fields, soft, grace)
    high = fields.integer("imageGCHighThresholdPercent", 0, 100)
    low = fields.integer("imageGCLowThresholdPercent", 0, 100)
    if high is not None and low is not None and high < low:
        for name in ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent"):
            fields.report.add(
                fields.at(name),
                f"the high threshold ({high}) is below the low one ({low})",
                "images are collected from the high threshold down to the low one: set high to at least low",
            )
    return KubeletConfiguration(
        cluster_dns=fields.strings("clusterDNS"),
        container_runtime=fields.text("containerRuntime"),
        max_pods=fields.integer("maxPods", 0, MAX_INT32),
        pods_per_core=fields.integer("podsPerCore", 0, MAX_INT32),
        system_reserved=_reserved(fields, "systemReserved"),
        kube_reserved=_reserved(fields, "kubeReserved"),
        eviction_hard=_thresholds(fields, "evictionHard"),
        eviction_soft=soft,
        eviction_soft_grace_period=grace,
        eviction_max_pod_grace_period=fields.integer("evictionMaxPodGracePeriod", -MAX_INT32, MAX_INT32),
        image_gc_high_threshold_percent=high,
        image_gc_low_threshold_percent=low,
        cpu_cfs_quota=fields.boolean("cpuCFSQuota"),
    )


def _reserved(fields: Fields, name: str) -> FrozenMap[str, str]:
    """Quantities of 0 or more of what can be reserved, kept as written."""
    kept: dict[str, str] = {}
    for path, key, value in fields.entries(name):
        if key not in RESERVABLE:
            fields.report.add(path, f"{key!r} cannot be reserved", did_you_mean(key, RESERVABLE))
        amount = amount_nanos(fields.report, path, value)
        if amount is not None and amount < 0:
            fields.report.add(path, f"{value!r} is negative", "reserve 0 or more")
        kept[key] = str(value)
    return FrozenMap(kept) if kept else EMPTY


def _thresholds(fields: Fields, name: str) -> FrozenMap[str, str]:
    """Eviction signals, each with a quantity or a percentage, kept as written."""
    kept: dict[str, str] = {}
    for path, signal, value in fields.entries(name):
        _check_signal(fields.report, path, signal)
        if not isinstance(value, str):
            fields.report.add(path, f"must be a string, not {value!r}", "write a quantity or a percentage, such as 5%")
        elif value.endswith("%"):
            _check_percentage(fields.report, path, value)
        else:
            amount_nanos(fields.report, path, value)
        kept[signal] = str(value)
    return FrozenMap(kept) if kept else EMPTY


def _check_signal(report: Report, path: str, signal: str) -> None:
    if signal not in EVICTION_SIGNALS:
        report.add(path, f"{signal!r} is not an eviction signal", did_you_mean(signal, EVICTION_SIGNALS))


def _check_percentage(report: Report, path: str, value: str) -> None:
    try:
        percentage = float(value.removesuffix("%"))
    except ValueError:
        percentage = math.nan
    if not 0 <= percentage <= 100:
        report.add(path, f"{value!r} is not a percentage", "write a number from 0 to 100 with %, such as 5%")


def _grace_periods(fields: Fields) -> FrozenMap[str, str]:
    """Eviction signals, each with a duration, kept as written."""
    kept: dict[str, str] = {}
    for path, signal, value in fields.entries("evictionSoftGracePeriod"):
        _check_signal(fields.report, path, signal)
        _check_duration(fields.report, path, value)
        kept[signal] = str(value)
    return FrozenMap(kept) if kept else EMPTY


def _check_duration(report: Report, path: str, value: Any) -> None:
    if not isinstance(value, str):
        report.add(path, f"must be a duration, not {value!r}", "write a number with a unit, such as 2m")
    elif (report.read(path, value, duration_seconds) or 0) < 0:
        report.add(path, f"{value!r} is negative", "write 0s or more")


def _check_pairs(fields: Fields, soft: FrozenMap[str, str], grace: FrozenMap[str, str]) -> None:
    """Each soft threshold has a grace period, and each grace period a threshold."""
    for _, signal, _value in fields.entries("evictionSoft"):
        if signal not in grace:
            fields.report.add(
                step(fields.at("evictionSoft"), signal),
                "has no grace period",
                f"add evictionSoftGracePeriod.{signal}, such as 2m",
            )
    for signal in grace:
        if signal not in soft:
            fields.report.add(
                step(fields.at("evictionSoftGracePeriod"), signal),
                "has no threshold",
                f"add evictionSoft.{signal}, such as 5%, or take the grace period out",
            )
