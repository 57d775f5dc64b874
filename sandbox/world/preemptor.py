"""Carries out preemptions: nominates the node, marks and deletes the victims, as kube-scheduler does through the
API."""

from __future__ import annotations

import logging

from sandbox.world.client import STRATEGIC, ApiClient, ApiError
from sandbox.world.clock import WorldClock, timestamp
from sandbox.world.events import EventRecorder
from sandbox.world.informer import Informers
from sandbox.world.resources import PDBS, PODS, Obj, key_of
from sandbox.world.scheduling.cache import SchedulerCache
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.preemption import Preemption, choose_preemption
from sandbox.world.scheduling.verdict import NEVER_PREEMPTS, VICTIMS_ARE_GOING, Verdict, explain

COMPONENT = "default-scheduler"

log = logging.getLogger(__name__)


class Preemptor:
    """Decides at once (`attempt`), acts later (`carry_out`)."""

    def __init__(
        self, client: ApiClient, informers: Informers, recorder: EventRecorder, clock: WorldClock, cache: SchedulerCache
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._cache = cache
        self._budgets = informers.of(PDBS)

    def attempt(self, pod: PodInfo, verdict: Verdict) -> tuple[str, Preemption | None]:
        """The message of the refusal, and the preemption that shall make room, if one can."""
        if not verdict.rejections:
            return verdict.message, None
        if pod.spec.get("preemptionPolicy") == "Never":
            return explain(verdict.rejections, NEVER_PREEMPTS), None
        if self._victims_are_going(pod):
            return explain(verdict.rejections, VICTIMS_ARE_GOING), None
        found = choose_preemption(pod, self._cache.view, verdict, self._budgets)
        if found is None:
            return verdict.message, None
        self._cache.nominate(pod, found.node)
        return explain(verdict.rejections), found

    def _victims_are_going(self, pod: PodInfo) -> bool:
        """On the node that the pod was nominated for, a pod of lower priority is on its way out: wait for it."""
        node = self._cache.view.nodes.get(self._cache.nominated_node(pod))
        if node is None:
            return False
        return any(other.terminating and other.priority < pod.priority for other in node.pods.values())

    async def carry_out(self, pod: PodInfo, preemption: Preemption) -> None:
        """Write the nomination, then delete the victims, each with the condition DisruptionTarget."""
        status: Obj = {"nominatedNodeName": preemption.node}
        try:
            await self._client.patch(PODS, key_of(pod.obj), {"status": status}, subresource="status")
            for victim in preemption.victims:
                await self._evict(victim, pod, preemption.node)
        except ApiError as error:
            log.debug("preemption for pod %s/%s not finished: %s", pod.namespace, pod.name, error)

    async def _evict(self, victim: PodInfo, pod: PodInfo, node_name: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{COMPONENT}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": timestamp(self._clock.now()),
        }
        body = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(PODS, key_of(victim.obj), body, subresource="status", kind=STRATEGIC)
        except ApiError as error:
            if error.not_found or error.conflict:
                return
            raise
        await self._client.delete(PODS, victim.obj)
        message = f"Preempted by pod {pod.uid} on node {node_name}"
        self._recorder.publish(PODS, victim.obj, "Preempted", message, component=COMPONENT)
