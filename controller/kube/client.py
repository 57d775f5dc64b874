"""The Kubernetes API on raw JSON: decoded documents in, decoded documents out, our own errors.

Every call has a timeout, goes through one rate limiter, and is repeated with back-off where that is safe (see `retry`).
An outage that outlasts the few attempts is raised as UnavailableError; a loop that would rather wait wraps its call in
`retrying`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
import urllib3

import controller
from controller.clock import Clock, SystemClock
from controller.errors import GoneError, KubeError, UnavailableError
from controller.kube import retry
from controller.kube.connection import Connection
from controller.kube.documents import Decode, RawList, decode_list, decode_object, decoder_of
from controller.kube.ratelimit import TokenBucket
from controller.kube.resources import PODS, Resource
from controller.kube.retry import Backoff
from controller.kube.status import NotSentError, error_of
from controller.kube.stream import WatchStream

T = TypeVar("T")
Document = dict[str, Any]

_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How the client treats the API server. The rates are the peer's KUBE_CLIENT_QPS and KUBE_CLIENT_BURST."""

    qps: float = 200.0
    burst: int = 300
    connect_timeout_seconds: float = 5.0
    timeout_seconds: float = 30.0
    """Between two bytes of an answer."""
    page_size: int = 1000
    """Objects a page of a list."""
    backoff: Backoff = field(default_factory=Backoff)
    user_agent: str = f"nodeless/{controller.__version__}"


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
    ) -> None:
        """`stop`, once set, ends waits between attempts: the last error is raised."""
        self.connection = connection
        self.options = options or ClientOptions()
        self._clock = clock or SystemClock()
        self._stop = stop or threading.Event()
        self._bucket = TokenBucket(self.options.qps, self.options.burst, self._clock)

    def with_options(self, **changes: Any) -> KubeClient:
        """A client of the same connection with other options and a rate limit of its own."""
        return KubeClient(self.connection, replace(self.options, **changes), self._clock, self._stop)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Document:
        """One object. Raises NotFoundError."""
        return self._call("GET", resource, namespace, name)

    def list(
        self, resource: Resource, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> list[Document]:
        """All objects, page by page."""
        found = self.list_all(resource, namespace, label_selector, field_selector, decode_object)
        return [dict(item) for item in found.items]

    def list_all(
        self,
        resource: Resource,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        decode: Decode | None = None,
    ) -> ObjectList:
        """All objects of one moment, and its resource version; `decode` defaults to the resource's frugal decoder.

        A page token that expired (410) starts the list anew, in one answer without pages if it happens twice.
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
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        namespace: str = "",
        kind: str = "merge",
        subresource: str = "",
    ) -> Document:
        """Change parts of an object. `kind` is merge, json or strategic (built-in kinds alone).

        A merge patch with metadata.resourceVersion raises ConflictError when the object has changed since.
        """
        content_type = _PATCH_TYPES[kind]
        idempotent = kind != "json"
        return self._call(
            "PATCH",
            resource,
            namespace,
            name,
            subresource,
            body=patch,
            content_type=content_type,
            idempotent=idempotent,
        )

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
    ) -> Document:
        """Ask for deletion. Raises NotFoundError, and ConflictError when the uid or version is another's."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if wanted := {key: value for key, value in preconditions.items() if value is not None}:
            options["preconditions"] = wanted
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy is not None:
            options["propagationPolicy"] = propagation_policy
        return self._call("DELETE", resource, namespace, name, body=options)

    def evict(self, namespace: str, name: str, uid: str, *, grace_period_seconds: int | None = None) -> None:
        """Ask for an eviction of this very pod (policy/v1).

        Raises TooManyRequestsError when a PodDisruptionBudget says no (it is not repeated here), NotFoundError when
        the pod is gone, ConflictError when the name is another pod's by now.
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
        self._call("POST", PODS, namespace, name, "eviction", body=body, idempotent=True, repeat_busy=False)

    def watch(
        self,
        resource: Resource,
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float = 300.0,
        read_timeout_seconds: float = 150.0,
    ) -> WatchStream:
        """Follow changes from a resource version on, with bookmarks. Use it in a `with`, iterate, `close()` to stop.

        Not repeated on failure: the watcher that follows decides. Raises GoneError when the version is too old already.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(timeout_seconds))),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        what = f"watch {resource.plural}"
        url = self._url(resource.path(namespace), query)
        self._take_token()
        response = self._send("GET", url, None, {}, what, read_timeout_seconds, preload=False)
        return WatchStream(response, what, decoder_of(resource))

    def version(self) -> Document:
        """The server's version document."""
        return decode_document(self._exchange("GET", self._url("/version", {}), None, {}, "get version"), "get version")

    def retrying(
        self,
        fn: Callable[[], T],
        *,
        stop: threading.Event | None = None,
        backoff: Backoff | None = None,
        before_wait: Callable[[KubeError, float], None] | None = None,
    ) -> T:
        """Call `fn` (made of calls to this client) until the API server answers, however long that takes.

        Only UnavailableErrors are waited out; other errors are raised, and so is the last one when `stop` is set.
        `before_wait` gets each error and the seconds until the next attempt: for saying an outage once.
        """
        policy = backoff or Backoff(initial_seconds=0.5, max_seconds=10.0, attempts=0)
        return retry.call(
            fn,
            policy,
            self._clock,
            stop or self._stop,
            lambda error: isinstance(error, UnavailableError),
            before_wait,
        )

    def _pages(
        self, resource: Resource, namespace: str, selectors: Mapping[str, str], limit: int, decode: Decode
    ) -> ObjectList:
        items: list[Mapping[str, Any]] = []
        token = ""
        what = f"list {resource.plural}"
        while True:
            query = {**selectors, "limit": str(limit) if limit else "", "continue": token}
            url = self._url(resource.path(namespace), query)
            page = self._page(url, what)
            items.extend(decode(raw) for raw in page.items or ())
            token = page.metadata.continue_
            if not token:
                return ObjectList(tuple(items), page.metadata.resource_version)

    def _page(self, url: str, what: str) -> RawList:
        body = self._repeat(lambda: self._exchange("GET", url, None, {}, what), True, True)
        try:
            return decode_list(body)
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"{what}: the answer is no list: {error}") from error

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
        what = _describe(method, resource, namespace, name or _name_in(body), subresource)
        url = self._url(resource.path(namespace, name, subresource), {})
        payload = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": content_type}
        answer = self._repeat(lambda: self._exchange(method, url, payload, headers, what), idempotent, repeat_busy)
        return decode_document(answer, what)

    def _repeat(self, fn: Callable[[], T], idempotent: bool, repeat_busy: bool) -> T:
        def worth(error: BaseException) -> bool:
            busy = isinstance(error, KubeError) and error.status == 429
            return retry.repeatable(error, idempotent) and (repeat_busy or not busy)

        return retry.call(fn, self.options.backoff, self._clock, self._stop, worth)

    def _exchange(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], what: str) -> bytes:
        self._take_token()
        return self._send(method, url, body, headers, what, self.options.timeout_seconds, preload=True).data

    def _send(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        what: str,
        read_timeout_seconds: float,
        *,
        preload: bool,
    ) -> urllib3.BaseHTTPResponse:
        sent = {
            "Accept": "application/json",
            "User-Agent": self.options.user_agent,
            **headers,
            **self.connection.auth_headers(),
        }
        timeout = urllib3.Timeout(connect=self.options.connect_timeout_seconds, read=read_timeout_seconds)
        try:
            response = self.connection.pool.request(
                method, url, body=body, headers=sent, timeout=timeout, retries=False, preload_content=preload
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            raise NotSentError(f"{what}: no connection to {self.connection.server}: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnavailableError(f"{what}: no answer from {self.connection.server}: {error}") from error
        if response.status < 400:
            return response
        raise error_of(response.status, response.data, what, response.headers.get("Retry-After", ""))

    def _take_token(self) -> None:
        seconds = self._bucket.reserve()
        if seconds > 0:
            self._clock.wait(self._stop, seconds)

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        filled = {key: value for key, value in query.items() if value}
        return f"{self.connection.server}{path}" + (f"?{urlencode(filled)}" if filled else "")


def _describe(method: str, resource: Resource, namespace: str, name: str, subresource: str) -> str:
    """Which call on which object, for messages: "update Lease kube-system/leader", "create Pod default/a eviction"."""
    target = "/".join(part for part in (namespace if resource.namespaced else "", name) if part)
    return " ".join(part for part in (_VERBS[method], resource.kind, target, subresource) if part)


def _name_in(body: object | None) -> str:
    """The name, or its prefix, of an object to create."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    return str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, Mapping) else ""


def decode_document(body: bytes, what: str) -> Document:
    """The answer as a JSON object; an empty answer is an empty object. Raises UnavailableError when it is neither."""
    try:
        return dict(decode_object(body)) if body else {}
    except msgspec.MsgspecError as error:
        raise UnavailableError(f"{what}: the answer is no JSON object: {error}") from error
