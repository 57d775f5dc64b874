"""A change that a watch reports: its kind and its objects as decoded JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.core.api.document import Document


class ChangeType(Enum):
    """ADDED, MODIFIED and DELETED are the watch's own words; REPLACED carries the whole list of a kind."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    REPLACED = "REPLACED"
    LEARNED = "LEARNED"
    """The API server's response to our own write: known before the watch reports it, and kept until then."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of `kind` (a Kubernetes kind such as "Pod").

    `objects` has one object, or for REPLACED all there are. `resource_version` is the list's own, for REPLACED alone.
    """

    kind: str
    type: ChangeType
    objects: tuple[Document, ...]
    resource_version: str = ""
