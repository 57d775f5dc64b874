"""Read a watch: one JSON document per line, until the server or the reader ends it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import msgspec
import urllib3
from urllib3.util import wait_for_read

from controller.errors import UnavailableError
from controller.kube.list_decoding import at_any_depth
from controller.kube.refusals import SilentStreamError, error_of_status

_READ_BYTES = 1 << 18
GATHER_SECONDS = 0.05
"""Between two reads of a watch when nothing has arrived since: the thread wakes once for all events of that time. Woken
for each alone, it takes three times the processor time. An event that follows no other is delivered at once."""


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw


_FRAME = msgspec.json.Decoder(_Frame)


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """ADDED, MODIFIED or DELETED with the object; BOOKMARK with an object that has a resourceVersion alone."""

    type: str
    object: Mapping[str, Any]


class WatchStream:
    """Iterate for events; ends when the server ends the watch. `close()` from any thread ends it at once.

    Iteration raises GoneError when the resource version is too old, SilentStreamError when nothing came for the read
    timeout, UnavailableError for a cut connection, and other KubeErrors that the server sends as events.
    """

    def __init__(
        self, response: urllib3.BaseHTTPResponse, what: str, decode: Callable[[bytes | msgspec.Raw], Mapping[str, Any]]
    ) -> None:
        self._response = response
        self._what = what
        self._decode = decode
        self._closed = threading.Event()
        self._begun = False

    def __enter__(self) -> WatchStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
        self._response.close()

    def close(self) -> None:
        """End the watch and any wait for its next event."""
        self._closed.set()
        try:
            self._response.shutdown()
        except (RuntimeError, ValueError, OSError):
            return  # it has ended already

    def __iter__(self) -> Iterator[WatchEvent]:
        for line in self._lines():
            try:
                frame = at_any_depth(_FRAME.decode, line)
                document = self._decode(frame.object)
            except msgspec.MsgspecError as error:
                raise UnavailableError(f"{self._what}: not an event: {line[:200]!r}") from error
            if frame.type == "ERROR":
                raise error_of_status(document, self._what)
            yield WatchEvent(frame.type, document)

    def _lines(self) -> Iterator[bytes]:
        rest = bytearray()
        while chunk := self._read():
            rest += chunk
            if b"\n" not in chunk:
                continue
            *lines, tail = bytes(rest).split(b"\n")
            rest = bytearray(tail)
            yield from filter(None, lines)
        if rest.strip() and not self._closed.is_set():
            raise UnavailableError(f"{self._what}: the stream broke off within an event")

    def _read(self) -> bytes:
        """The bytes that have arrived; empty at the end."""
        try:
            if self._begun and self._nothing_arrived():
                self._closed.wait(GATHER_SECONDS)
            self._begun = True
            return b"" if self._closed.is_set() else self._response.read1(_READ_BYTES)
        except urllib3.exceptions.ReadTimeoutError as error:
            raise SilentStreamError(f"{self._what}: nothing came for the read timeout") from error
        except (urllib3.exceptions.HTTPError, OSError, AttributeError, ValueError) as error:
            if self._closed.is_set():
                return b""  # close() shut the socket down
            raise UnavailableError(f"{self._what}: the stream was cut: {error}") from error

    def _nothing_arrived(self) -> bool:
        """Return whether the next read waits for the server, but for part of an event that may be buffered."""
        sock = getattr(self._response.connection, "sock", None)
        if sock is None:
            return False
        decrypted = sock.pending() if isinstance(sock, ssl.SSLSocket) else 0
        return not decrypted and not wait_for_read(sock, timeout=0.0)
