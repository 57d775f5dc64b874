"""From a request on a resource to an HTTP answer: picks the operation by verb and subresource."""

from __future__ import annotations

import logging
from typing import Any

import orjson
from aiohttp import web

from sandbox.apiserver.api import API
from sandbox.apiserver.errors import APIError, internal, method_not_allowed
from sandbox.apiserver.requests import Request
from sandbox.apiserver.storage import deletion
from sandbox.apiserver.storage.store import Entry, Obj
from sandbox.apiserver.tables.views import View
from sandbox.apiserver.verbs import reads, subresources, writes
from sandbox.apiserver.verbs.watch import Watches

log = logging.getLogger(__name__)
JSON = "application/json"


def json_response(
    body: bytes | dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """An answer of ours, with Kubernetes' content type."""
    payload = body if isinstance(body, bytes) else orjson.dumps(body)
    return web.Response(body=payload, status=status, headers={"Content-Type": JSON, **(headers or {})})


def refusal(error: APIError) -> web.Response:
    """A refusal as its Status, with Retry-After when the client should come back."""
    headers = {} if error.retry_after_seconds is None else {"Retry-After": str(error.retry_after_seconds)}
    return json_response(error.status(), error.code, headers)


async def answer(api: API, watches: Watches, request: Request, raw: web.BaseRequest) -> web.StreamResponse:
    """Runs one request. Refusals are raised as APIError."""
    if request.verb == "watch":
        return await _watch(api, watches, request, raw)
    if request.verb == "list":
        found = reads.page(api, request)
        return json_response(View(api, request).listing(found.entries, found.metadata()))
    if request.subresource in ("scale", "binding", "eviction", "log"):
        return await _subresource(api, request)
    return await _object(api, request)


async def _object(api: API, request: Request) -> web.Response:
    view = View(api, request)
    match request.verb:
        case "get":
            return json_response(view.object(api.entry(request)))
        case "create" if not request.subresource and not request.name:
            return _written(view, await writes.create(api, request))
        case "update":
            return _written(view, await writes.update(api, request))
        case "patch":
            return _written(view, await writes.patch(api, request))
        case "delete" if not request.subresource:
            return json_response(_deleted(request, await deletion.delete(api, request)))
        case "deletecollection" if "deletecollection" in request.resource.verbs:
            wanted = reads.filter_of(api, request)
            stored = api.store.list(request.resource.storage_key, request.namespace)
            removed = await deletion.delete_collection(api, request, [e for e in stored if wanted.matches(e.obj)])
            entries = [Entry(obj, int(obj["metadata"]["resourceVersion"])) for obj in removed]
            return json_response(view.listing(entries, {"resourceVersion": str(api.store.resource_version)}))
    raise method_not_allowed()


async def _subresource(api: API, request: Request) -> web.Response:
    match request.subresource, request.verb:
        case "binding", "create":
            return json_response(await subresources.bind(api, request), 201)
        case "eviction", "create":
            return json_response(await subresources.evict(api, request), 201)
        case "scale", "get" | "update" | "patch":
            return json_response((await subresources.scale(api, request)).obj)
        case "log", "get":
            api.entry(request)
            raise internal("the sandbox's kubelets keep no logs")
    raise method_not_allowed()


def _written(view: View, written: writes.Written) -> web.Response:
    response = json_response(view.body(written.obj), 201 if written.created else 200)
    for warning in written.warnings:
        response.headers.add("Warning", '299 - "' + warning.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return response


# Kinds whose deletion answers with the object even when it is gone at once (RESTStorage.ReturnDeletedObject).
_RETURN_DELETED = {
    ("", "pods"), ("", "services"), ("", "serviceaccounts"), ("", "persistentvolumeclaims"), ("", "persistentvolumes"),
    ("", "resourcequotas"), ("", "podtemplates"), ("storage.k8s.io", "storageclasses"), ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "volumeattachments"), ("storage.k8s.io", "csidrivers"),
}  # fmt: skip


def _deleted(request: Request, outcome: deletion.Deleted) -> Obj:
    resource = request.resource
    if not outcome.gone or resource.storage_key in _RETURN_DELETED:
        return outcome.obj
    details = {
        "name": request.name,
        "group": resource.group,
        "kind": resource.plural,
        "uid": outcome.obj["metadata"]["uid"],
    }
    return {**subresources.SUCCESS, "details": {key: value for key, value in details.items() if value}}


async def _watch(api: API, watches: Watches, request: Request, raw: web.BaseRequest) -> web.StreamResponse:
    stream = watches.stream(api, request)
    response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    try:
        await response.prepare(raw)
        async for line in stream:
            await response.write(line)
        await response.write_eof()
    except ConnectionResetError:
        log.debug("the client left its watch on %s", request.resource.plural)
    finally:
        await stream.aclose()
    return response
