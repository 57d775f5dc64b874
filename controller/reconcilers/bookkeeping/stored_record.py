"""A record that the controller keeps in a ConfigMap, with a version, so that older and newer controllers can share it.

The rules are those of records on nodes (core.deprovisioning.versioned_json): within a version content is only added to,
and what this controller does not know stays, since a merge patch leaves other keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog

from controller.core.deprovisioning.versioned_json import VERSION
from controller.kube.config_maps import read_config_map, write_config_map
from controller.reconcilers.context import ReconcilerContext
from controller.runtime.metrics import UNREADABLE_RECORDS

RECORD_VERSION: Final = "karpenter.sh/record-version"
"""Annotation of the ConfigMap; without it, it is of version 1."""


class StoredRecord:
    """One ConfigMap. One of a later version is neither read nor overwritten: that controller may be deployed again."""

    def __init__(self, context: ReconcilerContext, name: str) -> None:
        self._kube, self._namespace, self._recorder = context.kube, context.namespace, context.recorder
        self._name = name
        self._readable = True
        self._log = structlog.get_logger("records")

    def read(self) -> Mapping[str, Any]:
        """Return the ConfigMap's document; empty when there is none of this version. Raises KubeError."""
        document = read_config_map(self._kube, self._namespace, self._name)
        annotations = (document.get("metadata") or {}).get("annotations") or {}
        version = str(annotations.get(RECORD_VERSION, VERSION))
        self._readable = version == str(VERSION)
        if self._readable:
            return document
        why = f"is of version {version[:20]!r}; this controller reads {VERSION}"
        self.unreadable(why, "it is left as it is, and nothing is stored until it is deleted")
        return {}

    def unreadable(self, error: str, consequence: str) -> None:
        """Report what cannot be read. Each process reads the record once, and so reports it once."""
        self._recorder.count(UNREADABLE_RECORDS, self._name)
        self._log.warning("Record cannot be read", record=self._name, error=error, so=consequence)

    def write(self, **content: Mapping[str, str]) -> None:
        """Merge `content` (`data`, `binaryData`) into the ConfigMap, or create it. Raises KubeError."""
        if self._readable:
            versioned = {RECORD_VERSION: str(VERSION)}
            write_config_map(self._kube, self._namespace, self._name, annotations=versioned, **content)
