"""Volumes that must be detached before their instance goes, lest their pods wait six minutes for them elsewhere.

Kubernetes detaches a volume of a node that is gone by force only after `maxWaitForUnmountDuration` (6 minutes); of one
whose instance still runs, the CSI driver detaches it in seconds. The later peer waits in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.core.api.pod import Pod
from controller.core.machines.draining import holds
from controller.core.state.snapshot import Snapshot


def attached(
    attachments: Iterable[Mapping[str, Any]], node_name: str, pods: Iterable[Pod], snapshot: Snapshot, now: float
) -> tuple[str, ...]:
    """Names of volumes still attached to a drained node, sorted; `attachments` are VolumeAttachment documents.

    Those of `pods` that stay on the node until its end (daemons and static pods) are not waited for: nobody takes them
    off.
    """
    claims = {(pod.namespace, volume.claim_name) for pod in pods if not holds(pod, now) for volume in pod.volumes}
    kept = {name for name, volume in snapshot.volumes.items() if volume.claim in claims}
    return tuple(sorted(name for name in map(_volume, attachments_of(attachments, node_name)) if name not in kept))


def attachments_of(attachments: Iterable[Mapping[str, Any]], node_name: str) -> list[Mapping[str, Any]]:
    """Those of one node. (The API has no field selector for it.)"""
    return [each for each in attachments if (each.get("spec") or {}).get("nodeName") == node_name]


def _volume(attachment: Mapping[str, Any]) -> str:
    source = attachment["spec"].get("source") or {}
    return str(source.get("persistentVolumeName") or attachment["metadata"]["name"])
