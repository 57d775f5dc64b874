"""The kinds of dynamic resource allocation (DRA) on an API server: not every one serves them."""

from __future__ import annotations

from controller.kube.client import KubeClient
from controller.kube.resources import DEVICE_VERSIONS, DEVICES, Resource, device_resources


def served_devices(kube: KubeClient) -> tuple[Resource, ...]:
    """The kinds in the best version that the server serves; none where it serves no version that is read.

    Raises KubeError when the server does not answer.
    """
    served = kube.versions(DEVICES)
    version = next((each for each in DEVICE_VERSIONS if each in served), None)
    return () if version is None else device_resources(version)
