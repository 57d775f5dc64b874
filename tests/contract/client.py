"""A small HTTP client for the contract tests: what goes over the wire is seen as it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import urllib3

from sandbox.apiserver import Running

Obj = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    code: int
    body: Any
    headers: urllib3.HTTPHeaderDict

    @property
    def reason(self) -> str:
        """The machine-readable reason of a refusal."""
        return str(self.body.get("reason", "")) if isinstance(self.body, dict) else ""

    def ok(self) -> Any:
        """The body of a success; fails with the server's words otherwise."""
        assert self.code in (200, 201, 202), f"{self.code}: {self.body}"
        return self.body

    def refused(self, code: int, reason: str) -> Any:
        """The Status of a refusal, which must be this one."""
        assert (self.code, self.reason) == (code, reason), f"{self.code}: {self.body}"
        assert self.body["kind"] == "Status"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == code
        return self.body


@dataclass(slots=True)
class Client:
    """Requests to one server. `namespace` is the test's own."""

    server: Running
    kind: str
    compact: Callable[[], None]
    namespace: str = ""
    _pool: urllib3.PoolManager = field(init=False)

    def __post_init__(self) -> None:
        trusted = str(self.server.certificate) if self.server.certificate else None
        self._pool = urllib3.PoolManager(maxsize=4, timeout=20.0, retries=False, ca_certs=trusted)

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", accept: str = "",
        as_user: str = "", **query: Any,
    ) -> Reply:  # fmt: skip
        """One request; a body that is no string is sent as JSON. `as_user`: under that name, with an admin's rights."""
        data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.server.token}", "User-Agent": "contract/1.0"}
        if accept:
            headers["Accept"] = accept
        if as_user:
            headers |= {"Impersonate-User": as_user, "Impersonate-Group": "system:masters"}
        if data is not None:
            headers["Content-Type"] = content_type
        url = f"{self.server.url}{path}?{urlencode(query)}" if query else self.server.url + path
        reply = self._pool.request(method, url, body=data, headers=headers)
        try:
            parsed = json.loads(reply.data)
        except ValueError:
            parsed = reply.data.decode(errors="replace")
        return Reply(reply.status, parsed, reply.headers)

    def get(self, path: str, **options: Any) -> Reply:
        """GET."""
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Reply:
        """POST."""
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any, **options: Any) -> Reply:
        """PUT."""
        return self.request("PUT", path, body, **options)

    def patch(self, path: str, body: Any, content_type: str = MERGE, **options: Any) -> Reply:
        """PATCH."""
        return self.request("PATCH", path, body, content_type=content_type, **options)

    def delete(self, path: str, body: Any = None, **options: Any) -> Reply:
        """DELETE."""
        return self.request("DELETE", path, body, **options)

    def path(
        self, plural: str, name: str = "", group: str = "", version: str = "v1", namespace: str | None = None
    ) -> str:
        """The path of a namespaced resource in the test's namespace (or another)."""
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return f"{base}/namespaces/{namespace or self.namespace}/{plural}" + (f"/{name}" if name else "")

    def watch(self, path: str, *, seconds: int = 5, **query: Any) -> Iterator[Obj]:
        """The events of a watch until the server ends it; `seconds` is its timeoutSeconds."""
        text = urlencode({"watch": "true", "timeoutSeconds": seconds, **query})
        headers = {"Authorization": f"Bearer {self.server.token}"}
        url = f"{self.server.url}{path}?{text}"
        reply = self._pool.request("GET", url, headers=headers, preload_content=False, timeout=seconds + 15.0)
        try:
            if reply.status != 200:
                yield {"type": "HTTP", "object": json.loads(reply.data)}
                return
            rest = b""
            for chunk in reply.stream(65536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        finally:
            reply.close()

    def watch_until(self, path: str, count: int, *, seconds: int = 8, **query: Any) -> list[Obj]:
        """The first `count` events of a watch; fewer if the server ends it before."""
        events = []
        for event in self.watch(path, seconds=seconds, **query):
            events.append(event)
            if len(events) == count:
                break
        return events


T = TypeVar("T")


def eventually(ask: Callable[[], T], holds: Callable[[T], bool] = bool, *, seconds: float = 20.0) -> T:
    """Asks until the answer is right, within a deadline."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if holds(answer):
            return answer
        assert time.monotonic() < deadline, f"still {answer!r}"
        time.sleep(0.05)
