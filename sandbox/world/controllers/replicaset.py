"""ReplicaSet → Pods: as many as asked, the least useful going first when there are too many."""

from __future__ import annotations

import asyncio

from sandbox.world.client import ApiError
from sandbox.world.clock import parse_timestamp
from sandbox.world.controllers.base import (
    Context,
    Controller,
    condition,
    is_active,
    is_ready,
    pod_from_template,
    with_condition,
)
from sandbox.world.resources import PODS, REPLICA_SETS, Key, Obj, controller_of, key_of, owner_reference
from sandbox.world.scheduling.selectors import LabelSelector

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SLOW_START = 1
BURST = 64
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSetController(Controller):
    """Creates and deletes pods; reports status.replicas, readyReplicas, availableReplicas, fullyLabeledReplicas."""

    name = "replicaset"
    concurrency = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.watch(REPLICA_SETS)
        self.pods = self.watch_owned(PODS, REPLICA_SETS)
        self.pods.add_index("namespace", lambda pod: [pod["metadata"]["namespace"]])
        self.pods.add_handler(self._on_orphan)

    def _on_orphan(self, _: Obj | None, new: Obj | None) -> None:
        if new is not None and controller_of(new) is None and is_active(new) and new["metadata"].get("labels"):
            for found in self.sets:
                if found["metadata"]["namespace"] == new["metadata"]["namespace"] and _selects(found, new):
                    self.queue.add(key_of(found))

    async def sync(self, key: Key) -> float | None:
        """Create or delete until the number is right, then write the status."""
        found = self.sets.get(key)
        if found is None:
            return None
        mine = await self._claim(found)
        active = [pod for pod in mine if is_active(pod)]
        failure = ""
        if not found["metadata"].get("deletionTimestamp"):
            surplus = len(active) - _wanted(found)
            try:
                if surplus < 0:
                    await self._create(found, -surplus)
                elif surplus > 0:
                    await self._delete(found, active, surplus)
            except ApiError as error:
                failure = str(error)
            active = [pod for pod in self.pods.by("controller", found["metadata"]["uid"]) if is_active(pod)]
        await self._report(self.sets.get(key) or found, active, failure)
        if failure:
            return 1.0
        return self._until_available(found, active)

    async def _claim(self, found: Obj) -> list[Obj]:
        """The set's pods; orphans that its selector matches are adopted."""
        if not found["metadata"].get("deletionTimestamp"):
            for pod in self.pods.by("namespace", found["metadata"]["namespace"]):
                if controller_of(pod) is None and is_active(pod) and _selects(found, pod):
                    reference = owner_reference(found, REPLICA_SETS)
                    body = {"metadata": {"uid": pod["metadata"]["uid"], "ownerReferences": [reference]}}
                    await self.patch(PODS, key_of(pod), body)
        return self.pods.by("controller", found["metadata"]["uid"])

    async def _create(self, found: Obj, count: int) -> None:
        """In doubling batches, so that a refusal (quota, admission) costs one call and not `count`."""
        pod = pod_from_template(found["spec"]["template"], found, owner_reference(found, REPLICA_SETS))
        batch = SLOW_START
        while count > 0:
            size = min(batch, count, BURST)
            results = await asyncio.gather(*(self.create(PODS, pod) for _ in range(size)), return_exceptions=True)
            for made in results:
                if isinstance(made, ApiError):
                    text = f"Error creating: {made}"
                    self._event(found, "FailedCreate", text, warning=True)
                    raise made
                if isinstance(made, BaseException):
                    raise made
                self._event(found, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
            count -= size
            batch *= 2

    async def _delete(self, found: Obj, active: list[Obj], count: int) -> None:
        doomed = sorted(active, key=lambda pod: deletion_rank(pod, active))[:count]
        for start in range(0, len(doomed), BURST):
            batch = doomed[start : start + BURST]
            await asyncio.gather(*(self.delete(PODS, pod) for pod in batch))
            for pod in batch:
                self._event(found, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    def _event(self, found: Obj, reason: str, message: str, *, warning: bool = False) -> None:
        self.recorder.publish(REPLICA_SETS, found, reason, message, component="replicaset-controller", warning=warning)

    async def _report(self, found: Obj, active: list[Obj], failure: str) -> None:
        template = found["spec"]["template"].get("metadata", {}).get("labels") or {}
        labelled = [pod for pod in active if template.items() <= (pod["metadata"].get("labels") or {}).items()]
        status: Obj = {
            "replicas": len(active),
            "fullyLabeledReplicas": len(labelled) or None,
            "readyReplicas": sum(map(is_ready, active)) or None,
            "availableReplicas": sum(self._available_in(found, pod) == 0.0 for pod in active) or None,
            "observedGeneration": found["metadata"].get("generation"),
        }
        if failure:
            conditions = with_condition(found, "ReplicaFailure", "True", "FailedCreate", failure, self.now())
            status["conditions"] = conditions
        elif condition(found, "ReplicaFailure"):
            status["conditions"] = [c for c in found["status"]["conditions"] if c["type"] != "ReplicaFailure"] or None
        await self.update_status(REPLICA_SETS, found, status)

    def _available_in(self, found: Obj, pod: Obj) -> float | None:
        """Wall seconds until the pod counts as available (minReadySeconds); None while it is not ready."""
        return available_in(pod, found["spec"].get("minReadySeconds") or 0, self.clock.now().timestamp())

    def _until_available(self, found: Obj, active: list[Obj]) -> float | None:
        waits = [wait for pod in active if (wait := self._available_in(found, pod))]
        return min(waits) * self.clock.scale if waits else None


def available_in(pod: Obj, min_ready_seconds: int, now_seconds: float) -> float | None:
    """Wall seconds until `pod` has been ready for `min_ready_seconds`; None while it is not ready."""
    if not is_ready(pod):
        return None
    since = parse_timestamp(condition(pod, "Ready")["lastTransitionTime"]).timestamp()
    return max(0.0, since + min_ready_seconds - now_seconds) if min_ready_seconds else 0.0


def deletion_rank(pod: Obj, active: list[Obj]) -> tuple[object, ...]:
    """kube-controller-manager's ActivePodsWithRanks: the smallest goes first.

    Unassigned, then pending, then not ready, then the cheaper deletion cost, then the pod with more siblings on its
    node, then ready for a shorter time, then more restarts, then younger.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    annotations = pod["metadata"].get("annotations") or {}
    node = spec.get("nodeName")
    siblings = sum(other["spec"].get("nodeName") == node for other in active) if node else 0
    ready = condition(pod, "Ready")
    restarts = max((c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0)
    created = parse_timestamp(pod["metadata"]["creationTimestamp"]).timestamp()
    ready_since = parse_timestamp(ready["lastTransitionTime"]).timestamp() if is_ready(pod) else 0.0
    return (
        bool(node),
        PHASES.get(status.get("phase", "Pending"), 1),
        is_ready(pod),
        _cost(annotations.get(DELETION_COST, "0")),
        -siblings,
        -ready_since,
        -restarts,
        -created,
        pod["metadata"]["name"],
    )


def _cost(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def _wanted(found: Obj) -> int:
    replicas = found["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def _selects(found: Obj, pod: Obj) -> bool:
    selector = LabelSelector.parse(found["spec"].get("selector"))
    return selector is not None and selector.matches(pod["metadata"].get("labels") or {})
