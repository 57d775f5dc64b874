"""metadata of the two kinds of our own: read, and its name checked."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.api.document import Document, mapping, string_map, text, timestamp, whole
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.names import dns_1035_error
from controller.core.api.strict import Fields, Report

OBJECT_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True, slots=True)
class Metadata:
    """The fields of metadata that the controller uses. Times are Unix seconds."""

    name: str
    uid: str = ""
    generation: int = 0
    annotations: FrozenMap[str, str] = EMPTY
    deleted_at: float | None = None
    resource_version: str = ""


def read_object(report: Report, obj: Document, spec_fields: tuple[str, ...]) -> tuple[Metadata, Fields]:
    """Return an object's metadata and spec, both checked; unknown fields are problems."""
    document = Fields(report, obj, "", OBJECT_FIELDS)
    return _metadata(report, mapping(obj.get("metadata"))), document.child("spec", spec_fields)


def _metadata(report: Report, meta: Document) -> Metadata:
    name, prefix = text(meta.get("name")), text(meta.get("generateName"))
    if name:
        _check_name(report, "metadata.name", name)
    elif prefix:
        _check_name(report, "metadata.generateName", prefix.removesuffix("-"))
    else:
        report.add("metadata.name", "is missing", "give the object a name, or a generateName")
    return Metadata(
        name=name,
        uid=text(meta.get("uid")),
        generation=whole(meta.get("generation")),
        annotations=string_map(meta.get("annotations")),
        deleted_at=timestamp(meta.get("deletionTimestamp")),
        resource_version=text(meta.get("resourceVersion")),
    )


def _check_name(report: Report, path: str, name: str) -> None:
    """A DNS-1035 label, without dots: the name becomes part of tags and of a label's value."""
    if wrong := dns_1035_error(name):
        report.add(path, wrong)
