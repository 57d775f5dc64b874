"""Bounds for a threaded server: connections at once, and a deadline for each, however slowly its client sends or reads.

A timeout of a socket holds for one read; a client that sends a byte a second never meets it. So each connection has a
deadline, and the server shuts down those that are past it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from socketserver import TCPServer, ThreadingMixIn
from typing import Any


class BoundedServer(ThreadingMixIn, TCPServer):
    """A TCP server with a thread for each connection; connections beyond `most_connections` are closed at once.

    It listens on IPv6 and IPv4 by one socket, where the machine has both.
    """

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    most_connections = 100
    first_seconds = 10.0
    """From a connection's start to its deadline; `allow` moves it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._slots = threading.BoundedSemaphore(self.most_connections)
        self._deadlines: dict[int, tuple[socket.socket, float]] = {}
        """By the id of the accepted connection: what to shut down, and when by the monotonic clock."""
        self._guard = threading.Lock()
        super().__init__(*args, **options)

    def server_bind(self) -> None:
        """Bind; an IPv6 socket accepts IPv4, too."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the connection, if there is a place."""
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self.allow(request, self.first_seconds)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.forget(request)
            self._slots.release()

    def allow(self, connection: socket.socket, seconds: float) -> None:
        """Give a connection so long from now on."""
        with self._guard:
            self._deadlines[id(connection)] = (connection, time.monotonic() + seconds)

    def forget(self, connection: socket.socket) -> None:
        """Forget a connection that is closed, or goes on as another object."""
        with self._guard:
            self._deadlines.pop(id(connection), None)

    def service_actions(self) -> None:
        """Shut down what is past its deadline; the server's loop calls this several times a second."""
        super().service_actions()
        now = time.monotonic()
        with self._guard:
            late = [connection for connection, deadline in self._deadlines.values() if now >= deadline]
        for connection in late:
            shut_down(connection)


def shut_down(connection: socket.socket) -> None:
    """End both directions: whoever reads from it or writes to it in another thread is woken."""
    with contextlib.suppress(OSError):  # it has just ended
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
