"""Watches: replay from a resourceVersion, selector transitions, bookmarks, 410 in the stream, silence on request."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass

import orjson

from sandbox.apiserver.api import API
from sandbox.apiserver.errors import APIError, expired
from sandbox.apiserver.requests import Request
from sandbox.apiserver.storage.store import CompactedError, Entry, Event
from sandbox.apiserver.tables.views import View
from sandbox.apiserver.verbs.reads import filter_of
from sandbox.apiserver.verbs.selectors import Filter

_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}
_DEFAULT_TIMEOUT_SECONDS = (1800, 3600)
"""A watch without timeoutSeconds ends after a random time of this range (--min-request-timeout)."""


@dataclass(slots=True, eq=False)
class OpenWatch:
    """One client's stream. `muted` is the half-open connection: the socket stays, nothing comes."""

    queue: asyncio.Queue[Event | None]
    muted: bool = False

    def end(self) -> None:
        """Ends the stream as a server that restarts would."""
        self.queue.put_nowait(None)


class Watches:
    """The open watches of one server."""

    def __init__(self) -> None:
        self.open: set[OpenWatch] = set()

    def mute(self) -> int:
        """Makes all open watches fall silent for good; later ones are not touched."""
        for watch in self.open:
            watch.muted = True
        return len(self.open)

    def end_all(self) -> int:
        """Ends all open watches."""
        for watch in self.open:
            watch.muted = False
            watch.end()
        return len(self.open)

    def stream(self, api: API, request: Request) -> AsyncGenerator[bytes, None]:
        """The lines of a watch. Raises 400 here; later refusals are ERROR events in the stream."""
        lines = _Lines(api, request, filter_of(api, request), View(api, request))
        start = request.query.get("resourceVersion", "")
        if start and not start.isdecimal():
            why = f'resourceVersion: Invalid value: "{start}": strconv.ParseUint: parsing "{start}": invalid syntax'
            raise APIError(500, "", why)
        timeout = float(request.query.get("timeoutSeconds") or 0) or random.uniform(*_DEFAULT_TIMEOUT_SECONDS)
        return self._lines(api, request, lines, start, timeout)

    async def _lines(
        self, api: API, request: Request, lines: _Lines, start: str, timeout: float
    ) -> AsyncGenerator[bytes, None]:
        watch = OpenWatch(asyncio.Queue())
        stop_listening = api.store.listen(request.resource.storage_key, watch.queue.put_nowait)
        self.open.add(watch)
        try:
            try:
                backlog = list(lines.initial(start))
            except CompactedError as error:
                yield _line("ERROR", orjson.dumps(expired(str(error)).status()))
                return
            for line in backlog:
                yield line
            async for line in _live(api, lines, watch, timeout):
                yield line
        finally:
            stop_listening()
            self.open.discard(watch)


class _Lines:
    """Turns events into the lines of one client."""

    def __init__(self, api: API, request: Request, wanted: Filter, view: View) -> None:
        self._api, self._request, self._wanted, self._view = api, request, wanted, view
        self._first = True
        self.bookmarks = request.flag("allowWatchBookmarks")

    def initial(self, start: str) -> Iterator[bytes]:
        """Present objects as ADDED (no version, version 0, or sendInitialEvents), or the events since a version."""
        store, key = self._api.store, self._request.resource.storage_key
        send_initial = self._request.query.get("sendInitialEvents", "").lower() == "true"
        if send_initial or start in ("", "0"):
            if self._request.query.get("sendInitialEvents", "").lower() != "false":
                for entry in store.list(key, self._request.namespace):
                    if self._wanted.matches(entry.obj):
                        yield self._added(entry)
            if send_initial:
                yield self.bookmark(_INITIAL_EVENTS_END)
            return
        for event in store.since(key, int(start)):
            if line := self.of(event):
                yield line

    def _added(self, entry: Entry) -> bytes:
        line = _line("ADDED", self._view.watched(entry, header=self._first))
        self._first = False
        return line

    def of(self, event: Event) -> bytes:
        """The line for an event, or nothing: an object that starts to match is ADDED, one that ceases is DELETED."""
        if self._request.namespace and event.key[0] != self._request.namespace:
            return b""
        kind = event.type
        if not self._wanted.everything:
            now = event.type != "DELETED" and self._wanted.matches(event.after.obj)
            before = event.before is not None and self._wanted.matches(event.before.obj)
            if not now and not before:
                return b""
            kind = "MODIFIED" if now and before else "ADDED" if now else "DELETED"
        shown = event.after
        if kind == "DELETED" and event.type != "DELETED" and event.before is not None:
            obj = event.before.copy()
            obj["metadata"]["resourceVersion"] = str(event.resource_version)
            shown = Entry(obj, event.resource_version)
        line = _line(kind, self._view.watched(shown, header=self._first))
        self._first = False
        return line

    def bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        """A BOOKMARK of the present version."""
        return _line("BOOKMARK", self._view.bookmark(self._api.store.resource_version, annotations))


async def _live(api: API, lines: _Lines, watch: OpenWatch, timeout: float) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    next_bookmark = loop.time() + api.bookmark_seconds
    while True:
        until = min(end, next_bookmark) if lines.bookmarks else end
        try:
            async with asyncio.timeout_at(until):
                event = await watch.queue.get()
        except TimeoutError:
            if not watch.queue.empty():
                pass  # an event came at the same moment: it goes before any bookmark
            elif watch.muted:
                end = next_bookmark = loop.time() + 3600
            elif loop.time() >= end:
                if lines.bookmarks:
                    yield lines.bookmark()
                return
            else:
                next_bookmark = loop.time() + api.bookmark_seconds
                yield lines.bookmark()
            continue
        if event is None:
            return
        batch = [lines.of(event)]
        while not watch.queue.empty():
            following = watch.queue.get_nowait()
            if following is None:
                watch.queue.put_nowait(None)
                break
            batch.append(lines.of(following))
        if not watch.muted and (joined := b"".join(batch)):
            yield joined


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"
