"""The statuses that a kubelet writes of a pod, enough for `kubectl get` and `kubectl describe` to look right."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sandbox.world.controllers.base import condition
from sandbox.world.resources import Obj

SUCCEEDED, FAILED = "Succeeded", "Failed"


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Where a pod runs."""

    host_ip: str
    pod_ip: str


def starting(pod: Obj, place: PodPlace, now: str) -> Obj:
    """Bound, images being pulled: phase Pending, containers waiting."""
    inits = pod["spec"].get("initContainers") or ()
    reason = "PodInitializing" if inits else "ContainerCreating"
    waiting = {"waiting": {"reason": reason}}
    unready = ("ContainersNotReady", f"containers with unready status: [{_names(pod)}]")
    status: Obj = {
        "phase": "Pending",
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "startTime": now,
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", False, now),
            _condition(pod, "Initialized", not inits, now, *(("ContainersNotInitialized", "") if inits else ())),
            _condition(pod, "Ready", False, now, *unready),
            _condition(pod, "ContainersReady", False, now, *unready),
            _condition(pod, "PodScheduled", True, now),
        ],
        "containerStatuses": [_container(c, waiting, ready=False) for c in pod["spec"]["containers"]],
    }
    if inits:
        status["initContainerStatuses"] = [_container(c, waiting, ready=False) for c in inits]
    return status


def running(pod: Obj, place: PodPlace, started: str, now: str, *, ready: bool, restarts: int = 0) -> Obj:
    """Every container runs; `ready` once its probe has passed."""
    unready = () if ready else ("ContainersNotReady", f"containers with unready status: [{_names(pod)}]")
    state = {"running": {"startedAt": started}}
    finished = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started}}
    status: Obj = {
        "phase": "Running",
        "podIP": place.pod_ip,
        "podIPs": [{"ip": place.pod_ip}],
        "hostIP": place.host_ip,
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", True, now),
            _condition(pod, "Initialized", True, now),
            _condition(pod, "Ready", ready, now, *unready),
            _condition(pod, "ContainersReady", ready, now, *unready),
            _condition(pod, "PodScheduled", True, now),
        ],
        "containerStatuses": [_container(c, state, ready=ready, restarts=restarts) for c in pod["spec"]["containers"]],
    }
    if inits := pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = [
            _container(c, state if c.get("restartPolicy") == "Always" else finished, ready=True) for c in inits
        ]
    return status


def ended(pod: Obj, started: str, now: str, exit_code: int, *, phase: str | None = None) -> Obj:
    """All containers have ended: Succeeded for exit code 0, else Failed."""
    success = exit_code == 0
    reason = "Completed" if success else "Error"
    terminated = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}
    why = ("PodCompleted", "") if success else ("PodFailed", "")
    return {
        "phase": phase or (SUCCEEDED if success else FAILED),
        "conditions": [
            _condition(pod, "PodReadyToStartContainers", False, now),
            _condition(pod, "Initialized", True, now, *(why if success else ())),
            _condition(pod, "Ready", False, now, *why),
            _condition(pod, "ContainersReady", False, now, *why),
        ],
        "containerStatuses": [
            _container(c, {"terminated": terminated}, ready=False) for c in pod["spec"]["containers"]
        ],
    }


def waiting_to_restart(pod: Obj, now: str, exit_code: int, restarts: int) -> Obj:
    """Ended and due to start again: CrashLoopBackOff."""
    last = {"terminated": {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else "Error"}}
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    unready = ("ContainersNotReady", f"containers with unready status: [{_names(pod)}]")
    return {
        "conditions": [
            _condition(pod, "Ready", False, now, *unready),
            _condition(pod, "ContainersReady", False, now, *unready),
        ],
        "containerStatuses": [
            {**_container(c, state, ready=False, restarts=restarts), "lastState": last}
            for c in pod["spec"]["containers"]
        ],
    }


def refused(reason: str, message: str, now: str) -> Obj:
    """The kubelet's own admission refused the pod (OutOfcpu, NodeAffinity, ...)."""
    return {"phase": FAILED, "reason": reason, "message": message, "startTime": now}


def deadline_exceeded() -> Obj:
    """spec.activeDeadlineSeconds has passed."""
    message = "Pod was active on the node longer than the specified deadline"
    return {"phase": FAILED, "reason": "DeadlineExceeded", "message": message}


def _names(pod: Obj) -> str:
    return " ".join(container["name"] for container in pod["spec"]["containers"])


def _condition(pod: Obj, kind: str, holds: bool, now: str, reason: str = "", message: str = "") -> Obj:
    status = "True" if holds else "False"
    old = condition(pod, kind)
    since = old.get("lastTransitionTime", now) if old.get("status") == status else now
    # None takes an older reason or message away: conditions are merged by type.
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since,
        "reason": reason or None,
        "message": message or None,
    }


def _container(container: Obj, state: Obj, *, ready: bool, restarts: int = 0) -> Obj:
    image = container.get("image") or ""
    begun = "waiting" not in state
    digest = hashlib.sha256(image.encode()).hexdigest()
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"{image.rpartition(':')[0] or image}@sha256:{digest}" if begun else "",
        **({"containerID": f"containerd://{digest}"} if begun else {}),
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }
