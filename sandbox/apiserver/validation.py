"""Validation of built-in kinds where the product or its users would notice, and of custom resources by their schema."""

from __future__ import annotations

import re
from typing import Any

from sandbox.apiserver.api import API
from sandbox.apiserver.errors import Cause, invalid
from sandbox.apiserver.resources import Resource

Obj = dict[str, Any]

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN_HINT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_PATH_NAMES = {"rbac.authorization.k8s.io"}


def check_create(api: API, resource: Resource, obj: Obj) -> None:
    """Raises 422 with every broken rule of a new object."""
    causes = [*_metadata(resource, obj["metadata"]), *_body(api, resource, obj)]
    if causes:
        raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), causes)


def check_update(api: API, resource: Resource, subresource: str, old: Obj, obj: Obj) -> None:
    """Raises 422 with every broken rule of a changed object."""
    del subresource, old
    causes = [*_metadata(resource, obj["metadata"]), *_body(api, resource, obj)]
    if causes:
        raise invalid(resource.group, resource.kind, obj["metadata"]["name"], causes)


def _metadata(resource: Resource, metadata: Obj) -> list[Cause]:
    causes = []
    name = metadata.get("name")
    if not name:
        causes.append(Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name"))
    elif resource.group not in _PATH_NAMES and (len(name) > 253 or not _SUBDOMAIN.fullmatch(name)):
        causes.append(Cause("FieldValueInvalid", f'Invalid value: "{name}": {_SUBDOMAIN_HINT}', "metadata.name"))
    for key, value in (metadata.get("labels") or {}).items():
        if not _qualified(key):
            causes.append(
                Cause(
                    "FieldValueInvalid",
                    f'Invalid value: "{key}": name part must consist of alphanumeric characters',
                    "metadata.labels",
                )
            )
        if not isinstance(value, str) or len(value) > 63 or (value and not _QUALIFIED.fullmatch(value)):
            causes.append(
                Cause(
                    "FieldValueInvalid",
                    f'Invalid value: "{value}": a valid label must be an empty string or consist of alphanumeric characters',
                    "metadata.labels",
                )
            )
    return causes


def _qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        return False
    return bool(_QUALIFIED.fullmatch(name)) and len(name) <= 63


def _body(api: API, resource: Resource, obj: Obj) -> list[Cause]:
    del api, resource, obj
    return []
