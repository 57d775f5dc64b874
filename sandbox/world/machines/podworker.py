"""What kubelets do with pods: admit, pull, run, finish, and let go of them when they are deleted."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sandbox.world.client import STRATEGIC, ApiClient
from sandbox.world.clock import WorldClock, parse_timestamp, timestamp
from sandbox.world.events import EventRecorder
from sandbox.world.informer import Informers
from sandbox.world.machines import podstatus
from sandbox.world.machines.containers import asked_stop_seconds, exit_code, readiness_seconds, run_seconds
from sandbox.world.machines.kubelet import Kubelets
from sandbox.world.machines.nodedocument import Kubelet
from sandbox.world.resources import NODES, PODS, Key, Obj, key_of
from sandbox.world.scheduling.cache import is_terminal
from sandbox.world.scheduling.filters import node_affinity, node_resources
from sandbox.world.scheduling.node import NodeInfo
from sandbox.world.scheduling.pod import PodInfo
from sandbox.world.scheduling.taints import first_untolerated
from sandbox.world.workqueue import Workqueue

KILLED = 137
"""Exit code of containers that were killed, or never got to start."""
CRASH_BACKOFF_SECONDS, MAX_CRASH_BACKOFF_SECONDS = 10.0, 300.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodTimes:
    """Sandbox seconds: bound → running, SIGTERM → ended, and how long the pod of a Job runs that says nothing."""

    pull_seconds: float = 1.0
    stop_seconds: float = 1.0
    job_seconds: float = 3.0


@dataclass(slots=True)
class _Run:
    """What a kubelet remembers of one pod. Times are the clock's monotonic sandbox seconds."""

    pulled_at: float
    pod_ip: str
    started_at: float | None = None
    started: str = ""
    ready: bool = False
    restarts: int = 0
    restart_at: float | None = None
    stopped_at: float | None = None


class PodWorkers:
    """One queue for the pods of all kubelets."""

    def __init__(
        self, client: ApiClient, informers: Informers, recorder: EventRecorder, clock: WorldClock, kubelets: Kubelets,
        times: PodTimes | None = None,
    ) -> None:  # fmt: skip
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._kubelets = kubelets
        self._times = times or PodTimes()
        self._nodes = informers.of(NODES)
        self._pods = informers.of(PODS)
        self._pods.add_index("node", lambda pod: [name] if (name := pod["spec"].get("nodeName")) else [])
        self._pods.add_handler(self._on_pod)
        self._runs: dict[str, _Run] = {}
        self._ips: set[str] = set()
        self._next_ip = 0
        self._queue: Workqueue[Key] = Workqueue("kubelet", clock)
        kubelets.on_ready.append(self._on_ready)

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            run = self._runs.pop(old["metadata"]["uid"], None)
            self._ips.discard(run.pod_ip if run else (old.get("status") or {}).get("podIP") or "")
        elif new is not None and new["spec"].get("nodeName"):
            self._ips.add((new.get("status") or {}).get("podIP") or "")
            self._queue.add(key_of(new))

    def _on_ready(self, node_name: str) -> None:
        for pod in self._pods.by("node", node_name):
            self._queue.add(key_of(pod))

    async def run(self) -> None:
        """Run pods for ever."""
        await self._queue.run(self._sync, concurrency=16)

    async def _sync(self, key: Key) -> float | None:
        """The next step of one pod; sandbox seconds until the one after."""
        pod = self._pods.get(key)
        kubelet = self._kubelets.by_node.get(pod["spec"].get("nodeName") or "") if pod is not None else None
        if pod is None or kubelet is None:
            return None
        if pod["metadata"].get("deletionTimestamp"):
            return await self._stop(pod)
        if is_terminal(pod):
            return None
        run = self._runs.get(pod["metadata"]["uid"])
        if run is None:
            return await self._admit(pod, kubelet)
        if not kubelet.ready and not pod["spec"].get("hostNetwork"):
            return None
        now = self._clock.monotonic_seconds()
        if now < run.pulled_at:
            return run.pulled_at - now
        return await self._progress(pod, kubelet, run, now)

    # Starting

    async def _admit(self, pod: Obj, kubelet: Kubelet) -> float | None:
        place_ip = (pod.get("status") or {}).get("podIP") or self._free_ip(pod, kubelet)
        now = self._clock.monotonic_seconds()
        run = _Run(now + self._times.pull_seconds, place_ip)
        if (pod.get("status") or {}).get("phase") == "Running":  # it ran before this process did
            run.started_at, run.started, run.ready, run.pulled_at = now, self._now(), True, now
            self._runs[pod["metadata"]["uid"]] = run
            return 0.0
        refusal = self._refusal(pod)
        if refusal is not None:
            await self._write(pod, podstatus.refused(*refusal, self._now()))
            self._event(pod, *refusal, warning=True)
            return None
        await self._write(pod, podstatus.starting(pod, self._place(kubelet, run), self._now()))
        self._runs[pod["metadata"]["uid"]] = run  # after the write: if that fails, all of this is done again
        for container in pod["spec"]["containers"]:
            self._event(pod, "Pulling", f'Pulling image "{container.get("image")}"')
        return self._times.pull_seconds

    def _refusal(self, pod: Obj) -> tuple[str, str] | None:
        """The kubelet's own admission: the scheduler's resource, affinity and NoExecute rules once more."""
        obj = self._nodes.get(("", pod["spec"]["nodeName"]))
        if obj is None:
            return None
        node, info = NodeInfo(obj), PodInfo(pod)
        for other in self._pods.by("node", node.name):
            if other["metadata"]["uid"] in self._runs and not is_terminal(other):
                node.add(PodInfo(other))
        if node_affinity(info, node) is not None:
            return (
                "NodeAffinity",
                "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            )
        rejection = node_resources(info, node)
        if rejection is not None:
            lacking = rejection.reasons[0].removeprefix("Insufficient ").replace("Too many pods", "pods")
            return f"OutOf{lacking}", f"Pod was rejected: Node didn't have enough resource: {lacking}"
        if first_untolerated(node.taints, info.tolerations, ("NoExecute",)):
            return (
                "TaintToleration",
                "Pod was rejected: Predicate TaintToleration failed: node(s) had untolerated taint(s)",
            )
        return None

    # Running

    async def _progress(self, pod: Obj, kubelet: Kubelet, run: _Run, now: float) -> float | None:
        if run.restart_at is not None:
            if now < run.restart_at:
                return run.restart_at - now
            run.restart_at, run.started_at, run.ready = None, None, False
        ready_after = readiness_seconds(pod)
        if run.started_at is None:
            run.started = self._now()
            await self._write_running(pod, kubelet, run, ready=ready_after == 0)
            run.started_at, run.ready = now, ready_after == 0
            for container in pod["spec"]["containers"]:
                self._event(pod, "Pulled", f'Successfully pulled image "{container.get("image")}"')
                self._event(pod, "Created", f"Created container: {container['name']}")
                self._event(pod, "Started", f"Started container {container['name']}")
        elapsed = now - run.started_at
        if not run.ready and elapsed >= ready_after:
            await self._write_running(pod, kubelet, run, ready=True)
            run.ready = True
        deadline = pod["spec"].get("activeDeadlineSeconds")
        if deadline is not None and elapsed >= deadline:
            await self._write(pod, podstatus.deadline_exceeded())
            return None
        lasts = run_seconds(pod, self._times.job_seconds)
        if lasts is not None and elapsed >= lasts:
            return await self._finish(pod, run, now)
        waits = [ready_after - elapsed] if not run.ready else []
        waits += [limit - elapsed for limit in (deadline, lasts) if limit is not None]
        return max(0.01, min(waits)) if waits else None

    async def _write_running(self, pod: Obj, kubelet: Kubelet, run: _Run, *, ready: bool) -> None:
        place = self._place(kubelet, run)
        status = podstatus.running(pod, place, run.started, self._now(), ready=ready, restarts=run.restarts)
        await self._write(pod, status)

    async def _finish(self, pod: Obj, run: _Run, now: float) -> float | None:
        """The containers ended by themselves: for good, or to be started again as restartPolicy says."""
        code = exit_code(pod)
        policy = pod["spec"].get("restartPolicy") or "Always"
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            await self._write(pod, podstatus.ended(pod, run.started, self._now(), code))
            return None
        wait = min(CRASH_BACKOFF_SECONDS * 2.0**run.restarts, MAX_CRASH_BACKOFF_SECONDS)
        await self._write(pod, podstatus.waiting_to_restart(pod, self._now(), code, run.restarts + 1))
        run.restarts += 1
        run.restart_at = now + wait
        self._event(pod, "BackOff", "Back-off restarting failed container", warning=True)
        return wait

    # Stopping

    async def _stop(self, pod: Obj) -> float | None:
        """SIGTERM, the containers' time to end (never beyond the grace period), then the final delete."""
        uid = pod["metadata"]["uid"]
        run = self._runs.get(uid)
        now = self._clock.monotonic_seconds()
        if run is None:
            run = self._runs[uid] = _Run(now, (pod.get("status") or {}).get("podIP") or "")
        if run.stopped_at is None:
            run.stopped_at = now + self._stop_seconds(pod)
            for container in pod["spec"]["containers"] if run.started_at is not None else ():
                self._event(pod, "Killing", f"Stopping container {container['name']}")
        if now < run.stopped_at:
            return run.stopped_at - now
        if not is_terminal(pod):
            forced = (pod["metadata"].get("deletionGracePeriodSeconds") or 0) < asked_stop_seconds(pod)
            code = KILLED if forced or run.started_at is None else 0
            await self._write(pod, podstatus.ended(pod, run.started or self._now(), self._now(), code))
        await self._client.delete(PODS, pod, grace_seconds=0)
        return None

    def _stop_seconds(self, pod: Obj) -> float:
        if is_terminal(pod):
            return 0.0
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        asked = asked_stop_seconds(pod)
        spent = (self._clock.now() - parse_timestamp(pod["metadata"]["deletionTimestamp"])).total_seconds() + grace
        return max(0.0, min(grace, asked or self._times.stop_seconds) - max(0.0, spent - 1.0))

    # Helpers

    def _place(self, kubelet: Kubelet, run: _Run) -> podstatus.PodPlace:
        return podstatus.PodPlace(kubelet.machine.instance.private_ip, run.pod_ip)

    def _free_ip(self, pod: Obj, kubelet: Kubelet) -> str:
        """The node's own address on the host's network, else one of 100.64.0.0/10 (the VPC CNI's usual second
        range)."""
        if pod["spec"].get("hostNetwork"):
            return kubelet.machine.instance.private_ip
        while True:
            self._next_ip = (self._next_ip + 1) % (1 << 22)
            number = (100 << 24 | 64 << 16) + self._next_ip
            address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
            if address not in self._ips and self._next_ip & 255 not in (0, 255):
                self._ips.add(address)
                return address

    async def _write(self, pod: Obj, status: Obj) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        made = await self._client.patch(PODS, key_of(pod), body, subresource="status", kind=STRATEGIC)
        self._pods.absorb(made)

    def _event(self, pod: Obj, reason: str, message: str, *, warning: bool = False) -> None:
        host = pod["spec"]["nodeName"]
        self._recorder.publish(PODS, pod, reason, message, component="kubelet", warning=warning, host=host)

    def _now(self) -> str:
        return timestamp(self._clock.now())
