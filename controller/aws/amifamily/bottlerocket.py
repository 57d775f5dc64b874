"""Bottlerocket: TOML settings, those of spec.userData merged with the controller's.

Source: Bottlerocket's settings reference (settings.kubernetes). Karpenter v0.27 dropped keys under settings.kubernetes
that it did not know from the user's TOML; here all are kept but those that the controller must set. As in v0.27,
podsPerCore, evictionSoft and the pod grace period have no setting and are not passed on; provisioner_advice says so.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

import tomli_w

from controller.aws.amifamily.family import AMIFamily, Bootstrap, ImageAlias, default_device, needs
from controller.core.api.node import Taint
from controller.errors import NodeTemplateError

_PATH = "/aws/service/bottlerocket/aws-k8s-{version}"


def user_data(bootstrap: Bootstrap) -> str:
    """Return the merged TOML. Raises NodeTemplateError when spec.userData cannot be read."""
    document = _parsed(bootstrap)
    settings = _table(document, "settings", "settings", bootstrap.subject)
    kubernetes = _table(settings, "kubernetes", "settings.kubernetes", bootstrap.subject)
    kubernetes.update(kubernetes_settings(bootstrap))
    for replaced, ours in (("node-labels", bootstrap.labels), ("node-taints", bootstrap.taints)):
        if not ours:
            kubernetes.pop(replaced, None)
    return tomli_w.dumps(document)


def kubernetes_settings(bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the members of settings.kubernetes for a node of this cluster and Provisioner."""
    cluster, kubelet = bootstrap.cluster, bootstrap.kubelet
    members: dict[str, Any] = {
        "api-server": cluster.endpoint,
        "cluster-certificate": cluster.ca_bundle or None,
        "cluster-name": cluster.name,
        "cluster-dns-ip": bootstrap.dns_ips[0] if bootstrap.dns_ips else None,
        "max-pods": bootstrap.max_pods,
        "image-gc-high-threshold-percent": _text(kubelet.image_gc_high_threshold_percent),
        "image-gc-low-threshold-percent": _text(kubelet.image_gc_low_threshold_percent),
        "cpu-cfs-quota-enforced": kubelet.cpu_cfs_quota,
        "node-labels": dict(sorted(bootstrap.labels.items())),
        "node-taints": _taints(bootstrap.taints),
        "system-reserved": dict(sorted(kubelet.system_reserved.items())),
        "kube-reserved": dict(sorted(kubelet.kube_reserved.items())),
        "eviction-hard": dict(sorted(kubelet.eviction_hard.items())),
    }
    return {name: value for name, value in members.items() if value is not None and value != {}}


def _parsed(bootstrap: Bootstrap) -> dict[str, Any]:
    try:
        return tomllib.loads(bootstrap.custom or "")
    except (ValueError, RecursionError) as error:  # a ValueError: no TOML, or a number of too many digits
        raise NodeTemplateError(
            f"{bootstrap.subject}: spec.userData is not TOML, which family Bottlerocket takes: {error}"
        ) from error


def _table(parent: dict[str, Any], key: str, path: str, subject: str) -> dict[str, Any]:
    table = parent.setdefault(key, {})
    if not isinstance(table, dict):
        raise NodeTemplateError(f"{subject}: spec.userData: {path} must be a TOML table, as in [{path}]")
    return table


def _taints(taints: Iterable[Taint]) -> dict[str, list[str]]:
    by_key: dict[str, list[str]] = {}
    for taint in taints:
        by_key.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    return by_key


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


BOTTLEROCKET = AMIFamily(
    name="Bottlerocket",
    aliases=tuple(
        ImageAlias((f"{_PATH}{variant}/{path}/latest/image_id",), needs(arch, only=only, never=never))
        for arch, path in (("amd64", "x86_64"), ("arm64", "arm64"))
        for variant, only, never in (("", (), ("nvidia",)), ("-nvidia", ("nvidia",), ()))
    ),
    user_data=user_data,
    block_devices=(default_device("/dev/xvda", 4), default_device("/dev/xvdb", 20)),
    storage_device="/dev/xvdb",
    eni_limited_memory_overhead=False,
    supports_pods_per_core=False,
    supports_eviction_soft=False,
    ignored_kubelet_fields=(
        *("containerRuntime", "evictionMaxPodGracePeriod", "evictionSoft", "evictionSoftGracePeriod", "podsPerCore"),
    ),
)
