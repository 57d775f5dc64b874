"""Pods and nodes as `kubectl get` shows them: their status is put together from many fields."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sandbox.apiserver.tables.columns import AGE, NAME, WIDE, Column, Obj, age, field

NONE = "<none>"


def _statuses(pod: Obj) -> list[Obj]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def pod_ready(pod: Obj, _: datetime) -> str:
    """`ready/containers`."""
    ready = sum(1 for status in _statuses(pod) if status.get("ready"))
    return f"{ready}/{len((pod.get('spec') or {}).get('containers') or ())}"


def pod_status(pod: Obj, _: datetime) -> str:
    """The phase, or what stands in the way: a container's reason, Terminating, SchedulingGated."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "Unknown")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    for container in reversed(_statuses(pod)):
        state = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated:
            reason = terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}"
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def pod_restarts(pod: Obj, now: datetime) -> Any:
    """How often containers were started again, and when last."""
    count = sum(int(status.get("restartCount", 0)) for status in _statuses(pod))
    finished = [
        (status.get("lastState") or {}).get("terminated", {}).get("finishedAt")
        for status in _statuses(pod)
        if (status.get("lastState") or {}).get("terminated")
    ]
    latest = max((when for when in finished if when), default=None)
    return f"{count} ({age(latest, now)} ago)" if count and latest else str(count)


def _gates(pod: Obj, _: datetime) -> str:
    gates = [gate["conditionType"] for gate in (pod.get("spec") or {}).get("readinessGates") or ()]
    if not gates:
        return NONE
    conditions = (pod.get("status") or {}).get("conditions") or ()
    true = {c["type"] for c in conditions if c.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate in true)}/{len(gates)}"


POD_COLUMNS = [
    NAME,
    Column("Ready", pod_ready),
    Column("Status", pod_status),
    Column("Restarts", pod_restarts),
    AGE,
    Column("IP", field("status.podIP", NONE), priority=WIDE),
    Column("Node", field("spec.nodeName", NONE), priority=WIDE),
    Column("Nominated Node", field("status.nominatedNodeName", NONE), priority=WIDE),
    Column("Readiness Gates", _gates, priority=WIDE),
]

_ROLE_PREFIX = "node-role.kubernetes.io/"


def node_status(node: Obj, _: datetime) -> str:
    """Ready or NotReady, and whether the scheduler leaves it alone."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else word


def _roles(node: Obj, _: datetime) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(role for role in roles if role)) or NONE


def _address(kind: str) -> Any:
    def cell(node: Obj, _: datetime) -> str:
        addresses = (node.get("status") or {}).get("addresses") or ()
        return next((str(a["address"]) for a in addresses if a.get("type") == kind), NONE)

    return cell


def _info(key: str) -> Any:
    def cell(node: Obj, _: datetime) -> str:
        return str(((node.get("status") or {}).get("nodeInfo") or {}).get(key) or "<unknown>")

    return cell


NODE_COLUMNS = [
    NAME,
    Column("Status", node_status),
    Column("Roles", _roles),
    AGE,
    Column("Version", field("status.nodeInfo.kubeletVersion", "")),
    Column("Internal-IP", _address("InternalIP"), priority=WIDE),
    Column("External-IP", _address("ExternalIP"), priority=WIDE),
    Column("OS-Image", _info("osImage"), priority=WIDE),
    Column("Kernel-Version", _info("kernelVersion"), priority=WIDE),
    Column("Container-Runtime", _info("containerRuntimeVersion"), priority=WIDE),
]
