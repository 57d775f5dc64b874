"""What one leader learned and the next must know, on the nodes themselves: failures, and workloads that were moved.

A method whose last command failed for a Provisioner is held back for it, longer with each failure in a row; a node that
such a command gave back carries that. Workloads whose pods consolidation moved are left alone for a while; the nodes
that take the pods carry that. Both end by time, and with the node; what ended is `stale`, and is taken off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from controller.core.api.pod import Pod
from controller.core.deprovisioning.records import recorded
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import Snapshot, StateNode

FAILURE_ANNOTATION: Final = "karpenter.sh/deprovisioning-failure"
RESTING_ANNOTATION: Final = "karpenter.sh/resting-workloads"
FORGET_SECONDS: Final = 7200.0
"""A failure counts as one in a row with those of the two hours before it."""

Delay = Callable[[int], float]
"""Seconds for which to hold back after so many failures in a row (1 or more)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a method for the node's Provisioner of that generation; `at` Unix seconds."""

    method: str
    generation: int
    at: float
    count: int = 1


def workload(pod: Pod) -> str:
    """Who makes the pod again when it goes: its first owner's uid, or its own."""
    return pod.owners[0].uid if pod.owners else pod.uid


def read_failure(node: StateNode) -> Failure | None:
    """The failure on a node; None without one that can be read."""
    found = _members(node, FAILURE_ANNOTATION)
    try:
        return Failure(str(found["method"]), int(found["generation"]), float(found["at"]), max(1, int(found["count"])))
    except (KeyError, TypeError, ValueError):
        return None


def next_failure(snapshot: Snapshot, node: StateNode, method: str, now: float) -> Failure:
    """What to write on a node whose command failed now: one more than any node of the Provisioner knows of."""
    owner = snapshot.provisioners.get(node.provisioner_name)
    generation = owner.generation if owner else 0
    known = [
        f.count for f in _failures(snapshot, node.provisioner_name, method, generation) if now - f.at < FORGET_SECONDS
    ]
    return Failure(method, generation, now, 1 + max(known, default=0))


def write_failure(failure: Failure) -> str:
    """The annotation's value."""
    return json.dumps(asdict(failure), sort_keys=True)


def held_until(snapshot: Snapshot, provisioner_name: str, method: str, delay: Delay) -> float:
    """Until when (Unix seconds) the method leaves nodes of the Provisioner alone; 0.0: it does not.

    An edit of the Provisioner's spec ends it: what failed may be mended.
    """
    owner = snapshot.provisioners.get(provisioner_name)
    failures = _failures(snapshot, provisioner_name, method, owner.generation) if owner else ()
    return max((failure.at + delay(failure.count) for failure in failures), default=0.0)


def _failures(snapshot: Snapshot, provisioner_name: str, method: str, generation: int) -> list[Failure]:
    nodes = (node for node in snapshot.nodes.values() if node.provisioner_name == provisioner_name)
    found = (read_failure(node) for node in nodes)
    return [f for f in found if f is not None and (f.method, f.generation) == (method, generation)]


def write_resting(node: StateNode, workloads: Iterable[str], now: float, until: float) -> str:
    """The annotation's value: these rest until then (Unix seconds), and those that rest already."""
    kept = {uid: at for uid, at in _resting(node).items() if at > now}
    return json.dumps({**kept, **dict.fromkeys(workloads, until)}, sort_keys=True)


def resting(snapshot: Snapshot, now: float) -> frozenset[str]:
    """Workloads that rest at `now`: those that were moved, and those that commands on record move."""
    moved = {uid for node in snapshot.nodes.values() for uid, until in _resting(node).items() if until > now}
    carriers = (node for command in recorded(snapshot) for node in command.carriers)
    return frozenset(moved | {workload(pod) for node in carriers for pod in leaving_pods(node)})


def _resting(node: StateNode) -> dict[str, float]:
    try:
        return {str(uid): float(until) for uid, until in _members(node, RESTING_ANNOTATION).items()}
    except (TypeError, ValueError):
        return {}


def stale(node: StateNode, now: float) -> tuple[str, ...]:
    """Keys of annotations that mean nothing any more, those that nobody can read included."""
    found = []
    failure = read_failure(node)
    if FAILURE_ANNOTATION in node.node.annotations and (failure is None or now - failure.at >= FORGET_SECONDS):
        found.append(FAILURE_ANNOTATION)
    if RESTING_ANNOTATION in node.node.annotations and not any(until > now for until in _resting(node).values()):
        found.append(RESTING_ANNOTATION)
    return tuple(found)


def _members(node: StateNode, key: str) -> Mapping[str, Any]:
    text = node.node.annotations.get(key)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
