"""A proxy between the controller and its two APIs that kills the controller around a write.

The process dies by SIGKILL either before the request reaches the server (the deed is not done) or after the server
answered and before the answer reaches the process (the deed is done, nobody knows). These are all the ways in which a
crash can fall between two calls.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

When = Literal["before", "after"]

AWS_WRITES = frozenset({"CreateFleet", "CreateLaunchTemplate", "TerminateInstances", "CreateTags"})
NODE_PATCHES = {
    b"karpenter.sh/initialized": "initialize",
    b"karpenter.sh/deprovisioning-command": "record",
    b"karpenter.sh/emptiness-timestamp": "stamp as empty",
    b"unschedulable": "cordon",
    b"finalizers": "finalizer",
}
"""What a patch of a Node contains, and the step that it takes."""
HOLD_SECONDS = 60.0
"""How long an answer is held back at most."""
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "content-encoding"})


@dataclass
class CrashProxy:
    """Kills the victim around the first writes of a kind, once for each of its `deaths`, and then lets it pass."""

    deaths: Mapping[str, tuple[When, ...]]
    """By kind of write; the others pass."""
    victim_pid: int | None = None
    """Who is to die; None once it did."""
    kills: list[str] = field(default_factory=list)
    """The kinds of write around which the process died, in order."""
    writes: Counter[str] = field(default_factory=Counter)
    """All writes that came, by kind."""
    held: Mapping[str, threading.Event] = field(default_factory=dict)
    """Kinds of write that are done, but not answered before their event is set."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def dies(self, kind: str) -> When | None:
        """Count a write; on which side of it the process is to die."""
        with self._lock:
            self.writes[kind] += 1
            earlier = self.kills.count(kind)
            deaths = self.deaths.get(kind, ())
            if self.victim_pid is None or earlier >= len(deaths):
                return None
            self.kills.append(kind)
            return deaths[earlier]

    def kill(self) -> None:
        """SIGKILL: no chance to tidy up."""
        with self._lock:
            if self.victim_pid is not None:
                os.kill(self.victim_pid, signal.SIGKILL)
                self.victim_pid = None

    @contextmanager
    def serve(self, upstreams: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """Proxy each upstream URL on a loopback port of its own; name → the proxy's URL."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="crash-proxy", daemon=True)
        thread.start()
        try:
            doors = asyncio.run_coroutine_threadsafe(self._start(upstreams), loop).result(30)
            yield {name: url for name, (url, _, _) in doors.items()}
            asyncio.run_coroutine_threadsafe(self._stop(doors), loop).result(30)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(30)
            loop.close()

    async def _start(self, upstreams: Mapping[str, str]) -> dict[str, tuple[str, web.AppRunner, ClientSession]]:
        doors = {}
        for name, upstream in upstreams.items():
            session = ClientSession(
                auto_decompress=False, timeout=ClientTimeout(total=None), connector=TCPConnector(limit=0)
            )
            server = web.Application(client_max_size=64 * 2**20)
            server.router.add_route("*", "/{path:.*}", _Door(self, session, upstream).answer)
            runner = web.AppRunner(server, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            doors[name] = (f"http://127.0.0.1:{port}", runner, session)
        return doors

    async def _stop(self, doors: Mapping[str, tuple[str, web.AppRunner, ClientSession]]) -> None:
        for _, runner, session in doors.values():
            await runner.cleanup()
            await session.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()  # handlers whose process died in the middle
        await asyncio.gather(*others, return_exceptions=True)


@dataclass(frozen=True)
class _Door:
    proxy: CrashProxy
    session: ClientSession
    upstream: str

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        kind = write_kind(request.method, request.path, body)
        dies = self.proxy.dies(kind) if kind else None
        if dies == "before":
            return self._die(request)
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
        async with self.session.request(
            request.method, self.upstream + request.raw_path, data=body, headers=headers, allow_redirects=False
        ) as answer:
            if dies == "after":
                await answer.read()
                return self._die(request)
            if kind in self.proxy.held:
                await asyncio.to_thread(self.proxy.held[kind].wait, HOLD_SECONDS)
            sent = web.StreamResponse(status=answer.status)
            for key, value in answer.headers.items():
                if key.lower() not in _HOP - {"content-encoding"}:
                    sent.headers.add(key, value)
            try:
                await sent.prepare(request)
                async for chunk in answer.content.iter_any():
                    await sent.write(chunk)
                await sent.write_eof()
            except ConnectionError:
                return sent  # the process at the other end is dead
            return sent

    def _die(self, request: web.Request) -> web.Response:
        self.proxy.kill()
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


def write_kind(method: str, path: str, body: bytes) -> str:
    """Which step of a node's life a request takes; empty for a read, a dry run, and writes that take none."""
    if body.startswith(b"Action="):
        asked = parse_qs(body.decode())
        action = asked["Action"][0]
        return action if action in AWS_WRITES and "DryRun" not in asked else ""
    if method in ("GET", "HEAD"):
        return ""
    match path.strip("/").split("/"):
        case ["api", "v1", "nodes", _] if method == "PATCH":
            return next((step for mark, step in NODE_PATCHES.items() if mark in body), "other patch of a Node")
        case ["api", "v1", "nodes", *_]:
            return f"{method} nodes"
        case ["api", "v1", "namespaces", _, "pods", _, "eviction"]:
            return "eviction"
        case _:
            return ""  # events, the lease, the status of Provisioners: no node's life hangs on them
