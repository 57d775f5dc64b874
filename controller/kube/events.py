"""Record Kubernetes Events, so that `kubectl describe` shows what the controller did and why.

Publishing never blocks and never raises: events wait in a bounded queue, and a worker sends them at a limited rate. A
repeat within two minutes is only counted; a later one increases `count` and `lastTimestamp` of the existing event, as
client-go's recorder does. Events that are not sent are counted in `dropped`.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import structlog
from cachetools import LRUCache, TTLCache

from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import Pod
from controller.core.api.provisioner import Provisioner
from controller.errors import KubeError, NamespaceTerminatingError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import AWS_NODE_TEMPLATES, EVENTS, NODES, PODS, PROVISIONERS, Resource
from controller.runtime.clock import Clock
from controller.runtime.rate_limit import TokenBucket
from controller.runtime.workers import Pause, Run, Worker

_log = structlog.get_logger("events")

COMPONENT = "karpenter"
"""The source of Karpenter v0.27's events, by which users filter."""
DEDUPE_SECONDS = 120.0
MAX_MESSAGE_CHARS = 1024
"""The API server refuses longer messages of core/v1 events."""
_DEFAULT_NAMESPACE = "default"
"""Where events on cluster-scoped objects go, as Kubernetes' own do."""
_MAX_WAITING = 4096
_IDLE = Pause(1.0)
_MAX_REMEMBERED = 16_384


@dataclass(frozen=True, slots=True)
class ObjectRef:
    api_version: str
    kind: str
    name: str
    uid: str = ""
    namespace: str = ""

    def document(self) -> dict[str, str]:
        """As an ObjectReference of the API; what is empty is left out."""
        fields = {"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace}
        fields |= {"name": self.name, "uid": self.uid}
        return {key: value for key, value in fields.items() if value}

    @classmethod
    def of(cls, value: Pod | Node | Provisioner | AWSNodeTemplate) -> ObjectRef:
        resource = _RESOURCES[type(value)]
        namespace = value.namespace if isinstance(value, Pod) else ""
        return cls(resource.api_version, resource.kind, value.name, value.uid, namespace)

    @classmethod
    def of_node(cls, name: str) -> ObjectRef:
        """A Node by its name, which the kubelet, too, writes for the uid: `kubectl describe node` looks for both."""
        return cls(NODES.api_version, NODES.kind, name, name)


_RESOURCES: Mapping[type, Resource] = {
    Pod: PODS,
    Node: NODES,
    Provisioner: PROVISIONERS,
    AWSNodeTemplate: AWS_NODE_TEMPLATES,
}


@dataclass(frozen=True, slots=True)
class EventLimit:
    per_second: float
    burst: int


EVENT_LIMITS: Mapping[str, EventLimit] = {
    "Nominated": EventLimit(per_second=2.0, burst=100),
    "Launched": EventLimit(per_second=2.0, burst=100),
}
"""Karpenter v0.27 sends 10 Nominated events at once and then 5 a second for all pods together. Here each pod of a batch
of 100 gets one, and each of 100 nodes its Launched; in a larger burst the two would be half of all our requests to the
API server, and the log and the ledger have every launch."""

_PACE = EventLimit(per_second=50.0, burst=100)
"""Of all events together: a quarter of the client's rate."""

_Key: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pending:
    key: _Key
    series: _Key
    """Key of the event on the server that messages share; it shows the last of them."""
    ref: ObjectRef
    type: str
    reason: str
    message: str
    at: float


@dataclass(slots=True)
class _Series:
    """An event on the server, whose `count` increases with repeats."""

    namespace: str
    name: str
    count: int


class EventRecorder:
    """Thread-safe. `start` it once; `stop` sends the queued events, for a limited time."""

    def __init__(
        self, client: KubeClient, clock: Clock, limits: Mapping[str, EventLimit] = EVENT_LIMITS, run: Run = Worker.start
    ) -> None:
        self.dropped = 0
        """Events that were not sent: over their limit, queue full, or refused by the server."""
        self.published = 0
        """Events that reached the server."""
        self._client = client
        self._clock = clock
        self._limits = {reason: TokenBucket(limit.per_second, limit.burst, clock) for reason, limit in limits.items()}
        self._pace = TokenBucket(_PACE.per_second, _PACE.burst, clock)
        self._waiting: deque[_Pending] = deque()
        self._lock = threading.Lock()
        self._recent: TTLCache[_Key, bool] = TTLCache(_MAX_REMEMBERED, DEDUPE_SECONDS, timer=clock.monotonic)
        self._repeats: LRUCache[_Key, int] = LRUCache(_MAX_REMEMBERED)
        self._series: LRUCache[_Key, _Series] = LRUCache(_MAX_REMEMBERED)
        self._names = itertools.count(1)
        self._wake, self._ends, self._stop = threading.Event(), threading.Event(), threading.Event()
        """Something may be queued; nothing more will be queued; the worker ends."""
        self._warned = False
        self._run = run
        self._worker = Worker("events", self.step, self._stop, self._wait)

    def start(self) -> None:
        self._run(self._worker)

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """Send the queued events, then end; those left after the timeout are lost."""
        self._ends.set()
        self._wake.set()
        if not self._worker.join(timeout_seconds):
            _log.warning("Events are lost at the end", waiting=len(self._waiting))
        self._stop.set()

    def publish(
        self,
        ref: ObjectRef,
        type: str,
        reason: str,
        message: str,
        dedupe: tuple[str, ...] = (),
        *,
        single: bool = False,
    ) -> None:
        """Record an event on `ref`. `type` is Normal or Warning.

        Repeats are recognised by object, reason and `dedupe`, or without that by the message. `single`: another message
        with the same object and reason replaces the message of the existing event.
        """
        of_reason = (ref.kind, ref.namespace, ref.name, ref.uid, reason)
        key = (*of_reason, *(dedupe or (message,)))
        with self._lock:
            if key in self._recent:
                self._repeats[key] = self._repeats.get(key, 0) + 1
                return
            limit = self._limits.get(reason)
            if limit is not None and not limit.try_take():
                self.dropped += 1
                return
            if len(self._waiting) >= _MAX_WAITING:
                self.dropped += 1
                return
            series = of_reason if single else key
            self._waiting.append(_Pending(key, series, ref, type, reason, message, self._clock.now()))
            self._recent[key] = True
        self._wake.set()

    def step(self) -> Pause:
        """Send the oldest event; the pause before the next."""
        self._wake.clear()
        if not self._waiting:
            if self._ends.is_set():
                self._stop.set()
            return _IDLE
        pending = self._waiting.popleft()
        try:
            self._send(pending)
            self.published += 1
            self._warned = False
        except KubeError as error:
            self._give_up(pending, error)
        except Exception:  # noqa: BLE001 - the worker outlives a lost event
            self.dropped += 1
            _log.exception("Event could not be written", reason=pending.reason, object=pending.ref.name)
        return Pause(self._pace.reserve())

    def _wait(self, pause: Pause) -> None:
        if pause is not _IDLE:
            self._clock.wait(self._stop, pause.seconds)
        elif not self._stop.is_set():
            self._wake.wait(pause.seconds)

    def _give_up(self, pending: _Pending, error: KubeError) -> None:
        """Count a lost event, and log the first of several in a row."""
        self.dropped += 1
        if isinstance(error, NamespaceTerminatingError):
            return  # the namespace is being deleted with its objects
        if not self._warned:
            _log.warning("Events cannot be written", reason=pending.reason, object=pending.ref.name, error=str(error))
        self._warned = True

    def _send(self, pending: _Pending) -> None:
        with self._lock:
            repeats = self._repeats.pop(pending.key, 0)
        series = self._series.get(pending.series)
        if series is not None:
            series.count += 1 + repeats
            patch = {"count": series.count, "lastTimestamp": _timestamp(pending.at), "message": _cut(pending.message)}
            try:
                self._client.patch(EVENTS, series.name, patch, namespace=series.namespace)
                return
            except NotFoundError:
                del self._series[pending.series]  # the API server drops events after an hour
        event = self._event(pending, count=1 + repeats)
        self._client.create(EVENTS, event, namespace=event["metadata"]["namespace"])
        self._series[pending.series] = _Series(
            event["metadata"]["namespace"], event["metadata"]["name"], event["count"]
        )

    def _event(self, pending: _Pending, count: int) -> dict[str, Any]:
        ref, at = pending.ref, _timestamp(pending.at)
        namespace = ref.namespace or _DEFAULT_NAMESPACE
        unique = f"{int(pending.at * 1e6):x}{next(self._names):04x}"
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"namespace": namespace, "name": f"{ref.name}.{unique}"},
            "involvedObject": ref.document(),
            "type": pending.type,
            "reason": pending.reason,
            "message": _cut(pending.message),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": "",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": count,
        }


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_CHARS else message[: MAX_MESSAGE_CHARS - 3] + "..."
