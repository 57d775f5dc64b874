"""Match unbound claims to statically provisioned volumes.

kube-scheduler looks for a free volume pod by pod, on the node that it considers. A plan assigns each claim one volume,
so that as many claims as possible have one that their pods can reach.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from controller.core.api import labels
from controller.core.api.pod import PodKey
from controller.core.provisioning.pods.relaxation import Choice
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot


def matched(suitable: Mapping[PodKey, Sequence[str]]) -> dict[PodKey, str]:
    """Find a maximum bipartite matching of claims to volumes, by augmenting paths.

    suitable: per claim, its suitable volumes, best first. An earlier claim may change its volume for a later one, but
    never loses it.
    """
    holder: dict[str, PodKey] = {}
    held: dict[PodKey, str] = {}
    lost: set[str] = set()
    """Volumes from which no augmenting path leads to a free one."""
    for claim in suitable:
        asked_by: dict[str, PodKey] = {}
        waiting = deque([claim])
        free: str | None = None
        while waiting and free is None:
            asking = waiting.popleft()
            fresh = [volume for volume in suitable[asking] if volume not in asked_by and volume not in lost]
            asked_by.update(dict.fromkeys(fresh, asking))
            free = next((volume for volume in fresh if volume not in holder), None)
            waiting.extend(holder[volume] for volume in fresh if volume in holder)
        if free is None:
            lost.update(asked_by)
        while free is not None:
            asking = asked_by[free]
            given_up = held.get(asking)
            holder[free], held[asking] = asking, free
            free = given_up
    return held


def compatible(these: Iterable[Choice], those: Iterable[Choice]) -> bool:
    """Return whether some node may satisfy both, judged key by key."""
    others = tuple(those)
    return all(any(not x.conflicts(y) for x in one for y in other) for one in these for other in others)


def within_reach(reach: Iterable[Choice], snapshot: Snapshot, pools: Sequence[Requirements]) -> bool:
    """Return whether an existing node, or a new one by its Provisioner's requirements, can be where the volume is."""
    wanted = tuple(reach)
    nodes = (each.node.labels for each in snapshot.nodes.values() if not each.leaving)
    if any(all(any(term.accept(held) for term in terms) for terms in wanted) for held in nodes):
        return True
    bound_to_host = any(labels.HOSTNAME in term for terms in wanted for term in terms)
    return not bound_to_host and any(compatible(((pool,),), wanted) for pool in pools)
