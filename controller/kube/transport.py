"""HTTP exchanges with the API server: credentials, rate limit, timeouts, retries, errors."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urlencode, urlsplit

import urllib3

import controller
from controller.errors import KubeError, UnavailableError
from controller.kube import retry
from controller.kube.connection import Connection
from controller.kube.refusals import NotSentError, error_of
from controller.kube.retry import Backoff
from controller.runtime.clock import Clock, ServerClock
from controller.runtime.metrics import REST_REQUESTS, SILENT, Recorder
from controller.runtime.rate_limit import TokenBucket

NO_ANSWER = "<error>"
"""The `code` label that client-go gives requests without an answer."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Timeouts, rate limit and retries. The rates are Karpenter v0.27's KUBE_CLIENT_QPS and KUBE_CLIENT_BURST."""

    qps: float = 200.0
    burst: int = 300
    connect_timeout_seconds: float = 5.0
    timeout_seconds: float = 30.0
    """Between two bytes of an answer."""
    page_size: int = 1000
    """Objects a page of a list."""
    backoff: Backoff = field(default_factory=Backoff)
    user_agent: str = f"nodeless/{controller.__version__}"


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `what` names the call and its object, for messages."""

    method: str
    path: str
    what: str
    query: Mapping[str, str] = field(default_factory=dict)
    """Empty values are left out."""
    body: bytes | None = None
    content_type: str = "application/json"
    idempotent: bool = True
    """It may be retried although it is unknown whether it was executed."""
    repeat_busy: bool = True
    """It may be retried after a 429."""


class Transport:
    """Thread-safe. Raises the KubeErrors of `controller.errors`."""

    def __init__(
        self,
        connection: Connection,
        options: ClientOptions,
        clock: Clock,
        stop: threading.Event,
        recorder: Recorder = SILENT,
    ) -> None:
        """Setting `stop` ends waits: the last error is raised."""
        self.connection = connection
        self.options = options
        self.clock = clock
        self.stop = stop
        self.recorder = recorder
        self._bucket = TokenBucket(options.qps, options.burst, clock)

    def exchange(self, request: Request) -> bytes:
        """Send the request, retrying where that is safe; return the answer's body."""

        def retry_if(error: KubeError) -> bool:
            return retry.repeatable(error, request.idempotent) and (request.repeat_busy or error.status != 429)

        def once() -> bytes:
            return self._send(request, self.options.timeout_seconds, preload=True).data

        return retry.call(once, self.options.backoff, self.clock, self.stop, retry_if)

    def stream(self, request: Request, read_timeout_seconds: float) -> urllib3.BaseHTTPResponse:
        """Send the request once; return an answer whose body is still to be read."""
        return self._send(request, read_timeout_seconds, preload=False)

    def _send(self, request: Request, read_timeout_seconds: float, *, preload: bool) -> urllib3.BaseHTTPResponse:
        seconds = self._bucket.reserve()
        if seconds > 0:
            self.clock.wait(self.stop, seconds)
        headers = {"Accept": "application/json", "User-Agent": self.options.user_agent}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        headers |= self.connection.auth_headers()
        timeout = urllib3.Timeout(connect=self.options.connect_timeout_seconds, read=read_timeout_seconds)
        server, what = self.connection.server, request.what
        began = self.clock.monotonic()
        try:
            response = self.connection.pool.request(
                request.method,
                _url(server, request),
                body=request.body,
                headers=headers,
                timeout=timeout,
                retries=False,
                preload_content=preload,
            )
            self._count(str(response.status), request)
            self._compare_clocks(response.headers.get("Date", ""), self.clock.monotonic() - began)
            if response.status < 400:
                return response
            body = response.data
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
            self._count(NO_ANSWER, request)
            raise NotSentError(f"{what}: no connection to {server}: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self._count(NO_ANSWER, request)
            raise UnavailableError(f"{what}: no answer from {server}: {error}") from error
        raise error_of(response.status, body, what, response.headers.get("Retry-After", ""))

    def _compare_clocks(self, date: str, took_seconds: float) -> None:
        if not isinstance(self.clock, ServerClock):
            return
        try:
            self.clock.compare(parsedate_to_datetime(date).timestamp(), took_seconds)
        except ValueError:
            return  # an answer without a date, for example from a proxy

    def _count(self, code: str, request: Request) -> None:
        host = urlsplit(self.connection.server).netloc
        self.recorder.count(REST_REQUESTS, code, request.method, host)


def _url(server: str, request: Request) -> str:
    query = urlencode({key: value for key, value in request.query.items() if value})
    return f"{server}{request.path}?{query}" if query else f"{server}{request.path}"
