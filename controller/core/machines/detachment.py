"""Volumes that must be detached before their instance is terminated.

Kubernetes detaches the volumes of a node that is gone only after `maxWaitForUnmountDuration` (6 minutes), while their
pods wait elsewhere. As long as the instance runs, the CSI driver detaches them in seconds. Later Karpenter versions
wait too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.core.api.pod import Pod
from controller.core.machines.draining import holds
from controller.core.state.snapshot import Snapshot


def attached(
    attachments: Iterable[Mapping[str, Any]], pods: Iterable[Pod], snapshot: Snapshot, now: float
) -> tuple[str, ...]:
    """Return names of volumes still attached to a drained node, sorted. attachments: its VolumeAttachments.

    Volumes of `pods` that stay until the node's end (daemons and static pods) do not count: they are never detached.
    """
    claims = {(pod.namespace, volume.claim_name) for pod in pods if not holds(pod, now) for volume in pod.volumes}
    kept = {name for name, volume in snapshot.volumes.items() if volume.claim in claims}
    return tuple(sorted(name for name in map(_volume, attachments) if name not in kept))


def _volume(attachment: Mapping[str, Any]) -> str:
    source = attachment["spec"].get("source") or {}
    return str(source.get("persistentVolumeName") or attachment["metadata"]["name"])
