"""A client of the Kubernetes API on decoded JSON documents; it raises the KubeErrors of `controller.errors`.

Every call has a timeout, passes one rate limiter, and is retried with back-off where that is safe (see `retry`). An
outage that outlasts the attempts is raised as UnavailableError.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from controller.core.api.document import objects, text
from controller.errors import GoneError, NotFoundError, UnavailableError
from controller.kube.connection import Connection
from controller.kube.list_decoding import Decode, decode_list, decode_object, decoder_of
from controller.kube.resources import PODS, Resource
from controller.kube.stream import WatchStream
from controller.kube.transport import ClientOptions, Request, Transport
from controller.runtime.clock import Clock, SystemClock
from controller.runtime.metrics import SILENT, Recorder

__all__ = ["ClientOptions", "KubeClient", "ObjectList"]

T = TypeVar("T")
Document = dict[str, Any]

_PATCH_TYPES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list and the resource version to watch from."""

    items: tuple[Mapping[str, Any], ...]
    resource_version: str


class KubeClient:
    """Thread-safe. Methods raise the KubeErrors of `controller.errors`; objects are decoded JSON."""

    def __init__(
        self,
        connection: Connection,
        options: ClientOptions | None = None,
        clock: Clock | None = None,
        stop: threading.Event | None = None,
        recorder: Recorder = SILENT,
    ) -> None:
        """Setting `stop` ends waits between attempts: the last error is raised."""
        self._transport = Transport(
            connection, options or ClientOptions(), clock or SystemClock(), stop or threading.Event(), recorder
        )

    @property
    def connection(self) -> Connection:
        return self._transport.connection

    @property
    def options(self) -> ClientOptions:
        return self._transport.options

    def with_options(self, **changes: Any) -> KubeClient:
        """A client of the same connection with other options and its own rate limit."""
        options = replace(self.options, **changes)
        own = self._transport
        return KubeClient(self.connection, options, own.clock, own.stop, own.recorder)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Document:
        """One object. Raises NotFoundError."""
        return self._call("GET", resource, namespace, name)

    def list(
        self, resource: Resource, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> list[Document]:
        """All objects, page by page."""
        listed = self.list_all(resource, namespace, label_selector, field_selector, decode_object)
        return [dict(item) for item in listed.items]

    def list_all(
        self,
        resource: Resource,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        decode: Decode | None = None,
    ) -> ObjectList:
        """All objects at one resource version, and that version; `decode` defaults to `decoder_of(resource)`.

        If a page token expires (410), the list is restarted, the second time without pages.
        """
        decode = decode or decoder_of(resource)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        for limit in (self.options.page_size, self.options.page_size, 0):
            try:
                return self._pages(resource, namespace, selectors, limit, decode)
            except GoneError:
                if not limit:
                    raise
        raise AssertionError("unreachable: the last round returns or raises")

    def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = "", *, subresource: str = "", name: str = ""
    ) -> Document:
        """Create; `subresource` with `name` posts to one (binding, eviction, token). Raises AlreadyExistsError."""
        return self._call("POST", resource, namespace, name, subresource, body=obj, idempotent=False)

    def update(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> Document:
        """Replace the object that `obj` names. Raises ConflictError when its resourceVersion is stale."""
        metadata = obj["metadata"]
        return self._call(
            "PUT", resource, namespace or metadata.get("namespace", ""), metadata["name"], subresource, body=obj
        )

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        kind: str = "merge",
        subresource: str = "",
    ) -> Document:
        """Change parts of an object. `kind` is merge or strategic (built-in kinds alone).

        A merge patch with metadata.resourceVersion raises ConflictError when the object has changed since.
        """
        content_type = _PATCH_TYPES[kind]
        return self._call("PATCH", resource, namespace, name, subresource, body=patch, content_type=content_type)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        grace_period_seconds: int | None = None,
    ) -> Document:
        """Delete an object. Raises NotFoundError, and ConflictError when its uid is another."""
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        return self._call("DELETE", resource, namespace, name, body=options)

    def evict(self, namespace: str, name: str, uid: str, *, grace_period_seconds: int | None = None) -> None:
        """Evict the pod with this uid (policy/v1).

        Raises TooManyRequestsError when a PodDisruptionBudget forbids it, UnavailableError (500) when several budgets
        cover the pod, NotFoundError when it is gone, ConflictError when another pod has its name. A 429 is not retried
        here: the next step of the drain asks again, and the other pods need not wait.
        """
        options: Document = {"preconditions": {"uid": uid}}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": options,
        }
        self._call("POST", PODS, namespace, name, "eviction", body=body, idempotent=False, repeat_busy=False)

    def watch(
        self,
        resource: Resource,
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float = 60.0,
        read_timeout_seconds: float = 65.0,
    ) -> WatchStream:
        """Watch changes from a resource version on, with bookmarks. Use it in a `with`, iterate, `close()` to stop.

        Not retried: the watcher decides. Raises GoneError when the version is too old.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(timeout_seconds))),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        request = Request("GET", resource.path(namespace), f"watch {resource.plural}", query)
        response = self._transport.stream(request, read_timeout_seconds)
        return WatchStream(response, request.what, decoder_of(resource))

    def version(self) -> Document:
        return self._document(Request("GET", "/version", "get version"))

    def versions(self, group: str) -> tuple[str, ...]:
        """The versions of an API group that the server serves; none when it does not know the group."""
        try:
            answer = self._document(Request("GET", f"/apis/{group}", f"get API group {group}"))
        except NotFoundError:
            return ()
        return tuple(text(each.get("version")) for each in objects(answer.get("versions")))

    def _pages(
        self, resource: Resource, namespace: str, selectors: Mapping[str, str], limit: int, decode: Decode
    ) -> ObjectList:
        items: list[Mapping[str, Any]] = []
        token = ""
        while True:
            query = {**selectors, "limit": str(limit) if limit else "", "continue": token}
            request = Request("GET", resource.path(namespace), f"list {resource.plural}", query)
            listed, token = self._read(request, lambda body: _page(body, decode), "list of objects")
            items.extend(listed.items)
            if not token:
                return ObjectList(tuple(items), listed.resource_version)

    def _call(
        self,
        method: str,
        resource: Resource,
        namespace: str,
        name: str,
        subresource: str = "",
        *,
        body: object | None = None,
        content_type: str = "application/json",
        idempotent: bool = True,
        repeat_busy: bool = True,
    ) -> Document:
        return self._document(
            Request(
                method,
                resource.path(namespace, name, subresource),
                _describe(method, resource, namespace, name or _name_in(body), subresource),
                body=None if body is None else msgspec.json.encode(body),
                content_type=content_type,
                idempotent=idempotent,
                repeat_busy=repeat_busy,
            )
        )

    def _document(self, request: Request) -> Document:
        """The answer as a JSON object; an empty answer is an empty object."""
        return self._read(request, lambda body: dict(decode_object(body)) if body else {}, "JSON object")

    def _read(self, request: Request, decode: Callable[[bytes], T], form: str) -> T:
        body = self._transport.exchange(request)
        try:
            return decode(body)
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"{request.what}: the answer is no {form}: {error}") from error


def _page(body: bytes, decode: Decode) -> tuple[ObjectList, str]:
    """A page of a list, and the token of the next one; empty for the last."""
    page = decode_list(body)
    return ObjectList(tuple(map(decode, page.items or ())), page.metadata.resource_version), page.metadata.continue_


def _describe(method: str, resource: Resource, namespace: str, name: str, subresource: str) -> str:
    """Which call on which object, for messages: "update Lease kube-system/leader", "create Pod default/a eviction"."""
    target = "/".join(part for part in (namespace if resource.namespaced else "", name) if part)
    return " ".join(part for part in (_VERBS[method], resource.kind, target, subresource) if part)


def _name_in(body: object | None) -> str:
    """The name, or its prefix, of an object to create."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, Mapping) else ""
