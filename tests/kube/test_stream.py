"""A watch is read when something has arrived; after an event, those that come within a moment are read together."""

from __future__ import annotations

import queue
import socket
import threading
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import urllib3

from controller.kube.list_decoding import decode_object
from controller.kube.stream import WatchStream

EVENT = b'{"type":"ADDED","object":{"kind":"Node"}}\n'


class Response:
    """An answer with these chunks, over a socket from which `arrived` bytes can be read."""

    def __init__(self, chunks: list[bytes], near: socket.socket) -> None:
        self.chunks, self.connection = chunks, SimpleNamespace(sock=near)

    def read1(self, _most: int) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    def shutdown(self) -> None:
        """Nothing blocks."""


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def stream(response: Response) -> WatchStream:
    return WatchStream(cast("urllib3.BaseHTTPResponse", response), "watch nodes", decode_object)


@pytest.fixture(autouse=True)
def long_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.kube.stream.GATHER_SECONDS", 600.0)


def test_what_has_arrived_is_read_at_once(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    far.send(b"x")
    assert [event.type for event in stream(Response([EVENT, EVENT * 2], near))] == ["ADDED"] * 3


def test_an_event_is_delivered_before_others_are_gathered_and_closing_ends_that(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    response = Response([EVENT, EVENT], pair[0])
    watched, seen = stream(response), queue.SimpleQueue[Any]()
    reader = threading.Thread(target=lambda: deque(map(seen.put, watched)), daemon=True)
    reader.start()
    assert seen.get(timeout=15).type == "ADDED"
    watched.close()
    reader.join(15)
    assert not reader.is_alive()
    assert seen.empty()
    assert response.chunks == [EVENT]
