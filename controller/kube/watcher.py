"""Watch one resource: list it, watch from that version on, and list again when the watch cannot go on.

    list ──REPLACED──▶ watch ──ADDED/MODIFIED/DELETED──▶ ... stream ends ──▶ watch from the last version
      ▲                  │
      └── 410, or three streams in a row that failed without an event

Each stream is asked for 60 to 90 s, with bookmarks. A server that works ends it by then, so a stream that is silent
for longer is half-open: it is closed and reported, and the next goes on from the last version (or the last bookmark's,
which keeps the version of a quiet kind fresh). Failures are retried with exponential back-off and jitter. Objects known
before an outage are kept until the next list: nothing is deleted because data is absent (invariant 5).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from controller.core.state.change import Change, ChangeType
from controller.errors import KubeError, TooManyRequestsError, UnavailableError
from controller.kube.client import KubeClient
from controller.kube.outages import Outages
from controller.kube.resources import Resource
from controller.kube.retry import Backoff
from controller.kube.stream import WatchEvent, WatchStream
from controller.runtime.clock import Clock
from controller.runtime.workers import Run, Worker, periodic

_log = structlog.get_logger("kube")

_RELIST_AFTER_FAILURES = 3
_LASTED_SECONDS = 1.0
_CHANGES = {"ADDED": ChangeType.ADDED, "MODIFIED": ChangeType.MODIFIED, "DELETED": ChangeType.DELETED}


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a watch is kept. Tests compress the times; the defaults fit a real API server."""

    min_timeout_seconds: float = 60.0
    max_timeout_seconds: float = 90.0
    """The server ends a watch after a random time between the two (client-go: 5 to 10 min)."""
    late_seconds: float = 5.0
    """How much later than asked for the server may end a silent watch."""
    read_timeout_seconds: float = math.inf
    """A silent stream is closed after this, if it is sooner than the end that the server was asked for."""
    backoff: Backoff = field(default_factory=lambda: Backoff(initial_seconds=0.5, max_seconds=10.0))
    """Its longest delay is also how late the end of an outage may be noticed."""


class Watcher:
    """Pass every change of a resource to `sink`, on its own thread, in the server's order.

    `sink` must be quick and thread-safe. The selectors narrow the watch.
    """

    def __init__(
        self,
        resource: Resource,
        client: KubeClient,
        sink: Callable[[Change], None],
        clock: Clock,
        *,
        options: WatchOptions | None = None,
        outages: Outages | None = None,
        run: Run = Worker.start,
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        self.resource = resource
        self.synced = threading.Event()
        """Set once the first list was handed over."""
        self._client = client
        self._sink = sink
        self._clock = clock
        self._options = options or WatchOptions()
        self._outages = outages or Outages(clock)
        self._label_selector, self._field_selector = label_selector, field_selector
        self._stop = threading.Event()
        self._stream: WatchStream | None = None
        self._stream_lock = threading.Lock()
        self._run = run
        self._worker = periodic(f"watch-{resource.plural}", self._step, clock, self._stop)
        self._resource_version = ""
        self._received = 0
        self._failures = 0
        """Consecutive streams and lists without an event."""

    def start(self) -> None:
        self._run(self._worker)

    def request_stop(self) -> None:
        """End the stream; returns at once."""
        self._stop.set()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.close()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        self.request_stop()
        self._worker.join(timeout_seconds)

    @property
    def alive(self) -> bool:
        return self._worker.alive

    def _step(self) -> float:
        """List if there is no version to watch from, then follow one stream to its end; return the pause in seconds."""
        received, asked_seconds = self._received, 0.0
        try:
            if not self._resource_version:
                self._list()
            lasted = self._follow()
            self._failures = 0 if lasted or self._received != received else self._failures + 1
        except KubeError as error:
            if self._stop.is_set():
                return 0.0
            self._failures = 1 if self._received != received else self._failures + 1
            asked_seconds = error.retry_after_seconds if isinstance(error, TooManyRequestsError) else 0.0
            self._give_up(error, self._failures)
        except Exception:  # noqa: BLE001 - the watch outlives a bug
            _log.exception("Watch failed unexpectedly", kind=self.resource.kind)
            self._failures += 1
            self._resource_version = ""
        return max(asked_seconds, self._options.backoff.wait_seconds(self._failures)) if self._failures else 0.0

    def _give_up(self, error: KubeError, failures: int) -> None:
        """Record the failure; clear the version if the next step must list again."""
        self._outages.begin(self.resource.kind, error)
        trusted = isinstance(error, UnavailableError | TooManyRequestsError)
        if not trusted or failures % _RELIST_AFTER_FAILURES == 0:
            self._resource_version = ""

    def _list(self) -> None:
        listed = self._client.list_all(self.resource, "", self._label_selector, self._field_selector)
        change = Change(self.resource.kind, ChangeType.REPLACED, listed.items, listed.resource_version)
        self._resource_version = listed.resource_version
        self._sink(change)
        self.synced.set()
        self._outages.end(self.resource.kind)

    def _follow(self) -> bool:
        """Follow one stream to its end. False when the server ended it at once, which counts as a failure."""
        begun = self._clock.monotonic()
        options = self._options
        asked_seconds = options.backoff.uniform(options.min_timeout_seconds, options.max_timeout_seconds)
        stream = self._client.watch(
            self.resource,
            self._resource_version,
            timeout_seconds=asked_seconds,
            read_timeout_seconds=min(options.read_timeout_seconds, asked_seconds + options.late_seconds),
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        self._outages.end(self.resource.kind, silent=False)
        with stream:
            with self._stream_lock:
                self._stream = stream
            try:
                if not self._stop.is_set():
                    for event in stream:
                        self._take(event)
            finally:
                with self._stream_lock:
                    self._stream = None
        return self._clock.monotonic() - begun >= _LASTED_SECONDS

    def _take(self, event: WatchEvent) -> None:
        version = (event.object.get("metadata") or {}).get("resourceVersion")
        change = _CHANGES.get(event.type)
        if change is not None:
            self._sink(Change(self.resource.kind, change, (event.object,)))
        if isinstance(version, str) and version:
            self._resource_version = version
        self._received += 1
        self._outages.end(self.resource.kind)
