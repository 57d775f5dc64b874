"""Between what is stored and what a group version shows: events in both groups, versions of custom resources."""

from __future__ import annotations

from typing import Any

from sandbox.apiserver.kinds.resources import Resource

Obj = dict[str, Any]

# events.k8s.io/v1 → v1 (pkg/apis/events/v1/conversion.go); the other fields have the same names.
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_FIELDS = {core: new for new, core in _EVENT_FIELDS.items()}


def converts(resource: Resource, obj: Obj) -> bool:
    """Whether the stored object has another form than the group version shows."""
    return bool(obj.get("apiVersion") != resource.group_version)


def to_storage(resource: Resource, obj: Obj) -> None:
    """Changes an object from the form of its group version into the stored one, in place."""
    if (resource.group, resource.plural) == ("events.k8s.io", "events"):
        _rename(obj, _EVENT_FIELDS)
        obj["apiVersion"] = "v1"


def to_version(resource: Resource, obj: Obj) -> Obj:
    """The stored object in the form of a group version (a new dict when it differs)."""
    if not converts(resource, obj):
        return obj
    shown = {**obj, "apiVersion": resource.group_version, "kind": resource.kind}
    if (resource.group, resource.plural) == ("events.k8s.io", "events"):
        _rename(shown, _CORE_FIELDS)
    return shown


def _rename(obj: Obj, names: dict[str, str]) -> None:
    for old, new in names.items():
        if old in obj:
            obj[new] = obj.pop(old)
