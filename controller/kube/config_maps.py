"""Read and write whole ConfigMaps, in which the controller keeps what must outlive a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.errors import NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import CONFIG_MAPS


def read_config_map(kube: KubeClient, namespace: str, name: str) -> Mapping[str, Any]:
    """The ConfigMap's document; empty when it does not exist. Raises KubeError."""
    try:
        return kube.get(CONFIG_MAPS, name, namespace)
    except NotFoundError:
        return {}


def write_config_map(
    kube: KubeClient, namespace: str, name: str, *, annotations: Mapping[str, str], **content: Mapping[str, str]
) -> None:
    """Merge `annotations` and `content` (`data`, `binaryData`) into the ConfigMap, or create it. Raises KubeError."""
    patch = {"metadata": {"annotations": annotations}, **content}
    try:
        kube.patch(CONFIG_MAPS, name, patch, namespace=namespace)
    except NotFoundError:
        metadata = {"name": name, "namespace": namespace, "annotations": annotations}
        document = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata, **content}
        kube.create(CONFIG_MAPS, document, namespace)
