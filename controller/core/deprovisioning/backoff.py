"""Back-off and cool-down, kept as node annotations so that they survive a change of leader.

Back-off: a method whose last command failed leaves the Provisioner (consolidation: the command's nodes) alone for a
while, longer with each failure in a row; the nodes that the command gave back carry the failure. Cool-down: a pod that
consolidation moved costs more to move again for a while; the nodes that took pods of its workload carry when that ends,
and the pods are those that the workload made shortly after. Annotations that have expired are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Pod
from controller.core.deprovisioning.removal_command import CONSOLIDATION
from controller.core.deprovisioning.versioned_json import (
    NewerRecordError,
    RecordFormat,
    read_annotation,
    read_versioned,
    unknown_members,
    write_versioned,
)
from controller.core.state.snapshot import Snapshot, StateNode
from controller.core.untrusted_json import UnreadableJsonError, number, whole

FAILURE_ANNOTATION: Final = "karpenter.sh/deprovisioning-failure"
RESTING_ANNOTATION: Final = "karpenter.sh/resting-workloads"
FORGET_SECONDS: Final = 7200.0
"""A failure older than this does not count any more."""
MOST_AHEAD_SECONDS: Final = 60.0
"""How far the clock of the leader that wrote a failure may be ahead; a failure from further ahead is ignored."""
MOST_REST_SECONDS: Final = 3600.0
"""No workload cools down for longer: a kubelet may write its Node's annotations, and must not block removals."""
REST_SECONDS: Final = 600.0
"""How long a moved pod cools down."""
ARRIVAL_SECONDS: Final = 120.0
"""Pods that a workload creates within this time of a move count as the moved ones."""
REST_COST: Final = 3.0
"""A pod that cools down counts so many times in the disruption cost: what moves it again must save so much more."""
MOST_FAILURES: Final = 10**6


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a method for the node's Provisioner, at that generation of it; `at`: Unix seconds.

    `unknown`: members that another version of the controller added.
    """

    method: str
    generation: int
    at: float
    count: int = 1
    unknown: FrozenMap[str, Any] = field(default=EMPTY, hash=False)


@dataclass(frozen=True, slots=True)
class Resting:
    """Until when each workload on a node's record cools down, Unix seconds; and members of another version."""

    until: FrozenMap[str, float] = EMPTY
    unknown: FrozenMap[str, Any] = field(default=EMPTY, hash=False)


def workload(pod: Pod) -> str:
    """Return the uid of the pod's first owner, or its own without one."""
    return pod.owners[0].uid if pod.owners else pod.uid


def read_failure(node: StateNode) -> Failure | None:
    """Return the failure on a node; None without one that can be read."""
    return read_annotation(node.node, FAILURE_ANNOTATION, parse_failure)


_FORMAT: Final = RecordFormat(
    Failure,
    {
        "method": ("method", str),
        "generation": ("generation", whole),
        "at": ("at", number),
        "count": ("count", partial(whole, least=1, most=MOST_FAILURES)),
    },
)
write_failure, parse_failure = _FORMAT.write, _FORMAT.parse


def next_failure(snapshot: Snapshot, node: StateNode, method: str, now: float) -> Failure:
    """Return what to write on a node whose command failed now: the next in a row over all nodes of its Provisioner."""
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


def held_back(snapshot: Snapshot, method: str, now: float, delay: Callable[[int], float]) -> frozenset[str]:
    """Return names of nodes in the method's back-off at `now` (Unix seconds): it failed on their Provisioner recently.

    `delay`: seconds to back off after so many failures in a row (1 or more).
    For consolidation only the nodes of its failed commands: other nodes, with other pods, may be removed. An edit of
    the Provisioner's spec ends the back-off.
    """
    provisioners, carriers = set(), set()
    for node in snapshot.nodes.values():
        owner, failure = snapshot.provisioners.get(node.provisioner_name), read_failure(node)
        held = failure is not None and failure.method == method and now < failure.at + delay(failure.count)
        if owner and failure and held and _recent(failure, now) and failure.generation == owner.generation:
            provisioners.add(owner.name)
            carriers.add(node.name)
    if method == CONSOLIDATION:
        return frozenset(carriers)
    return frozenset(node.name for node in snapshot.nodes.values() if node.provisioner_name in provisioners)


def write_resting(node: StateNode, workloads: Iterable[str], now: float, until: float) -> str:
    """Return the annotation's value: workloads that cool down already, and these until `until` (Unix seconds)."""
    kept = _resting(node, now)
    return write_versioned({**kept.until, **dict.fromkeys(workloads, until)}, kept.unknown)


def resting(snapshot: Snapshot, now: float) -> frozenset[str]:
    """Return the workloads some of whose pods cool down at `now`."""
    return frozenset(uid for node in snapshot.nodes.values() for uid in _resting(node, now).until)


@dataclass(frozen=True, slots=True)
class Moves:
    """When pods of each workload were moved that may still cool down (Unix seconds)."""

    times: Mapping[str, frozenset[float]] = field(default_factory=lambda: EMPTY)

    @classmethod
    def of(cls, snapshot: Snapshot, now: float) -> Moves:
        """Read the moves from the annotations of the nodes."""
        times: dict[str, set[float]] = {}
        for node in snapshot.nodes.values():
            for uid, until in _resting(node, now).until.items():
                times.setdefault(uid, set()).add(until - REST_SECONDS)
        return cls({uid: frozenset(ats) for uid, ats in times.items()})

    def rests(self, pod: Pod) -> bool:
        """Return whether the pod was made in place of one that was moved; times of creation are whole seconds."""
        moved = self.times.get(workload(pod), ())
        return any(at - 1.0 <= pod.created <= at + ARRIVAL_SECONDS for at in moved)


def _recent(failure: Failure, now: float) -> bool:
    return -MOST_AHEAD_SECONDS <= now - failure.at < FORGET_SECONDS


def _resting(node: StateNode, now: float) -> Resting:
    return read_annotation(node.node, RESTING_ANNOTATION, lambda text: parse_resting(text, now)) or Resting()


def parse_resting(text: str, now: float) -> Resting:
    """Parse the annotation's value; workloads that do not cool down any more are left out. Raises UnreadableJsonError.

    Members that are no numbers are not workloads.
    """
    members = read_versioned(text)
    workloads = {uid: number(at) for uid, at in members.items() if isinstance(at, int | float)}
    until = {uid: at for uid, at in workloads.items() if now < at <= now + MOST_REST_SECONDS}
    return Resting(FrozenMap(until), unknown_members(members, workloads))


def stale(node: StateNode, now: float) -> tuple[str, ...]:
    """Return keys of the annotations above that have expired or cannot be parsed. Those of a later version stay."""
    checks: dict[str, Callable[[str], bool]] = {
        FAILURE_ANNOTATION: lambda text: not _recent(parse_failure(text), now),
        RESTING_ANNOTATION: lambda text: not parse_resting(text, now).until,
    }
    keys = []
    for key, expired in checks.items():
        text = node.node.annotations.get(key)
        try:
            if text is not None and expired(text):
                keys.append(key)
        except NewerRecordError:
            continue
        except UnreadableJsonError:
            keys.append(key)
    return tuple(keys)
