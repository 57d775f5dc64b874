"""Job → Pods that run to completion: parallelism, completions, backoffLimit, deadlines, Indexed mode, clean-up."""

from __future__ import annotations

import asyncio

from sandbox.world.clock import parse_timestamp
from sandbox.world.controllers.base import (
    Context,
    Controller,
    condition,
    is_active,
    is_deleting,
    is_ready,
    pod_from_template,
    with_condition,
)
from sandbox.world.resources import JOBS, PODS, Key, Obj, controller_of, key_of, owner_reference

FINALIZER = "batch.kubernetes.io/job-tracking"
"""Keeps an ended pod until it is counted."""
INDEX = "batch.kubernetes.io/job-completion-index"
FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 10.0, 600.0


class JobController(Controller):
    """status.active, ready, succeeded, failed, startTime, completionTime; conditions Complete, Failed, Suspended."""

    name = "job"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = self.watch(JOBS)
        self.pods = self.watch_owned(PODS, JOBS)
        self.pods.add_index("job", _job_of)

    async def sync(self, key: Key) -> float | None:
        """Count what ended, decide whether the Job has, else keep the right number of pods running."""
        job = self.jobs.get(key)
        await self._release(self._orphans(key, job))
        if job is None or is_deleting(job):
            if job is not None:
                await self._release(self.pods.by("controller", job["metadata"]["uid"]))
            return None
        if finished(job):
            await self._release(self.pods.by("controller", job["metadata"]["uid"]))
            return await self._expire(job)
        job = await self._count(job)
        if not (job.get("status") or {}).get("startTime") and not job["spec"].get("suspend"):
            job = await self._set(job, {"startTime": self.now()})
        pods = [pod for pod in self.pods.by("controller", job["metadata"]["uid"]) if is_active(pod)]
        verdict = self._verdict(job, pods)
        if verdict is not None:
            await self._end(job, pods, *verdict)
            return None
        if job["spec"].get("suspend"):
            await self._suspend(job, pods)
            return None
        if self._has_uncounted(job):  # their change has queued the Job again; counted first, replaced then
            return self._deadline_left(job)
        wait = await self._adjust(job, pods)
        pods = [pod for pod in self.pods.by("controller", job["metadata"]["uid"]) if is_active(pod)]
        await self._set(self.jobs.get(key) or job, {"active": len(pods) or None, "ready": sum(map(is_ready, pods))})
        deadline = self._deadline_left(job)
        return min((w for w in (wait, deadline) if w is not None), default=None)

    def _orphans(self, key: Key, job: Obj | None) -> list[Obj]:
        """Pods of a Job of this name that is gone: nobody counts them any more, so nothing holds them."""
        pods = self.pods.by("job", "/".join(key))
        uid = job["metadata"]["uid"] if job is not None else ""
        return [pod for pod in pods if (controller_of(pod) or {}).get("uid") != uid]

    async def _count(self, job: Obj) -> Obj:
        """Pods that ended and still bear the finalizer are uncounted: first into the status, then off with it.

        `uncountedTerminatedPods` makes the two steps safe to repeat, as in the real controller.
        """
        status = job.get("status") or {}
        uncounted = status.get("uncountedTerminatedPods") or {}
        pods = self.pods.by("controller", job["metadata"]["uid"])
        tracked = {
            pod["metadata"]["uid"]: pod for pod in pods if FINALIZER in (pod["metadata"].get("finalizers") or ())
        }
        succeeded = {uid for uid, pod in tracked.items() if _phase(pod) == "Succeeded"}
        failed = {uid for uid, pod in tracked.items() if uid not in succeeded and _has_failed(pod)}
        listed = {*uncounted.get("succeeded", ()), *uncounted.get("failed", ())}
        if (succeeded | failed) - listed:
            uncounted = {
                "succeeded": sorted({*uncounted.get("succeeded", ()), *succeeded}),
                "failed": sorted({*uncounted.get("failed", ()), *failed}),
            }
            indexes = self._completed_indexes(job, [tracked[uid] for uid in succeeded])
            job = await self._set(job, {"uncountedTerminatedPods": uncounted, **indexes})
            listed = {*uncounted["succeeded"], *uncounted["failed"]}
        if listed:
            await self._release([pod for uid, pod in tracked.items() if uid in listed])
            status = job.get("status") or {}
            counts = {
                "succeeded": (status.get("succeeded", 0) + len(uncounted.get("succeeded", ()))) or None,
                "failed": (status.get("failed", 0) + len(uncounted.get("failed", ()))) or None,
            }
            job = await self._set(job, {**counts, "uncountedTerminatedPods": {"succeeded": None, "failed": None}})
        return job

    def _has_uncounted(self, job: Obj) -> bool:
        """A pod ended since the last count: it is neither active nor in the status yet."""
        pods = self.pods.by("controller", job["metadata"]["uid"])
        return any(not is_active(pod) and FINALIZER in (pod["metadata"].get("finalizers") or ()) for pod in pods)

    async def _withdraw(self, pods: list[Obj]) -> None:
        """Delete pods that the Job itself no longer wants: they count neither as succeeded nor as failed."""
        await self._release(pods)
        await asyncio.gather(*(self.delete(PODS, pod) for pod in pods))

    def _completed_indexes(self, job: Obj, pods: list[Obj]) -> Obj:
        if job["spec"].get("completionMode") != "Indexed":
            return {}
        done = completed_indexes(job) | {_index(pod) for pod in pods}
        return {"completedIndexes": format_indexes(done)}

    async def _release(self, pods: list[Obj]) -> None:
        for pod in pods:
            kept = [name for name in pod["metadata"].get("finalizers") or () if name != FINALIZER]
            if len(kept) != len(pod["metadata"].get("finalizers") or ()):
                await self.patch(PODS, key_of(pod), {"metadata": {"finalizers": kept or None}})

    def _verdict(self, job: Obj, active: list[Obj]) -> tuple[str, str, str] | None:
        """(condition, reason, message) once the Job has ended."""
        spec, status = job["spec"], job.get("status") or {}
        succeeded = int(status.get("succeeded") or 0)
        completions = spec.get("completions")
        done = succeeded >= completions if completions is not None else bool(succeeded) and not active
        if spec.get("completionMode") == "Indexed" and completions is not None:
            done = len(completed_indexes(job)) >= completions
        if done:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        if int(status.get("failed") or 0) > _backoff_limit(job):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        left = self._deadline_left(job)
        if left is not None and left <= 0:
            return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        return None

    def _deadline_left(self, job: Obj) -> float | None:
        limit, start = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
        if limit is None or not start:
            return None
        return float(limit) - (self.clock.now() - parse_timestamp(start)).total_seconds() * self.clock.scale

    async def _end(self, job: Obj, active: list[Obj], kind: str, reason: str, message: str) -> None:
        await self._withdraw(active)
        await self._release(self.pods.by("controller", job["metadata"]["uid"]))
        status: Obj = {"active": None, "ready": 0}
        status["conditions"] = with_condition(job, kind, "True", reason, message, self.now())
        if kind == "Complete":
            status["completionTime"] = self.now()
        await self._set(job, status)
        event = ("Completed", "Job completed") if kind == "Complete" else (reason, message)
        self._event(job, *event, warning=kind == "Failed")

    async def _suspend(self, job: Obj, active: list[Obj]) -> None:
        await self._withdraw(active)
        conditions = with_condition(job, "Suspended", "True", "JobSuspended", "Job suspended", self.now())
        await self._set(job, {"active": None, "ready": 0, "startTime": None, "conditions": conditions})

    async def _adjust(self, job: Obj, active: list[Obj]) -> float | None:
        """As many active pods as parallelism and the outstanding completions allow; failures delay new ones."""
        spec, status = job["spec"], job.get("status") or {}
        parallelism = int(spec.get("parallelism", 1))
        completions = spec.get("completions")
        succeeded = int(status.get("succeeded") or 0)
        if completions is not None:
            wanted = min(parallelism, int(completions) - succeeded)
        else:
            wanted = 0 if succeeded else parallelism
        if len(active) > wanted and completions is not None:
            doomed = sorted(active, key=lambda pod: (is_ready(pod), pod["metadata"]["creationTimestamp"]))
            await self._withdraw(doomed[: len(active) - wanted])
            return None
        missing = wanted - len(active)
        if missing <= 0:
            return None
        wait = self._backoff_left(job)
        if wait > 0:
            return wait
        indexes = self._free_indexes(job, active)[:missing]
        if spec.get("completionMode") == "Indexed":
            await asyncio.gather(*(self._make(job, index) for index in indexes))
        else:
            await asyncio.gather(*(self._make(job, None) for _ in range(missing)))
        return None

    def _backoff_left(self, job: Obj) -> float:
        failures = int((job.get("status") or {}).get("failed") or 0)
        pods = self.pods.by("controller", job["metadata"]["uid"])
        ended = [condition(pod, "Ready").get("lastTransitionTime") for pod in pods if _phase(pod) == "Failed"]
        last = max((parse_timestamp(text) for text in ended if text), default=None)
        if not failures or last is None:
            return 0.0
        pause = min(FIRST_BACKOFF_SECONDS * 2.0 ** (failures - 1), LAST_BACKOFF_SECONDS)
        return pause - (self.clock.now() - last).total_seconds() * self.clock.scale

    def _free_indexes(self, job: Obj, active: list[Obj]) -> list[int]:
        taken = completed_indexes(job) | {_index(pod) for pod in active}
        return [index for index in range(int(job["spec"].get("completions") or 0)) if index not in taken]

    async def _make(self, job: Obj, index: int | None) -> None:
        made = await self.create(PODS, job_pod(job, index))
        self._event(job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _expire(self, job: Obj) -> float | None:
        """ttlSecondsAfterFinished."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        ended = next(
            c["lastTransitionTime"] for c in job["status"]["conditions"] if c["type"] in ("Complete", "Failed")
        )
        left = float(ttl) - (self.clock.now() - parse_timestamp(ended)).total_seconds() * self.clock.scale
        if left > 0:
            return left
        await self.client.delete(JOBS, job, propagation="Background")
        return None

    async def _set(self, job: Obj, status: Obj) -> Obj:
        await self.update_status(JOBS, job, status)
        return self.jobs.get(key_of(job)) or job

    def _event(self, job: Obj, reason: str, message: str, *, warning: bool = False) -> None:
        self.recorder.publish(JOBS, job, reason, message, component="job-controller", warning=warning)


def job_pod(job: Obj, index: int | None) -> Obj:
    """A pod of the Job, with the tracking finalizer, and its index in Indexed mode."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    pod = pod_from_template(job["spec"]["template"], job, owner_reference(job, JOBS))
    meta = pod["metadata"]
    meta["finalizers"] = [*(meta.get("finalizers") or ()), FINALIZER]
    meta["labels"] |= {
        "job-name": name,
        "controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
    }
    if index is not None:
        meta["generateName"] = f"{name}-{index}-"
        meta["labels"][INDEX] = str(index)
        meta["annotations"] = {**(meta.get("annotations") or {}), INDEX: str(index)}
        for container in pod["spec"]["containers"]:
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
    return pod


def finished(job: Obj) -> bool:
    """Condition Complete or Failed is True."""
    return any(condition(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def completed_indexes(job: Obj) -> set[int]:
    """status.completedIndexes, e.g. `1,3-5`."""
    found: set[int] = set()
    for part in filter(None, ((job.get("status") or {}).get("completedIndexes") or "").split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: set[int]) -> str:
    """Runs as `a-b` (two neighbours as `a,b`), joined by commas, as the real controller writes them."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][-1] == index - 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 2 else ",".join(map(str, p)) for p in parts)


def _phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _has_failed(pod: Obj) -> bool:
    """Ended badly, or is being deleted before it ended."""
    return _phase(pod) == "Failed" or (is_deleting(pod) and _phase(pod) != "Succeeded")


def _index(pod: Obj) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, -1))


def _backoff_limit(job: Obj) -> int:
    limit = job["spec"].get("backoffLimit")
    return 6 if limit is None else int(limit)


def _job_of(pod: Obj) -> list[str]:
    owner = controller_of(pod)
    return ["/".join((pod["metadata"].get("namespace", ""), owner["name"]))] if owner and owner["kind"] == "Job" else []
