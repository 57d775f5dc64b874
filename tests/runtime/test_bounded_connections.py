"""A server's bounds: how many connections at once, and how long each may last, however slow its client is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from socketserver import BaseRequestHandler

import pytest

from controller.runtime.bounded_connections import BoundedServer

WAIT_SECONDS = 20.0


class Echo(BaseRequestHandler):
    """Sends back what comes until the client, or the server, ends the connection."""

    def handle(self) -> None:
        while received := self.request.recv(100):
            self.request.sendall(received)


class Server(BoundedServer):
    address_family = socket.AF_INET
    allow_reuse_address = True
    most_connections = 3
    first_seconds = 3600.0


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_address[1]), WAIT_SECONDS)


def served(client: socket.socket) -> bool:
    """Whether the server answers; False when it has closed the connection."""
    try:
        client.sendall(b"x")
        return client.recv(1) == b"x"
    except ConnectionError:
        return False


def test_a_client_that_keeps_sending_is_cut_at_its_deadline(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "first_seconds", 0.3)
    client = connect(server)
    pause = threading.Event()
    sent = 0
    while served(client):
        sent += 1
        pause.wait(0.02)
        assert sent < WAIT_SECONDS / 0.02, "it is served without end"


def test_a_client_that_says_nothing_is_cut_as_well(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "first_seconds", 0.05)
    assert connect(server).recv(1) == b""


def test_more_connections_than_there_are_places_are_closed_at_once(server: Server) -> None:
    clients = [connect(server) for _ in range(3)]
    assert all(map(served, clients))
    assert not served(connect(server))
    clients[0].close()
    pause = threading.Event()
    for _ in range(1000):
        if served(connect(server)):
            return
        pause.wait(0.02)
    pytest.fail("no place becomes free")
