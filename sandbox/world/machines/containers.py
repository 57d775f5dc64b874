"""What a pod's containers do in the sandbox, where nothing really runs: how long they run, how they end, how they stop.

Said by annotations, or read from what the containers would really do: `sleep N` and `exit N` in their commands, preStop
sleeps, readiness probes' initial delays.
"""

from __future__ import annotations

import re

from sandbox.world.resources import Obj

RUN_SECONDS = "sandbox/run-seconds"
"""Annotation: how long the containers run before they end by themselves."""
EXIT_CODE = "sandbox/exit-code"
"""Annotation: the exit code with which they end."""
STOP_SECONDS = "sandbox/stop-seconds"
"""Annotation: how long they take to stop after SIGTERM (the grace period still cuts that short)."""
_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)\b")
_EXIT = re.compile(r"\bexit\s+(\d+)\b")


def run_seconds(pod: Obj, job_seconds: float) -> float | None:
    """How long the containers run: the annotation, a `sleep N`, `job_seconds` for pods that end; None for ever."""
    if text := _annotation(pod, RUN_SECONDS):
        return float(text)
    if (pod["spec"].get("restartPolicy") or "Always") == "Always":
        return None
    match = _SLEEP.search(_words(pod))
    return float(match[1]) if match else job_seconds


def exit_code(pod: Obj) -> int:
    """The annotation, an `exit N`, 1 for the command `false`, else 0."""
    if text := _annotation(pod, EXIT_CODE):
        return int(text)
    words = _words(pod)
    match = _EXIT.search(words)
    return int(match[1]) if match else int(words.startswith("false"))


def asked_stop_seconds(pod: Obj) -> float:
    """How long the containers want to stop: the annotation or the longest preStop sleep; 0 if nothing is said."""
    total = float(_annotation(pod, STOP_SECONDS) or 0)
    for container in pod["spec"]["containers"]:
        hook = (container.get("lifecycle") or {}).get("preStop") or {}
        if seconds := (hook.get("sleep") or {}).get("seconds"):
            total = max(total, float(seconds))
        elif match := _SLEEP.search(" ".join((hook.get("exec") or {}).get("command") or ())):
            total = max(total, float(match[1]))
    return total


def readiness_seconds(pod: Obj) -> float:
    """The slowest readiness probe's initialDelaySeconds."""
    probes = (container.get("readinessProbe") or {} for container in pod["spec"]["containers"])
    return max((float(probe.get("initialDelaySeconds") or 0) for probe in probes), default=0.0)


def _annotation(pod: Obj, key: str) -> str:
    return (pod["metadata"].get("annotations") or {}).get(key) or ""


def _words(pod: Obj) -> str:
    containers = pod["spec"]["containers"]
    return " ".join(str(word) for c in containers for word in (*(c.get("command") or ()), *(c.get("args") or ())))
