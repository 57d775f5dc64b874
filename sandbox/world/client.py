"""A small asynchronous Kubernetes client: kubeconfig in, JSON objects out, errors as the API server's Status.

The sandbox imports nothing of the controller, so that one misunderstanding of the API cannot hide in both.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from sandbox.world.resources import Obj, Resource

REQUEST_TIMEOUT_SECONDS = 30.0
WATCH_TIMEOUT_SECONDS = 20
"""Watches are asked to end often, and continue where they were: so one that fell silent is noticed soon."""
WATCH_SILENCE_SECONDS = 25.0
"""A watch that has neither sent anything nor ended for this long is taken as dead."""
CONNECTIONS = 32

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class ApiError(Exception):
    """The API server refused, or did not answer (`status` 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason

    @property
    def not_found(self) -> bool:
        """The object (or its parent) does not exist."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """A stale resourceVersion, a failed precondition, or a name that is taken."""
        return self.status == 409

    @property
    def gone(self) -> bool:
        """The resourceVersion is too old to continue from: list again."""
        return self.status == 410


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the API server is and how to be let in."""

    server: str
    headers: Mapping[str, str]
    tls: ssl.SSLContext | None

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Connection:
        """The current context of a kubeconfig (token or client certificate; files or inline data).

        Raises:
            ValueError: the file names no usable context, cluster or user.
        """
        config = yaml.safe_load(path.read_text())
        try:
            context = _named(config["contexts"], config["current-context"])["context"]
            cluster = _named(config["clusters"], context["cluster"])["cluster"]
            user = _named(config["users"], context["user"]).get("user") or {}
            server = str(cluster["server"]).rstrip("/")
        except (KeyError, TypeError, StopIteration) as error:
            raise ValueError(f"kubeconfig {path}: no usable current-context ({error!r})") from error
        headers = {"Authorization": f"Bearer {user['token']}"} if user.get("token") else {}
        return cls(server, headers, _tls(cluster, user) if server.startswith("https") else None)


def _named(entries: list[Obj], name: str) -> Obj:
    return next(entry for entry in entries if entry["name"] == name)


def _tls(cluster: Obj, user: Obj) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if data := cluster.get("certificate-authority-data"):
        context.load_verify_locations(cadata=base64.b64decode(data).decode())
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if user.get("client-certificate-data"):
        with tempfile.NamedTemporaryFile(suffix=".pem") as pem:  # ssl loads client certificates from files only
            pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            pem.flush()
            context.load_cert_chain(pem.name)
    elif user.get("client-certificate"):
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    return context


class ApiClient:
    """One API server, one connection pool. Use as an async context manager."""

    def __init__(self, connection: Connection, user_agent: str = "sandbox-world") -> None:
        self._connection = connection
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> ApiClient:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._connection.tls or True)
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._session = aiohttp.ClientSession(
            connector=connector, headers={**self._connection.headers, "User-Agent": self._user_agent}
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Obj:
        """One call; the answer's JSON.

        Raises:
            ApiError: any answer above 399, or none at all.
        """
        assert self._session is not None, "ApiClient is an async context manager"
        try:
            async with (
                self._slots,
                self._session.request(
                    method,
                    self._connection.server + path,
                    data=None if body is None else orjson.dumps(body),
                    params=params,
                    headers={"Content-Type": content_type, "Accept": "application/json"},
                    timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS),
                ) as response,
            ):
                payload = await response.read()
                if response.status >= 400:
                    raise _error(response.status, payload)
                answer: Obj = orjson.loads(payload)
                return answer
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            raise ApiError(0, "NoAnswer", f"{method} {path}: {error!r}") from error

    async def get(self, resource: Resource, namespace: str, name: str) -> Obj:
        """The object as the server has it now."""
        return await self.request("GET", resource.path(namespace, name))

    async def list_all(self, resource: Resource, params: Mapping[str, str] | None = None) -> tuple[list[Obj], str]:
        """Every object of the kind in all namespaces, in pages, and the list's resourceVersion."""
        items: list[Obj] = []
        query = {"limit": "500", **(params or {})}
        while True:
            page = await self.request("GET", resource.path(), params=query)
            items += page.get("items") or []
            token = page["metadata"].get("continue")
            if not token:
                return items, page["metadata"]["resourceVersion"]
            query["continue"] = token

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        """POST; namespace, apiVersion and kind are the object's or filled in."""
        document = {"apiVersion": resource.group_version, "kind": resource.kind, **obj}
        return await self.request("POST", resource.path(obj["metadata"].get("namespace", "")), body=document)

    async def replace(self, resource: Resource, obj: Obj, subresource: str = "") -> Obj:
        """PUT under the object's own resourceVersion: a conflict if it has changed since it was read."""
        meta = obj["metadata"]
        document = {"apiVersion": resource.group_version, "kind": resource.kind, **obj}
        return await self.request(
            "PUT", resource.path(meta.get("namespace", ""), meta["name"], subresource), body=document
        )

    async def patch(
        self, resource: Resource, key: tuple[str, str], body: Any, *, subresource: str = "", kind: str = MERGE
    ) -> Obj:
        """PATCH; `kind` is the patch's content type."""
        return await self.request("PATCH", resource.path(*key, subresource), body=body, content_type=kind)

    async def delete(
        self, resource: Resource, obj: Obj, *, grace_seconds: int | None = None, propagation: str | None = None
    ) -> None:
        """DELETE that object and no namesake (a uid precondition); one that is gone already is no error."""
        meta = obj["metadata"]
        options: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": meta["uid"]}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            options["propagationPolicy"] = propagation
        try:
            await self.request("DELETE", resource.path(meta.get("namespace", ""), meta["name"]), body=options)
        except ApiError as error:
            if not (error.not_found or error.conflict):
                raise

    async def watch(
        self, resource: Resource, resource_version: str, selection: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Obj]]:
        """(type, object) of every change after `resource_version`, until the server ends the stream.

        Raises:
            ApiError: refused, 410 Gone (also inside the stream), or the connection was lost.
        """
        assert self._session is not None, "ApiClient is an async context manager"
        params = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_TIMEOUT_SECONDS),
            **(selection or {}),
        }
        try:
            async with self._session.get(
                self._connection.server + resource.path(),
                params=params,
                headers={"Accept": "application/json"},
                timeout=aiohttp.ClientTimeout(total=None, sock_read=WATCH_SILENCE_SECONDS),
            ) as response:
                if response.status >= 400:
                    raise _error(response.status, await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield _event(line)
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            raise ApiError(0, "NoAnswer", f"watch {resource.plural}: {error!r}") from error


def _event(line: bytes) -> tuple[str, Obj]:
    event = orjson.loads(line)
    if event["type"] == "ERROR":
        status = event["object"]
        raise ApiError(int(status.get("code", 500)), status.get("reason", ""), status.get("message", ""))
    return event["type"], event["object"]


def _error(status: int, payload: bytes) -> ApiError:
    try:
        body = orjson.loads(payload)
        return ApiError(status, body.get("reason", ""), body.get("message", ""))
    except (orjson.JSONDecodeError, AttributeError):
        return ApiError(status, "", payload[:200].decode(errors="replace"))
