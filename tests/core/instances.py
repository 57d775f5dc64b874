"""CloudInstances for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.cloud import CloudInstance


def cloud_instance(
    *,
    number: int = 1,
    provisioner: str = "default",
    zone: str = "eu-west-1a",
    capacity_type: str = keys.SPOT,
    instance_type: str = "m5.large",
    tags: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **fields: Any,
) -> CloudInstance:
    """A running spot instance with the labels that the cloud knows."""
    name = f"i-{number:017x}"
    known = {
        keys.INSTANCE_TYPE: instance_type,
        keys.ZONE: zone,
        keys.CAPACITY_TYPE: capacity_type,
        keys.PROVISIONER_NAME: provisioner,
    }
    defaults = {
        "id": name,
        "provider_id": f"aws:///{zone}/{name}",
        "node_name": f"ip-10-0-0-{number}.eu-west-1.compute.internal",
        "image_id": "ami-1",
        "state": "running",
        "launched_at": 0.0,
        "tags": FrozenMap(tags or {}),
        "labels": FrozenMap({**known, **(labels or {})}),
    }
    return CloudInstance(
        **{**defaults, **fields},
        instance_type=instance_type,
        zone=zone,
        capacity_type=capacity_type,
        provisioner_name=provisioner,
    )
