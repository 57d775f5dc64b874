"""Open the nodes of a plan to pods together.

kube-scheduler fills the nodes that are Ready first with pods that were planned for the others, in another mix, and
some of the pods then fit nowhere. So the nodes of a plan whose pods differ in their requests are created cordoned, and
are uncordoned together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import OPENS_WITH
from controller.core.api.node import Node
from controller.core.api.pod import Pod, PodKey
from controller.core.provisioning.plan import PlannedNode


def opens_together(planned: Sequence[PlannedNode], pods: Mapping[PodKey, Pod]) -> bool:
    """Whether it matters to which of the planned nodes kube-scheduler binds first: there are several, and their pods
    (`pods`: those of the plan) have different requests."""
    if len(planned) < 2:
        return False
    specs = {id(spec): spec for spec in (pods[key].spec for node in planned for key in node.pods if key in pods)}
    return len({spec.requests for spec in specs.values()}) > 1


@dataclass(frozen=True, slots=True)
class Openings:
    """Which nodes are opened now. Times are seconds of a monotonic clock."""

    uids: frozenset[str] = frozenset()
    """Of the nodes that are opened."""
    ready_since: Mapping[str, float] = EMPTY
    """When the first node of a group was seen Ready, by the group's name."""
    next_at: float = inf
    """When Ready nodes need not wait for the others of their group any more."""


def openings(nodes: Iterable[Node], before: Openings, now: float, most_seconds: float) -> Openings:
    """Open the Ready nodes of each group once all of its nodes are Ready, or one has been for `most_seconds`.

    `nodes`: those that are not being deleted. `before`: what the last call returned.
    """
    groups: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if group := node.annotations.get(OPENS_WITH):
            groups[group].append(node)
    ready = {group: [node.uid for node in members if node.ready] for group, members in groups.items()}
    since = {group: before.ready_since.get(group, now) for group, uids in ready.items() if uids}
    ends = {group: at if len(ready[group]) == len(groups[group]) else at + most_seconds for group, at in since.items()}
    opened = frozenset(uid for group, end in ends.items() if end <= now for uid in ready[group])
    return Openings(opened, since, min((end for end in ends.values() if end > now), default=inf))
