"""Serve pages by path over HTTP (GET and HEAD): probes on one port, metrics and decisions on another.

Each request has its own thread, so that scrapes do not wait for each other. Idle clients are disconnected.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import structlog

from controller.errors import Problem, ValidationError
from controller.runtime.bounded_connections import BoundedServer

CLIENT_SECONDS = 10.0
"""How long a client may take from its connection to the last byte of the answer."""
MAX_CONNECTIONS = 50
MAX_PAGES = 4
"""Pages made and sent at once: those of metrics and decisions have megabytes."""

_log = structlog.get_logger("telemetry")


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a request."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


Route = Callable[[Mapping[str, str]], Page]
"""From the query's parameters to the page. Raises ValueError with a message for the caller for a bad query."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """Pages for those on loopback (as `kubectl port-forward` is) or with the token; empty: no token will do."""

    paths: frozenset[str] = frozenset()
    token: str = field(default="", repr=False)
    refusal: ClassVar[bytes] = (
        b"not for everybody: use kubectl port-forward, or send the token of DECISIONS_TOKEN as Authorization: Bearer\n"
    )

    def admits(self, address: str, authorization: str) -> bool:
        """Return whether a client at `address`, with this header `Authorization`, may see the pages."""
        client = ip_address(address.partition("%")[0])
        if client.version == 6 and client.ipv4_mapped is not None:
            client = client.ipv4_mapped
        if client.is_loopback:
            return True
        sent = authorization.removeprefix("Bearer ").encode()
        return bool(self.token) and compare_digest(sent, self.token.encode())


class PageServer:
    """Serves pages on a port until `stop`. Routes may be added while it runs."""

    def __init__(
        self, port: int, name: str, routes: Mapping[str, Route] | None = None, guarded: Guarded | None = None
    ) -> None:
        """Listen on `port` of all addresses; 0: on a free port, see `port`. `name` is for logs and errors.

        `guarded`: pages that not everybody may see. Raises ValidationError when it cannot listen.
        """
        self._name = name
        self.routes: dict[str, Route] = dict(routes or {})
        self._server = _bind(port, name, self.routes, guarded or Guarded())
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name=f"serve-{name}", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Start answering."""
        self._thread.start()
        _log.info("Serves", what=self._name, port=self.port, paths=sorted(self.routes))

    def stop(self) -> None:
        """Stop answering."""
        if self._thread.ident is not None:
            self._server.shutdown()
        self._server.server_close()


class _Server(BoundedServer, HTTPServer):
    most_connections = MAX_CONNECTIONS
    first_seconds = CLIENT_SECONDS

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - as the library calls it
        """Log at level debug: usually the client has closed the connection."""
        _log.debug("Request not answered", client=str(client_address), exc_info=True)


def _bind(port: int, name: str, routes: Mapping[str, Route], guarded: Guarded) -> _Server:
    try:
        return _Server(("", port), _handler(routes, guarded))
    except OSError as error:
        problem = Problem(f"--{name}-port", f"cannot listen on {port}: {error.strerror}", "choose a port that is free")
        raise ValidationError("Options", [problem]) from error


def _handler(routes: Mapping[str, Route], guarded: Guarded) -> type[BaseHTTPRequestHandler]:
    pages = threading.BoundedSemaphore(MAX_PAGES)

    class Handler(BaseHTTPRequestHandler):
        """Answers with the page of the path."""

        timeout = CLIENT_SECONDS
        server_version = "nodeless"
        sys_version = ""

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, *, with_body: bool) -> None:
            if not pages.acquire(timeout=CLIENT_SECONDS / 2):
                self.send_error(503, "too many requests at once")
                return
            try:
                self._send(self._page(), with_body=with_body)
            finally:
                pages.release()

        def _page(self) -> Page:
            path = urlsplit(self.path).path.rstrip("/")
            if path in guarded.paths and not guarded.admits(
                self.client_address[0], self.headers.get("Authorization", "")
            ):
                return Page(guarded.refusal, status=403)
            return answer(routes, self.path)

        def _send(self, page: Page, *, with_body: bool) -> None:
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            if with_body:
                self.wfile.write(page.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: probes and scrapes come every few seconds."""

    return Handler


def answer(routes: Mapping[str, Route], target: str) -> Page:
    """Return the page for a request target (path and query): 404 with the known paths, 400 for a bad query."""
    parts = urlsplit(target)
    route = routes.get(parts.path.rstrip("/") or "/")
    if route is None:
        return Page(f"not found; there is {', '.join(sorted(routes))}\n".encode(), status=404)
    try:
        return route(dict(parse_qsl(parts.query, keep_blank_values=True)))
    except ValueError as error:
        return Page(f"{error}\n".encode(), status=400)
    except Exception:  # noqa: BLE001 - the controller outlives a page that fails
        _log.exception("Page failed", path=parts.path)
        return Page(b"internal error; the controller's log has the trace\n", status=500)
