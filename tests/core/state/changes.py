"""Short ways to say what a watch would."""

from __future__ import annotations

from typing import Any

from controller.core.state.change import Change, ChangeType
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot

Object = dict[str, Any]


def at(document: Object, version: int, **fields: Any) -> Object:
    """The document at a resource version, with other metadata."""
    return {**document, "metadata": {**document["metadata"], "resourceVersion": str(version), **fields}}


def added(*documents: Object) -> list[Change]:
    """ADDED events."""
    return [Change(document["kind"], ChangeType.ADDED, (document,)) for document in documents]


def modified(*documents: Object) -> list[Change]:
    """MODIFIED events."""
    return [Change(document["kind"], ChangeType.MODIFIED, (document,)) for document in documents]


def deleted(*documents: Object) -> list[Change]:
    """DELETED events."""
    return [Change(document["kind"], ChangeType.DELETED, (document,)) for document in documents]


def learned(*documents: Object) -> list[Change]:
    """Answers to our own writes."""
    return [Change(document["kind"], ChangeType.LEARNED, (document,)) for document in documents]


def listed(kind: str, *documents: Object, version: int | str = "") -> list[Change]:
    """A list of everything there is."""
    return [Change(kind, ChangeType.REPLACED, documents, str(version))]


def take(cluster: Cluster, *changes: list[Change]) -> Snapshot:
    """Apply, and look."""
    for group in changes:
        for change in group:
            cluster.apply(change)
    return cluster.snapshot()
