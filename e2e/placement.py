"""Check that kube-scheduler bound each planned pod to its planned node, or that a fact explains why it did not.

Plans are read from the `Nominated` events, as users read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from sandbox.world.resources import Obj
from sandbox.world.scheduling.quantity import parse

PREFIX = "Pod should schedule on node: "


class Verdict(Enum):
    """What became of a pod's nomination."""

    AS_PLANNED = "bound as planned"
    SWAPPED = "swapped with a pod of the same owner: each was bound to the node planned for the other"
    GONE = "the planned node is gone"
    NOT_READY = "bound before the planned node was ready"
    DISPLACED = "pods that were planned for other nodes have taken its room"
    RANKED = "the planned node has room for it, but kube-scheduler scored another node higher"
    UNEXPLAINED = "the planned node has no room for it, although it holds planned pods only: the plan overfilled it"
    UNBOUND = "not bound"


REFUSED = (Verdict.UNEXPLAINED, Verdict.UNBOUND)


@dataclass(frozen=True, slots=True)
class Placement:
    """One planned pod: `planned` and `bound` are names of nodes, `bound` is empty for a pod that is not bound."""

    pod: str
    planned: tuple[str, ...]
    bound: str
    verdict: Verdict

    def __str__(self) -> str:
        return (
            f"{self.pod}: planned for {' then '.join(self.planned)}, on {self.bound or 'no node'}: {self.verdict.value}"
        )


def placements(events: Iterable[Obj], pods: Iterable[Obj], nodes: Iterable[Obj]) -> list[Placement]:
    """Return the placement of each pod that still exists and was nominated for a node."""
    planned: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda e: str(e.get("lastTimestamp") or "")):
        if event["reason"] == "Nominated" and event["message"].startswith(PREFIX):
            node = event["message"].removeprefix(PREFIX)
            planned.setdefault(event["involvedObject"]["uid"], []).append(node)
    known = {pod["metadata"]["uid"]: pod for pod in pods if not pod["metadata"].get("deletionTimestamp")}
    seen = _Seen(planned, {node["metadata"]["name"]: node for node in nodes}, known)
    return [
        Placement(pod["metadata"]["name"], tuple(planned[uid]), bound_to(pod), _verdict(pod, seen))
        for uid, pod in known.items()
        if uid in planned
    ]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The cluster that verdicts are based on: planned node names by pod uid, nodes by name, pods by uid."""

    planned: Mapping[str, list[str]]
    nodes: Mapping[str, Obj]
    pods: Mapping[str, Obj]


def _verdict(pod: Obj, seen: _Seen) -> Verdict:
    here, targets = bound_to(pod), seen.planned[pod["metadata"]["uid"]]
    if not here:
        return Verdict.UNBOUND
    if here in targets:
        return Verdict.AS_PLANNED
    meant = [each for uid, each in seen.pods.items() if here in seen.planned.get(uid, ())]
    if any(_owner(each) == _owner(pod) and bound_to(each) != here for each in meant):
        return Verdict.SWAPPED
    target = seen.nodes.get(targets[-1])
    if target is None:
        return Verdict.GONE
    since = _since(target, "Ready")
    if since is None or since >= (_since(pod, "PodScheduled") or ""):
        return Verdict.NOT_READY
    return _of_room(pod, target, seen)


def _of_room(pod: Obj, target: Obj, seen: _Seen) -> Verdict:
    name = target["metadata"]["name"]
    guests = {uid: each for uid, each in seen.pods.items() if bound_to(each) == name}
    allocatable = target["status"]["allocatable"]
    fits = all(
        sum(_request(each, resource) for each in (*guests.values(), pod)) <= parse(amount)
        for resource, amount in allocatable.items()
    )
    if fits:
        return Verdict.RANKED
    strangers = [uid for uid in guests if name not in seen.planned.get(uid, ())]
    return Verdict.DISPLACED if strangers else Verdict.UNEXPLAINED


def _request(pod: Obj, resource: str) -> Fraction:
    """Sum what the pod's containers request of one resource."""
    if resource == "pods":
        return Fraction(1)
    asked = (each.get("resources", {}).get("requests") or {} for each in pod["spec"]["containers"])
    return sum((parse(each[resource]) for each in asked if resource in each), Fraction(0))


def bound_to(pod: Obj) -> str:
    """Return the name of the pod's node, empty while it is not bound."""
    return str(pod["spec"].get("nodeName") or "")


def _owner(pod: Obj) -> str:
    return next((str(o["uid"]) for o in pod["metadata"].get("ownerReferences") or () if o.get("controller")), "")


def _since(thing: Obj, kind: str) -> str | None:
    """Return when a condition became True (RFC 3339), None while it is not."""
    conditions = thing.get("status", {}).get("conditions") or ()
    return next((str(c["lastTransitionTime"]) for c in conditions if c["type"] == kind and c["status"] == "True"), None)
