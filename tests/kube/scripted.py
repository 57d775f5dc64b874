"""A server that answers list and watch requests with exactly the bytes that a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from controller.kube.client import KubeClient
from controller.kube.connection import Connection, connect
from tests.kube.server import Server


def event(type_: str, **object_: Any) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": type_, "object": object_}).encode() + b"\n"


def status(code: int, reason: str) -> bytes:
    """An ERROR line of a watch."""
    return event("ERROR", kind="Status", code=code, reason=reason, message=f"scripted {reason}")


class Script:
    """What is answered, and what was asked. When the streams run out, watches stay open and silent."""

    def __init__(self, *streams: bytes, items: tuple[Any, ...] = (), version: str = "100") -> None:
        self.items = items
        self.version = version
        self.lists = 0
        self.watched_from: list[str] = []
        self.queries: list[dict[str, str]] = []
        """Of the watches."""
        self._streams = list(streams)
        self._lock = threading.Lock()
        self.over = threading.Event()

    def list(self) -> bytes:
        """The list of now."""
        self.lists += 1
        return json.dumps({"metadata": {"resourceVersion": self.version}, "items": self.items}).encode()

    def stream(self, resource_version: str) -> bytes | None:
        """The next stream's bytes; None: silence."""
        with self._lock:
            self.watched_from.append(resource_version)
            return self._streams.pop(0) if self._streams else None


@contextmanager
def scripted(script: Script, like: Server) -> Iterator[KubeClient]:
    """A client of a scripted server (with the configuration of another one: only the address differs)."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            if query.get("watch") != "true":
                self.wfile.write(script.list())
            else:
                script.queries.append(query)
                content = script.stream(query["resourceVersion"])
                if content is None:
                    self.wfile.flush()
                    script.over.wait(30)
                else:
                    self.wfile.write(content)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    connection = connect(like.kubeconfig)
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        yield KubeClient(Connection(address, connection.pool, connection.configuration))
    finally:
        script.over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
