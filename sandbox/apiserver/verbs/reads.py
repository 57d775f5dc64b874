"""Lists: selectors, pages, older versions."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import orjson

from sandbox.apiserver.api import API
from sandbox.apiserver.errors import APIError, bad_request, expired
from sandbox.apiserver.kinds.resources import StorageKey
from sandbox.apiserver.requests import Request
from sandbox.apiserver.storage.store import CompactedError, Entry, ObjectKey
from sandbox.apiserver.verbs.selectors import Filter, parse_fields, parse_labels

_STALE_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a list: entries, the version that they are of, and where the next page starts."""

    entries: list[Entry]
    resource_version: int
    continue_token: str = ""
    remaining: int = 0

    def metadata(self) -> dict[str, Any]:
        """`metav1.ListMeta`."""
        body: dict[str, Any] = {"resourceVersion": str(self.resource_version)}
        if self.continue_token:
            body["continue"] = self.continue_token
            body["remainingItemCount"] = self.remaining
        return body


def filter_of(api: API, request: Request) -> Filter:
    """Both selectors of a request. Raises 400."""
    labels = parse_labels(request.query.get("labelSelector", ""))
    custom = api.custom_type(request.resource)
    fields = parse_fields(
        request.query.get("fieldSelector", ""), request.resource, custom.selectable_fields if custom else ()
    )
    return Filter(labels, fields)


def page(api: API, request: Request) -> Page:
    """The objects that a list asks for. Raises 400, 410 (too old), 504 (a version of the future)."""
    query = request.query
    wanted = filter_of(api, request)
    limit = int(query.get("limit") or 0)
    token = query.get("continue", "")
    version, start = _decode_token(token) if token else (_requested_version(api, request), ("", ""))
    if version is None:
        version = api.store.resource_version
        entries = api.store.list(request.resource.storage_key, request.namespace)
    else:
        entries = _entries_at(api, request, version)
    if not wanted.everything:
        entries = [entry for entry in entries if wanted.matches(entry.obj)]
    if token:
        entries = [entry for entry in entries if _key(entry) > start]
    if not limit or len(entries) <= limit:
        return Page(entries, version)
    shown = entries[:limit]
    return Page(shown, version, _encode_token(version, _key(shown[-1])), len(entries) - limit)


def _key(entry: Entry) -> ObjectKey:
    metadata = entry.obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _requested_version(api: API, request: Request) -> int | None:
    """None for the present state: a list "not older than" a version may always be newer."""
    version, match = request.query.get("resourceVersion", ""), request.query.get("resourceVersionMatch", "")
    if match and not version:
        raise bad_request("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if not version:
        return None
    if not version.isdecimal():
        raise bad_request(f'invalid resource version "{version}"')
    if int(version) > api.store.resource_version:
        raise too_large(int(version), api.store.resource_version)
    return int(version) if match == "Exact" and int(version) else None


def too_large(asked: int, present: int) -> APIError:
    """504: the asked version has not happened yet."""
    details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    return APIError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {present}",
        details=details,
        retry_after=1,
    )


def _entries_at(api: API, request: Request, version: int) -> list[Entry]:
    try:
        return entries_at(api, request.resource.storage_key, request.namespace, version)
    except CompactedError as error:
        if request.query.get("continue"):
            raise expired(_STALE_CONTINUE) from error
        raise expired("The resourceVersion for the provided list is too old.") from error


def entries_at(api: API, key: StorageKey, namespace: str, version: int) -> list[Entry]:
    """The objects as they were at a version, by undoing the events since then. Raises CompactedError."""
    undone = {entry_key: entry for entry in api.store.list(key) for entry_key in (_key(entry),)}
    for event in reversed(list(api.store.since(key, version))):
        if event.before is None:
            undone.pop(event.key, None)
        else:
            undone[event.key] = event.before
    return [undone[k] for k in sorted(undone) if not namespace or k[0] == namespace]


def _encode_token(version: int, last: ObjectKey) -> str:
    return (
        base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": list(last)}))
        .decode()
        .rstrip("=")
    )


def _decode_token(token: str) -> tuple[int, ObjectKey]:
    try:
        value = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = value["start"]
        return int(value["rv"]), (str(namespace), str(name))
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
