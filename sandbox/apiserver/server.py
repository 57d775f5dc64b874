"""The HTTP server: authentication, faults, errors, and the routes that are no resources (discovery, health)."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from sandbox.apiserver import discovery
from sandbox.apiserver.admission import reviews
from sandbox.apiserver.admission.webhooks import Webhooks
from sandbox.apiserver.api import API
from sandbox.apiserver.bootstrap import create_initial_objects
from sandbox.apiserver.calls import Calls, wait_at
from sandbox.apiserver.errors import APIError, bad_request, internal, no_such_path, unauthorized
from sandbox.apiserver.kinds.crds import CustomResources
from sandbox.apiserver.requests import Request, decode_object, parse_path, verb_of
from sandbox.apiserver.schemas import openapi, protobuf
from sandbox.apiserver.storage.gc import GarbageCollector
from sandbox.apiserver.verbs.handlers import JSON, answer, json_response, refusal
from sandbox.apiserver.verbs.watch import Watches

log = logging.getLogger(__name__)
_HEALTH = ("/healthz", "/livez", "/readyz")
_VERSION = ("/version", "/version/")
_OPEN_PATHS = (*_HEALTH, *_VERSION)
_OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""How the answer is called; it is asked for with v2@v1.0, which is no valid media type."""
_MAX_BODY_BYTES = 3 * 1024 * 1024


class Server:
    """One API server on one loopback port. Start and stop it on the event loop that is to own its state."""

    def __init__(self, api: API, *, host: str = "127.0.0.1", port: int = 0, token: str = "") -> None:
        self.api = api
        self.host, self.port = host, port
        self._token = token
        self._watches = Watches()
        self._calls = Calls()
        api.admission.plugins.append(Webhooks())
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None
        self._connections: set[asyncio.Transport] = set()
        self.collector = GarbageCollector(api)
        self.custom_resources = CustomResources(api, self.collector)

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{self.host}:{self.port}"

    async def start(self) -> None:
        """Listens; `port` is known from then on. Raises OSError when the port is taken."""
        for resource in self.api.registry:
            self.collector.watch(resource.storage_key)
        create_initial_objects(self.api)
        self._runner = web.ServerRunner(
            web.Server(self._handle, access_log=None), handle_signals=False, shutdown_timeout=0.2
        )
        await self._runner.setup()
        await self._listen()

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, self.host, self.port, reuse_address=True)
        await self._site.start()
        self.port = self._runner.addresses[-1][1]

    async def stop(self) -> None:
        """Ends watches and connections and frees the port."""
        self._watches.end_all()
        for task in list(self.api.tasks):
            task.cancel()
        self._cut_connections()
        if self._runner is not None:
            await self._runner.cleanup()

    def _cut_connections(self) -> None:
        for transport in list(self._connections):
            transport.abort()
        self._connections.clear()

    async def _outage(self, seconds: float) -> None:
        """Closes the port and all connections, and opens the same port again after a while."""
        assert self._site is not None
        await self._site.stop()
        self._watches.end_all()
        self._cut_connections()
        await asyncio.sleep(seconds)
        await self._listen()

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        if raw.transport is not None and raw.transport not in self._connections:
            self._connections = {t for t in self._connections if not t.is_closing()} | {raw.transport}
        response = await self._guarded(raw)
        if not raw.path.startswith("/sandbox/"):
            self._calls.add(raw.method, raw.path_qs, response.status, raw.headers.get("User-Agent", ""))
        return response

    async def _guarded(self, raw: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._route(raw)
        except APIError as error:
            return refusal(error)
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception as error:  # a defect of ours must not end the connection without a word
            log.exception("%s %s", raw.method, raw.path)
            return refusal(internal(repr(error)))

    async def _route(self, raw: web.BaseRequest) -> web.StreamResponse:
        path = raw.path
        if path in _HEALTH:
            return web.Response(text="ok")
        if path == "/sandbox/faults":
            return await self._faults(raw)
        if path == "/sandbox/calls":
            return json_response(self._calls.since(int(raw.query.get("after", "0"))))
        self._authenticate(raw)
        if delay := self.api.faults.delay_seconds():
            await asyncio.sleep(delay)
        if error := self.api.faults.refusal():
            raise error
        found = self._document(path, raw.headers)
        if found is not None:
            return found
        if (review := reviews.review_kind(path)) and raw.method == "POST":
            body = await raw.read()
            asked = protobuf.decode(body) if body.startswith(b"k8s") else decode_object(body)
            return json_response(reviews.review(review, asked), 201)
        return await self._resource(raw)

    async def _resource(self, raw: web.BaseRequest) -> web.StreamResponse:
        resource, namespace, name, subresource = parse_path(self.api.registry, raw.path)
        body = await raw.read() if raw.can_read_body else b""
        if len(body) > _MAX_BODY_BYTES:
            raise APIError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {_MAX_BODY_BYTES}")
        request = Request(
            verb=verb_of(raw.method, name, raw.query),
            resource=resource,
            namespace=namespace,
            name=name,
            subresource=subresource,
            query=raw.query,
            content_type=raw.headers.get("Content-Type", ""),
            accept=raw.headers.get("Accept", ""),
            user_agent=raw.headers.get("User-Agent", ""),
            body=body,
        )
        hold = self._calls.counts(raw.method, request.user_agent)
        await wait_at(hold, "before")
        answered = await answer(self.api, self._watches, request, raw)
        await wait_at(hold, "after")
        return answered

    def _authenticate(self, raw: web.BaseRequest) -> None:
        """A wrong token is refused. No token is fine: client-go sends none over plain HTTP, and we are on loopback."""
        sent = raw.headers.get("Authorization")
        if not self._token or sent is None or raw.path in _OPEN_PATHS:
            return
        if not hmac.compare_digest(sent.removeprefix("Bearer ").encode(), self._token.encode()):
            raise unauthorized()

    def _document(self, path: str, headers: Mapping[str, str]) -> web.Response | None:
        """Discovery, version and OpenAPI."""
        registry = self.api.registry
        parts = [part for part in path.split("/") if part]
        if path in _VERSION:
            return json_response(discovery.version())
        if parts[:1] == ["openapi"]:
            return _openapi(self.api, parts, headers.get("Accept", ""))
        if parts in (["api"], ["apis"]):
            if discovery.wants_aggregated(headers.get("Accept", "")):
                body = discovery.aggregated(registry, core=parts == ["api"])
                return json_response(body, headers={"Content-Type": discovery.AGGREGATED_CONTENT_TYPE})
            if parts == ["apis"]:
                return json_response(discovery.groups(registry))
            address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": f"{self.host}:{self.port}"}]
            return json_response({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address})
        found: dict[str, Any] | None = None
        if len(parts) == 2 and parts[0] == "apis":
            found = discovery.group(registry, parts[1])
        elif len(parts) == 2 and parts[0] == "api":
            found = discovery.resources(registry, "", parts[1])
        elif len(parts) == 3 and parts[0] == "apis":
            found = discovery.resources(registry, parts[1], parts[2])
        else:
            return None
        if found is None:
            raise no_such_path()
        return json_response(found)

    async def _faults(self, raw: web.BaseRequest) -> web.Response:
        if raw.method == "DELETE":
            self.api.faults.clear()
            self._calls.release()
            return json_response({"kind": "cleared"})
        try:
            fault = orjson.loads(await raw.read())
            kind = fault["kind"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise bad_request(f"a fault is an object with a kind: {error!r}") from error
        done: dict[str, Any] = {"kind": kind}
        match kind:
            case "outage":
                self.api.spawn(self._outage(float(fault.get("seconds", 1))))
            case "silent-watches":
                done["watches"] = self._watches.mute()
            case "drop-watches":
                done["watches"] = self._watches.end_all()
            case "compact":
                done["resourceVersion"] = str(self.api.store.compact())
            case "hold-writes":
                self._calls.set_hold(fault)
            case "latency" | "errors":
                self.api.faults.set(fault)
            case _:
                raise bad_request(f"no fault of kind {kind!r}; see sandbox/apiserver/faults.py")
        return json_response(done)


def _openapi(api: API, parts: list[str], accept: str) -> web.Response:
    if parts == ["openapi", "v2"]:
        if _OPENAPI_PROTOBUF.replace("v2.v1", "v2@v1") in accept:
            return web.Response(body=openapi.swagger_protobuf(), headers={"Content-Type": _OPENAPI_PROTOBUF})
        return json_response(openapi.swagger(api), headers={"Content-Type": JSON})
    if parts == ["openapi", "v3"]:
        return json_response(openapi.index(api))
    if len(parts) > 2 and parts[1] == "v3":
        document = openapi.document(api, "/".join(parts[2:]))
        if document is not None:
            return json_response(document, headers={"Content-Type": JSON})
    raise no_such_path()
