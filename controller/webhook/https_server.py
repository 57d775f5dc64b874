"""Serve admission over HTTPS on every replica, with a certificate that can be replaced under load.

Each connection uses the TLS context current at its start: a new certificate is served from the next connection on and
breaks none. Handshake and reads happen in the connection's own thread, with a timeout: a slow client delays no other.
The key is never written to a file system: the container's is read-only.
"""

from __future__ import annotations

import os
import ssl
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

import structlog

from controller.runtime.bounded_connections import BoundedServer, shut_down
from controller.webhook.admission import MAX_BODY_BYTES, Known, UnreadableReviewError, answer
from controller.webhook.certificates import ServingCertificate

IDLE_SECONDS: Final = 60.0
"""An idle connection is closed after this long; the API server keeps its own open between calls."""
MAX_DIGITS: Final = 19
MAX_CONNECTIONS: Final = 200
REQUEST_SECONDS: Final = 10.0
"""For a handshake, and for a request from its headers to the end of the answer; the API server waits no longer."""
SMALL_BODY_BYTES: Final = 64 * 2**10
"""Bodies up to this size are read at any time: those of all connections together are small."""
MAX_LARGE_BODIES: Final = 4
"""Larger bodies in memory at once."""
LARGE_WAIT_SECONDS: Final = 5.0
"""How long a request with a larger body waits for its turn."""

_log = structlog.get_logger("webhook")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "nodeless", ""
    timeout = IDLE_SECONDS
    server: _Listener

    def do_POST(self) -> None:
        """An AdmissionReview in, one out."""
        self.server.allow(self.connection, REQUEST_SECONDS)
        try:
            self._review()
        finally:
            self.server.allow(self.connection, IDLE_SECONDS)

    def _review(self) -> None:
        length = self._length()
        if length is None:
            return
        if length <= SMALL_BODY_BYTES:
            self._answer(length)
        elif self.server.large.acquire(timeout=LARGE_WAIT_SECONDS):
            try:
                self._answer(length)
            finally:
                self.server.large.release()
        else:
            self._refuse_unread(503, b"too many large bodies at once; try again")

    def _answer(self, length: int) -> None:
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True  # the client has left, or its time is up
            return
        if self.headers.get_content_type() != "application/json":
            self._reply(415, b"the body must be application/json")
            return
        try:
            reply = answer(self.path.partition("?")[0], body, self.server.known)
        except UnreadableReviewError as error:
            self._reply(400, str(error).encode())
        except Exception:  # noqa: BLE001 - fails closed: the API server refuses the request
            _log.exception("Admission failed", path=self.path)
            self._reply(500, b"the admission webhook failed; its log says why")
        else:
            self._reply(404, b"nothing is served here") if reply is None else self._reply(200, reply)

    def _length(self) -> int | None:
        """Return the length of the request's body; None when it was refused."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < MAX_DIGITS):
            self._refuse_unread(411, b"Content-Length is missing")
            return None
        if int(length) > MAX_BODY_BYTES:
            self._refuse_unread(413, b"the body is too large")
            return None
        return int(length)

    def _refuse_unread(self, code: int, why: bytes) -> None:
        """Refuse and close the connection: the unread body follows on it."""
        self.close_connection = True
        self._reply(code, why)

    def _reply(self, code: int, body: bytes) -> None:
        self.close_connection = self.close_connection or self.server.draining
        self.send_response(code)
        self.send_header("Content-Type", "application/json" if code == 200 else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a refused client gets the reason, and failures are logged."""


class _Listener(BoundedServer):
    allow_reuse_address = True
    allow_reuse_port = True
    """Replicas on one address share the port; the kernel distributes connections."""
    most_connections = MAX_CONNECTIONS
    first_seconds = REQUEST_SECONDS
    request_queue_size = 128

    def __init__(self, port: int, context: ssl.SSLContext, known: Known) -> None:
        """Listen on every IPv4 and IPv6 address of the pod."""
        self.context = context
        self.known = known
        self.draining = False
        self.large = threading.BoundedSemaphore(MAX_LARGE_BODIES)
        self._open: set[ssl.SSLSocket] = set()
        super().__init__(("", port), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the TLS handshake, then answer request after request."""
        request.settimeout(IDLE_SECONDS)
        try:
            with self.context.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as secured:
                self.forget(request)
                self.allow(secured, REQUEST_SECONDS)
                self._open.add(secured)
                try:
                    secured.do_handshake()
                    self.allow(secured, IDLE_SECONDS)
                    super().finish_request(secured, client_address)
                finally:
                    self._open.discard(secured)
                    self.forget(secured)
        except OSError as error:  # includes ssl.SSLError: port scans, clients without trust, cut connections
            _log.debug("Connection ended", client=client_address[0], error=str(error))

    def cut(self) -> None:
        """Close the remaining connections, which wait for a next request."""
        for each in tuple(self._open):
            shut_down(each)


class AdmissionServer:
    """Listen once there is a certificate; `use` replaces it at any time."""

    def __init__(self, port: int, known: Known | None = None) -> None:
        """`port` 0: a free one, known once it listens. `known`: nothing without it."""
        self._port = port
        self._known = known or Known()
        self._listener: _Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that the server listens on; 0 before it does."""
        return int(self._listener.server_address[1]) if self._listener else 0

    def use(self, certificate: ServingCertificate) -> None:
        """Serve with this certificate from the next connection on.

        Raises ValueError when certificate and key cannot be used, OSError when the port is taken.
        """
        context = _context(certificate)
        if self._listener is not None:
            self._listener.context = context
            return
        self._listener = _Listener(self._port, context, self._known)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.1,), name="webhook-server", daemon=True
        )
        self._thread.start()

    def drain(self) -> None:
        """Close each connection after its next request, so that clients connect to another replica."""
        if self._listener is not None:
            self._listener.draining = True

    def close(self) -> None:
        """Accept no more connections, and close the open ones."""
        if self._listener is not None and self._thread is not None:
            self._listener.shutdown()
            self._listener.server_close()
            self._thread.join()
            self._listener.cut()


def _context(certificate: ServingCertificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # Python's ssl module reads certificates only from files: this one is in memory.
    descriptor = os.memfd_create("webhook-certificate", os.MFD_CLOEXEC)
    with open(descriptor, "wb") as file:
        file.write(certificate.key + certificate.certificate)
        file.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        except ssl.SSLError as error:
            raise ValueError(f"no certificate with its key: {error}") from error
    return context
