"""Whether kube-scheduler did what the plans said: each pod that a plan named is bound, to the node that it named, or
there is a fact that explains why it went elsewhere.

Plans are read as their users read them: from the events `Nominated`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from sandbox.world.resources import Obj

PREFIX = "Pod should schedule on node: "


class Verdict(Enum):
    """What became of a pod's nomination."""

    AS_PLANNED = "bound as planned"
    TWIN = "a pod of the same owner was bound there instead, and this one where that was planned"
    GONE = "the planned node is gone"
    NOT_READY = "bound before the planned node was ready"
    UNEXPLAINED = "bound elsewhere, and nothing says why"
    UNBOUND = "not bound"


REFUSED = (Verdict.UNEXPLAINED, Verdict.UNBOUND)


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod that a plan named; names of nodes."""

    pod: str
    planned: tuple[str, ...]
    bound: str
    verdict: Verdict

    def __str__(self) -> str:
        return (
            f"{self.pod}: planned for {' then '.join(self.planned)}, on {self.bound or 'no node'}: {self.verdict.value}"
        )


def placements(events: Iterable[Obj], pods: Iterable[Obj], nodes: Iterable[Obj]) -> list[Placement]:
    """Each pod that still exists and was nominated for a node."""
    planned: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda e: str(e.get("lastTimestamp") or "")):
        if event["reason"] == "Nominated" and event["message"].startswith(PREFIX):
            node = event["message"].removeprefix(PREFIX)
            planned.setdefault(event["involvedObject"]["uid"], []).append(node)
    known = {pod["metadata"]["uid"]: pod for pod in pods if not pod["metadata"].get("deletionTimestamp")}
    ready = {node["metadata"]["name"]: _ready_since(node) for node in nodes}
    named = {uid: known[uid] for uid in planned if uid in known}
    return [
        Placement(pod["metadata"]["name"], tuple(planned[uid]), bound_to(pod), _verdict(pod, planned, named, ready))
        for uid, pod in named.items()
    ]


def _verdict(
    pod: Obj, planned: Mapping[str, list[str]], named: Mapping[str, Obj], ready: Mapping[str, str | None]
) -> Verdict:
    here, targets = bound_to(pod), planned[pod["metadata"]["uid"]]
    if not here:
        return Verdict.UNBOUND
    if here in targets:
        return Verdict.AS_PLANNED
    twins = [each for uid, each in named.items() if here in planned[uid] and _owner(each) == _owner(pod)]
    if any(bound_to(twin) != here for twin in twins):
        return Verdict.TWIN
    if targets[-1] not in ready:
        return Verdict.GONE
    since = ready[targets[-1]]
    return Verdict.NOT_READY if since is None or since >= _bound_at(pod) else Verdict.UNEXPLAINED


def bound_to(pod: Obj) -> str:
    """The pod's node, empty where it has none."""
    return str(pod["spec"].get("nodeName") or "")


def _owner(pod: Obj) -> str:
    return next((str(o["uid"]) for o in pod["metadata"].get("ownerReferences") or () if o.get("controller")), "")


def _bound_at(pod: Obj) -> str:
    return _since(pod, "PodScheduled") or ""


def _ready_since(node: Obj) -> str | None:
    return _since(node, "Ready")


def _since(thing: Obj, kind: str) -> str | None:
    """When a condition became True, as RFC 3339 to the second."""
    found = thing.get("status", {}).get("conditions") or ()
    return next((str(c["lastTransitionTime"]) for c in found if c["type"] == kind and c["status"] == "True"), None)
