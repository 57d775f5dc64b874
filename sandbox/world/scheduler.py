"""The sandbox's kube-scheduler: binds pending pods by Kubernetes' rules, and says in its words why one does not fit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass

from sandbox.world.client import STRATEGIC, ApiClient, ApiError
from sandbox.world.clock import WorldClock, timestamp
from sandbox.world.events import EventRecorder
from sandbox.world.informer import Informers
from sandbox.world.preemptor import Preemptor
from sandbox.world.resources import PODS, PVCS, PVS, Key, Obj, key_of
from sandbox.world.scheduling.cache import SchedulerCache, is_terminal
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.scoring import best_node
from sandbox.world.scheduling.verdict import Verdict, evaluate
from sandbox.world.scheduling.volumes import find_volume, is_bound

COMPONENT = "default-scheduler"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 1.0, 10.0
"""kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds."""
FLUSH_SECONDS = 60.0
"""Every so often all unschedulable pods are tried again (kube-scheduler: after 5 minutes)."""
GATHER_SECONDS = 0.01
"""Real time to let a burst of watch events arrive before a round."""
VOLUME_BIND_SECONDS = 600.0
"""kube-scheduler's bindTimeoutSeconds for volumes."""
PODS_PER_YIELD = 20

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    pod: PodInfo
    order: int
    attempts: int = 0
    not_before_seconds: float = 0.0
    failed_at: int | None = None
    """Change count at the last refusal; None before the first attempt."""


class Scheduler:
    """Watches through `informers`; `run` schedules for ever."""

    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder, clock: WorldClock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._wake = asyncio.Event()
        self._waiting: dict[str, _Waiting] = {}
        self._refused: dict[bytes, tuple[int, str]] = {}
        self._arrivals = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pods = informers.of(PODS)
        self._claims = informers.of(PVCS)
        self.cache = SchedulerCache(informers, self._wake.set)
        self._preemptor = Preemptor(client, informers, recorder, clock, self.cache)
        self._pods.add_handler(self._on_pod)

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        if new is None or new["spec"].get("nodeName") or is_terminal(new) or not _is_ours(new):
            self._waiting.pop((new or old or {})["metadata"]["uid"], None)
            return
        uid = new["metadata"]["uid"]
        known = self._waiting.get(uid)
        if known is not None:
            known.pod = PodInfo(new)
        elif not self.cache.is_placed(uid):
            self._arrivals += 1
            self._waiting[uid] = _Waiting(PodInfo(new), self._arrivals)
            self._wake.set()

    async def run(self) -> None:
        """Schedule whenever something changed; never ends by itself."""
        flushed_at = self._clock.monotonic_seconds()
        while True:
            delay = self._next_backoff_seconds()
            try:
                await asyncio.wait_for(self._wake.wait(), self._clock.real_seconds(min(delay, FLUSH_SECONDS)))
                await asyncio.sleep(GATHER_SECONDS)
            except TimeoutError:
                log.debug("woken by back-off")
            self._wake.clear()
            now = self._clock.monotonic_seconds()
            if now - flushed_at >= FLUSH_SECONDS:
                flushed_at = now
                self._refused.clear()
                for waiting in self._waiting.values():
                    waiting.failed_at = None
            await self._round()

    def _next_backoff_seconds(self) -> float:
        now = self._clock.monotonic_seconds()
        later = [w.not_before_seconds - now for w in self._waiting.values() if w.not_before_seconds > now]
        return max(min(later, default=FLUSH_SECONDS), 0.01)

    async def _round(self) -> None:
        """Try every waiting pod that a change could have helped, by priority and then by age."""
        if not self._waiting:
            self._refused.clear()
            self.cache.forget_changes()
            return
        queue = sorted(self._waiting.values(), key=lambda w: (-w.pod.priority, w.order))
        tried = 0
        for waiting in queue:
            if waiting.pod.uid not in self._waiting or waiting.not_before_seconds > self._clock.monotonic_seconds():
                continue
            try:
                tried += self._attempt(waiting)
            except Exception:
                self._waiting.pop(waiting.pod.uid, None)
                log.exception("pod %s/%s can't be scheduled; others can", waiting.pod.namespace, waiting.pod.name)
            if tried % PODS_PER_YIELD == PODS_PER_YIELD - 1:
                tried += 1
                await asyncio.sleep(0)

    def _attempt(self, waiting: _Waiting) -> int:
        """One attempt; 1 if the filters were run, 0 if their answer was known."""
        pod = waiting.pod
        position = self.cache.position
        known = self._refused.get(pod.signature)
        if known is not None and not self.cache.helps(pod, known[0]):
            self._refused[pod.signature] = (position, known[1])
            if waiting.failed_at is None:
                self._report(waiting, known[1])
            waiting.failed_at = position
            return 0
        with self.cache.room_reserved_from(pod):
            verdict = evaluate(pod, self.cache.view, list(self.cache.repelling()))
            node = best_node(pod, list(verdict.feasible), self.cache.view) if verdict.feasible else None
            message, preemption = ("", None) if node else self._preemptor.attempt(pod, verdict)
        if node is not None:
            self._waiting.pop(pod.uid, None)
            self.cache.assume(pod, node.name)
            self._start(self._bind(waiting, node, verdict))
            return 1
        if preemption is not None:
            self._start(self._preemptor.carry_out(pod, preemption))
        waiting.attempts += 1
        backoff = min(FIRST_BACKOFF_SECONDS * 2 ** (waiting.attempts - 1), LAST_BACKOFF_SECONDS)
        waiting.not_before_seconds = self._clock.monotonic_seconds() + backoff
        waiting.failed_at = position
        if preemption is None:  # the next pod of this kind may preempt others
            self._refused[pod.signature] = (position, message)
        self._report(waiting, message)
        return 1

    def _start(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Saying why not

    def _report(self, waiting: _Waiting, message: str) -> None:
        conditions = (waiting.pod.obj.get("status") or {}).get("conditions") or ()
        current: Obj = next((c for c in conditions if c["type"] == "PodScheduled"), {})
        if current.get("message") != message or current.get("reason") != "Unschedulable":
            self._start(self._write_refusal(waiting.pod, message))

    async def _write_refusal(self, pod: PodInfo, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(PODS, key_of(pod.obj), body, subresource="status", kind=STRATEGIC)
        except ApiError as error:
            log.debug("condition of pod %s/%s not written: %s", pod.namespace, pod.name, error)
            return
        self._recorder.publish(PODS, pod.obj, "FailedScheduling", message, component=COMPONENT, warning=True)

    # Binding

    async def _bind(self, waiting: _Waiting, node: NodeInfo, verdict: Verdict) -> None:
        pod = waiting.pod
        try:
            await self._bind_volumes(verdict.volumes.delayed, node)
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node.name},
            }
            await self._client.request("POST", PODS.path(pod.namespace, pod.name, "binding"), body=binding)
        except (ApiError, TimeoutError) as error:
            log.debug("pod %s/%s not bound to %s: %s", pod.namespace, pod.name, node.name, error)
            self.cache.unassume(pod)
            current = self._pods.get(key_of(pod.obj))
            if current is not None and current["metadata"]["uid"] == pod.uid and not current["spec"].get("nodeName"):
                waiting.not_before_seconds = self._clock.monotonic_seconds() + FIRST_BACKOFF_SECONDS
                self._waiting[pod.uid] = waiting
                self._wake.set()
            return
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node.name}"
        self._recorder.publish(PODS, pod.obj, "Scheduled", message, component=COMPONENT)

    async def _bind_volumes(self, claims: tuple[Obj, ...], node: NodeInfo) -> None:
        """Give each delayed claim a free volume or a node to be provisioned for, then wait until all are bound.

        Raises:
            TimeoutError: not bound within `VOLUME_BIND_SECONDS`.
        """
        for claim in claims:
            volume = find_volume(claim, node, self.cache.view)
            if volume is not None:
                meta = claim["metadata"]
                reference = {"apiVersion": "v1", "kind": PVCS.kind, "namespace": meta["namespace"]}
                reference |= {"name": meta["name"], "uid": meta["uid"]}
                await self._client.patch(PVS, key_of(volume), {"spec": {"claimRef": reference}})
            elif (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) != node.name:
                annotate = {"metadata": {"annotations": {SELECTED_NODE: node.name}}}
                await self._client.patch(PVCS, key_of(claim), annotate)
        async with asyncio.timeout(self._clock.real_seconds(VOLUME_BIND_SECONDS)):
            for claim in claims:
                await self._wait_bound(key_of(claim))

    async def _wait_bound(self, key: Key) -> None:
        while (claim := self._claims.get(key)) is None or not is_bound(claim):
            if claim is None:
                raise ApiError(404, "NotFound", f"persistentvolumeclaim {key} went away")
            await asyncio.sleep(0.05)


def _is_ours(pod: Obj) -> bool:
    spec = pod["spec"]
    return (
        (spec.get("schedulerName") or COMPONENT) == COMPONENT
        and not spec.get("schedulingGates")
        and not pod["metadata"].get("deletionTimestamp")
    )
