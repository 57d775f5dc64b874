"""Validation of names, labels and references of every object; kinds and custom resources add their own rules."""

from __future__ import annotations

import re
from typing import Any

from sandbox.apiserver.api import API
from sandbox.apiserver.errors import Cause, invalid
from sandbox.apiserver.kinds.resources import Resource
from sandbox.apiserver.kinds.rules import kind_rules, update_rules

Obj = dict[str, Any]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN_HINT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_KEY_HINT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_HINT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
# Names that are path segments, not DNS names (roles are called system:node).
_PATH_NAMES = {"rbac.authorization.k8s.io"}


def check_create(api: API, resource: Resource, obj: Obj) -> None:
    """Raises 422 with every broken rule of a new object."""
    causes = [*_metadata(resource, obj["metadata"]), *_body(api, resource, obj, None)]
    if causes:
        raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), causes)


def check_update(api: API, resource: Resource, subresource: str, old: Obj, obj: Obj) -> None:
    """Raises 422 with every broken rule of a changed object."""
    causes = _metadata(resource, obj["metadata"])
    causes += _late_finalizers(old["metadata"], obj["metadata"])
    if subresource == "":
        causes += update_rules(resource, old, obj)
    if not causes:
        causes = _body(api, resource, obj, old)
    if causes:
        raise invalid(resource.group, resource.kind, obj["metadata"]["name"], causes)


def _metadata(resource: Resource, metadata: Obj) -> list[Cause]:
    causes = []
    name = metadata.get("name")
    if not name:
        required = "Required value: name or generateName is required"
        causes.append(Cause("FieldValueRequired", required, "metadata.name"))
    elif resource.group not in _PATH_NAMES and (len(name) > 253 or not _SUBDOMAIN.fullmatch(name)):
        causes.append(Cause("FieldValueInvalid", f'Invalid value: "{name}": {_SUBDOMAIN_HINT}', "metadata.name"))
    causes += label_causes(metadata.get("labels") or {}, "metadata.labels")
    for key in metadata.get("annotations") or {}:
        if not is_qualified(key.lower()):
            causes.append(Cause("FieldValueInvalid", f'Invalid value: "{key}": {_KEY_HINT}', "metadata.annotations"))
    for finalizer in metadata.get("finalizers") or ():
        if not is_qualified(finalizer):
            causes.append(
                Cause("FieldValueInvalid", f'Invalid value: "{finalizer}": {_KEY_HINT}', "metadata.finalizers")
            )
    for i, reference in enumerate(metadata.get("ownerReferences") or ()):
        causes += [
            Cause("FieldValueInvalid", 'Invalid value: "": must not be empty', f"metadata.ownerReferences[{i}].{field}")
            for field in ("apiVersion", "kind", "name", "uid")
            if not reference.get(field)
        ]
    return causes


def _late_finalizers(old: Obj, new: Obj) -> list[Cause]:
    if "deletionTimestamp" not in old:
        return []
    late = [finalizer for finalizer in new.get("finalizers") or () if finalizer not in (old.get("finalizers") or ())]
    words = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"
    listed = ", ".join(f'"{finalizer}"' for finalizer in late)
    return [Cause("FieldValueForbidden", f"{words}{listed}}}", "metadata.finalizers")] if late else []


def label_causes(labels: Obj, path: str) -> list[Cause]:
    """Keys and values that are no labels."""
    causes = []
    for key, value in labels.items():
        if not is_qualified(key):
            causes.append(Cause("FieldValueInvalid", f'Invalid value: "{key}": {_KEY_HINT}', path))
        if len(value) > 63:
            causes.append(Cause("FieldValueInvalid", f'Invalid value: "{value}": must be no more than 63 bytes', path))
        if value and not _QUALIFIED.fullmatch(value):
            causes.append(Cause("FieldValueInvalid", f'Invalid value: "{value}": {_VALUE_HINT}', path))
    return causes


def is_qualified(key: str) -> bool:
    """Whether a text is a label key: a name with an optional DNS prefix."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return False
    return bool(_QUALIFIED.fullmatch(name)) and len(name) <= 63


def _body(api: API, resource: Resource, obj: Obj, old: Obj | None) -> list[Cause]:
    custom = api.custom_type(resource)
    if custom is not None:
        return custom.validator.causes(obj, old)
    return kind_rules(resource, obj)
