"""core/v1 Events as the real components write them: one Event per (object, reason, message), counted on repetition."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass

from sandbox.world.client import ApiClient, ApiError
from sandbox.world.clock import WorldClock, timestamp
from sandbox.world.resources import EVENTS, Obj, Resource

BACKLOG = 5_000
REMEMBERED = 10_000

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Record:
    key: tuple[str, str]
    count: int


class EventRecorder:
    """Best effort, as client-go's: when more than `BACKLOG` events wait, new ones are dropped."""

    def __init__(self, client: ApiClient, clock: WorldClock) -> None:
        self._client = client
        self._clock = clock
        self._queue: asyncio.Queue[tuple[tuple[str, ...], Obj]] = asyncio.Queue(maxsize=BACKLOG)
        self._known: dict[tuple[str, ...], _Record] = {}

    def publish(
        self, resource: Resource, obj: Obj, reason: str, message: str, *, component: str, warning: bool = False,
        host: str = "",
    ) -> None:  # fmt: skip
        """Queue an event on `obj` from `component` (on node `host` for kubelets)."""
        meta = obj["metadata"]
        namespace = meta.get("namespace") or "default"
        now = timestamp(self._clock.now())
        event: Obj = {
            "metadata": {"name": f"{meta['name']}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": resource.group_version,
                "kind": resource.kind,
                "name": meta["name"],
                "uid": meta.get("uid", ""),
                **({"namespace": namespace} if resource.namespaced else {}),
            },
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": component, **({"host": host} if host else {})},
            "reportingComponent": component,
            "reportingInstance": host,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._queue.put_nowait(((meta.get("uid", ""), meta["name"], component, reason, message), event))
        except asyncio.QueueFull:
            log.debug("event dropped, backlog full: %s %s", reason, meta["name"])

    async def run(self) -> None:
        """Write queued events for ever, one after the other."""
        while True:
            identity, event = await self._queue.get()
            try:
                await self._write(identity, event)
            except ApiError as error:  # a lost event is no reason to do anything else differently
                log.debug("event %s on %s not written: %s", event["reason"], event["involvedObject"]["name"], error)

    async def _write(self, identity: tuple[str, ...], event: Obj) -> None:
        record = self._known.get(identity)
        if record is not None:
            record.count += 1
            try:
                body = {"count": record.count, "lastTimestamp": event["lastTimestamp"]}
                await self._client.patch(EVENTS, record.key, body)
            except ApiError as error:
                if not error.not_found:
                    raise
            else:
                return
        await self._client.create(EVENTS, event)
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[identity] = _Record((event["metadata"]["namespace"], event["metadata"]["name"]), 1)
