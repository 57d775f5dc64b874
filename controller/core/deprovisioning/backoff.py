"""Back-off and cool-down, kept as node annotations so that they survive a change of leader.

Back-off: a method whose last command failed leaves the Provisioner alone for a while, longer with each failure in a
row; the nodes that the command gave back carry the failure. Cool-down: workloads whose pods consolidation moved are not
moved again for a while; the nodes that took the pods carry that. Annotations that have expired are removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from controller.core.api.pod import Pod
from controller.core.deprovisioning.records import recorded_commands
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import Snapshot, StateNode
from controller.core.untrusted_json import UnreadableJsonError, number, read_object, whole

FAILURE_ANNOTATION: Final = "karpenter.sh/deprovisioning-failure"
RESTING_ANNOTATION: Final = "karpenter.sh/resting-workloads"
FORGET_SECONDS: Final = 7200.0
"""A failure older than this does not count any more."""
MOST_AHEAD_SECONDS: Final = 60.0
"""How far the clock of the leader that wrote a failure may be ahead; one from further ahead is not ours."""
MOST_REST_SECONDS: Final = 3600.0
"""No workload cools down for longer. A kubelet may write its Node's annotations: it must not stop removals for ever."""
MOST_FAILURES: Final = 10**6

Delay = Callable[[int], float]
"""Seconds to back off after so many failures in a row (1 or more)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a method for the node's Provisioner, at that generation of it; `at`: Unix seconds."""

    method: str
    generation: int
    at: float
    count: int = 1


def workload(pod: Pod) -> str:
    """The uid of the pod's first owner, or its own without one."""
    return pod.owners[0].uid if pod.owners else pod.uid


def read_failure(node: StateNode) -> Failure | None:
    """The failure on a node; None without one that can be parsed."""
    stored = _json_object(node, FAILURE_ANNOTATION)
    try:
        return Failure(
            method=str(stored["method"]),
            generation=whole(stored["generation"]),
            at=number(stored["at"]),
            count=whole(stored["count"], 1, MOST_FAILURES),
        )
    except (KeyError, UnreadableJsonError):
        return None


def next_failure(snapshot: Snapshot, node: StateNode, method: str, now: float) -> Failure:
    """What to write on a node whose command failed now: the next in a row over all nodes of its Provisioner."""
    owner = snapshot.provisioners.get(node.provisioner_name)
    generation = owner.generation if owner else 0
    counts = [
        earlier.count
        for each in snapshot.nodes.values()
        if each.provisioner_name == node.provisioner_name
        and (earlier := read_failure(each)) is not None
        and (earlier.method, earlier.generation) == (method, generation)
        and _recent(earlier, now)
    ]
    return Failure(method, generation, now, 1 + max(counts, default=0))


def write_failure(failure: Failure) -> str:
    """The annotation's value."""
    return json.dumps(asdict(failure), sort_keys=True)


def held_back(snapshot: Snapshot, method: str, now: float, delay: Delay) -> frozenset[str]:
    """Names of nodes that the method leaves alone at `now` (Unix seconds): it failed on their Provisioner recently.

    An edit of the Provisioner's spec ends the back-off.
    """
    provisioners = set()
    for node in snapshot.nodes.values():
        owner, failure = snapshot.provisioners.get(node.provisioner_name), read_failure(node)
        held = failure is not None and failure.method == method and now < failure.at + delay(failure.count)
        if owner and failure and held and _recent(failure, now) and failure.generation == owner.generation:
            provisioners.add(owner.name)
    return frozenset(node.name for node in snapshot.nodes.values() if node.provisioner_name in provisioners)


def write_resting(node: StateNode, workloads: Iterable[str], now: float, until: float) -> str:
    """The annotation's value: those that cool down already, and these until then (Unix seconds)."""
    kept = _resting(node, now)
    return json.dumps({**kept, **dict.fromkeys(workloads, until)}, sort_keys=True)


def resting(snapshot: Snapshot, now: float) -> frozenset[str]:
    """Workloads that cool down at `now`, and those that commands on record move."""
    moved = {uid for node in snapshot.nodes.values() for uid in _resting(node, now)}
    carriers = (node for command in recorded_commands(snapshot) for node in command.carriers)
    return frozenset(moved | {workload(pod) for node in carriers for pod in leaving_pods(node)})


def _recent(failure: Failure, now: float) -> bool:
    return -MOST_AHEAD_SECONDS <= now - failure.at < FORGET_SECONDS


def _resting(node: StateNode, now: float) -> dict[str, float]:
    """Until when each workload on the node's record still cools down."""
    try:
        stored = {uid: number(until) for uid, until in _json_object(node, RESTING_ANNOTATION).items()}
    except UnreadableJsonError:
        return {}
    return {uid: until for uid, until in stored.items() if now < until <= now + MOST_REST_SECONDS}


def stale(node: StateNode, now: float) -> tuple[str, ...]:
    """Keys of the annotations above that have expired or cannot be parsed."""
    keys = []
    failure = read_failure(node)
    if FAILURE_ANNOTATION in node.node.annotations and (failure is None or not _recent(failure, now)):
        keys.append(FAILURE_ANNOTATION)
    if RESTING_ANNOTATION in node.node.annotations and not _resting(node, now):
        keys.append(RESTING_ANNOTATION)
    return tuple(keys)


def _json_object(node: StateNode, key: str) -> Mapping[str, Any]:
    try:
        return read_object(node.node.annotations.get(key, "{}"))
    except UnreadableJsonError:
        return {}
