"""What an instance's user data tells its kubelet: AL2's bootstrap.sh, AL2023's nodeadm, Bottlerocket's settings.

Sources: amazon-eks-ami `files/bootstrap.sh`, nodeadm's NodeConfig API, Bottlerocket's `settings.kubernetes`.
"""

from __future__ import annotations

import email
import functools
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from sandbox.world.resources import Obj

AL2, AL2023, BOTTLEROCKET = "AmazonLinux2", "AmazonLinux2023", "Bottlerocket"
NODEADM_TYPE = "application/node.eks.aws"


class UserDataError(ValueError):
    """The user data would not make an instance join a cluster."""


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """How one kubelet was told to register and what to keep back. Quantities as written; eviction thresholds by
    signal."""

    family: str
    cluster_name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Obj, ...] = ()
    max_pods: int | None = None
    pods_per_core: int = 0
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)


@functools.lru_cache(maxsize=64)
def parse_user_data(text: str) -> KubeletOptions:
    """The kubelet's options from decoded user data of any of the three families.

    Cached: hundreds of machines of one launch template may boot at once.

    Raises:
        UserDataError: nothing in it joins a cluster, or what does is malformed.
    """
    parts = _mime_parts(text)
    for content_type, body in parts:
        if content_type == NODEADM_TYPE or "kind: NodeConfig" in body:
            return _nodeadm([b for t, b in parts if t == NODEADM_TYPE or "kind: NodeConfig" in b])
    for _, body in parts:
        if "/etc/eks/bootstrap.sh" in body:
            return _bootstrap(body)
    if "[settings" in text:
        return _bottlerocket(text)
    raise UserDataError("no bootstrap.sh call, no nodeadm NodeConfig and no Bottlerocket settings in the user data")


def _mime_parts(text: str) -> list[tuple[str, str]]:
    if not text.lstrip().lower().startswith(("mime-version:", "content-type:")):
        return [("", text)]
    message = email.message_from_string(text.lstrip())
    found = []
    for part in message.walk():
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes):
            found.append((part.get_content_type(), payload.decode(errors="replace")))
    return found


def _bootstrap(script: str) -> KubeletOptions:
    joined = re.sub(r"\\\r?\n", " ", script)
    line = next(line for line in joined.splitlines() if "/etc/eks/bootstrap.sh" in line)
    try:
        words = shlex.split(line[line.index("/etc/eks/bootstrap.sh") :])[1:]
    except ValueError as error:
        raise UserDataError(f"bootstrap.sh call can't be split: {error}") from error
    cluster, arguments = "", dict[str, str]()
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            name, given, value = word.partition("=")
            arguments[name] = value if given else next(rest, "")
        else:
            cluster = cluster or word
    flags = _flags(shlex.split(arguments.get("--kubelet-extra-args", "")))
    return _from_flags(AL2, cluster, flags, {})


def _nodeadm(documents: list[str]) -> KubeletOptions:
    """nodeadm merges all NodeConfigs of the user data; lists of flags add up, later configuration wins."""
    cluster, flags, config = "", list[str](), dict[str, Any]()
    try:
        for document in documents:
            spec = (yaml.safe_load(document) or {}).get("spec") or {}
            cluster = (spec.get("cluster") or {}).get("name") or cluster
            kubelet = spec.get("kubelet") or {}
            flags += kubelet.get("flags") or ()
            config |= kubelet.get("config") or {}
    except (yaml.YAMLError, AttributeError) as error:
        raise UserDataError(f"NodeConfig can't be read: {error}") from error
    return _from_flags(AL2023, cluster, _flags(flags), config)


def _flags(words: list[str]) -> dict[str, str]:
    flags = {}
    for word in words:
        name, _, value = word.partition("=")
        flags[name.lstrip("-")] = value
    return flags


def _from_flags(family: str, cluster: str, flags: Mapping[str, str], config: Mapping[str, Any]) -> KubeletOptions:
    if not cluster:
        raise UserDataError(f"the {family} user data names no cluster")
    max_pods = flags.get("max-pods") or config.get("maxPods")
    return KubeletOptions(
        family=family,
        cluster_name=cluster,
        labels=_pairs(flags.get("node-labels", ""), "="),
        taints=(*_taints(flags.get("register-with-taints", "")), *(config.get("registerWithTaints") or ())),
        max_pods=int(max_pods) if max_pods else None,
        pods_per_core=int(flags.get("pods-per-core") or config.get("podsPerCore") or 0),
        kube_reserved={**(config.get("kubeReserved") or {}), **_pairs(flags.get("kube-reserved", ""), "=")},
        system_reserved={**(config.get("systemReserved") or {}), **_pairs(flags.get("system-reserved", ""), "=")},
        eviction_hard={**(config.get("evictionHard") or {}), **_pairs(flags.get("eviction-hard", ""), "<")},
    )


def _pairs(text: str, separator: str) -> dict[str, str]:
    return {key: value for key, _, value in (item.partition(separator) for item in text.split(",") if item)}


def _taints(text: str) -> list[Obj]:
    taints = []
    for item in filter(None, text.split(",")):
        pair, _, effect = item.rpartition(":")
        key, _, value = pair.partition("=")
        if effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute") or not key:
            raise UserDataError(f"taint {item!r} is not key=value:effect; the kubelet would not start")
        taints.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return taints


def _bottlerocket(text: str) -> KubeletOptions:
    try:
        settings = tomllib.loads(text)["settings"]["kubernetes"]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UserDataError(f"Bottlerocket settings can't be read: {error!r}") from error
    if not settings.get("cluster-name"):
        raise UserDataError("settings.kubernetes.cluster-name is missing")
    taints = []
    for key, values in (settings.get("node-taints") or {}).items():
        for value in [values] if isinstance(values, str) else values:
            taints += _taints(f"{key}={value}")
    max_pods = settings.get("max-pods")
    return KubeletOptions(
        family=BOTTLEROCKET,
        cluster_name=settings["cluster-name"],
        labels={key: str(value) for key, value in (settings.get("node-labels") or {}).items()},
        taints=tuple(taints),
        max_pods=int(max_pods) if max_pods else None,
        kube_reserved=settings.get("kube-reserved") or {},
        system_reserved=settings.get("system-reserved") or {},
        eviction_hard=settings.get("eviction-hard") or {},
    )
