"""Open the nodes of a plan to kube-scheduler together, once each pod is bound to the node that it was planned for.

kube-scheduler prefers the emptiest of the nodes that it knows: it fills those that are Ready first with pods that were
planned for others, in another mix, and some of the pods then fit nowhere. So the nodes of a plan whose pods differ in
their requests are created cordoned (DaemonSets' pods tolerate that), and the controller binds their pods (ADR 84).
Nodes in service to which the pods of removed nodes move are closed by a taint meanwhile (ADR 88): a cordon may be a
user's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import OPENS_WITH, PROVISIONER_NAME
from controller.core.api.node import Node, Taint
from controller.core.api.pod import Pod, PodKey
from controller.core.api.provisioner import Provisioner
from controller.core.machines.on_their_way import ExpectedPod, names_of
from controller.core.provisioning.plan import ExistingPlacement, PlannedNode
from controller.core.scheduling.taints import CLOSED_TAINT_KEY


def is_closed(node: Node) -> bool:
    """Return whether the node is still to be opened: kube-scheduler binds no pods to it until then."""
    return OPENS_WITH in node.annotations or closed_in_service(node) is not None


def closed_in_service(node: Node) -> Taint | None:
    """Return the taint that closes a node in service, its value the id of the removal command; None without it."""
    return next((taint for taint in node.taints if taint.key == CLOSED_TAINT_KEY), None)


def closing_taint(command: str) -> Taint:
    """Return the taint that closes a node in service while a removal command (its id) moves pods to it."""
    return Taint(CLOSED_TAINT_KEY, command)


def opens_together(planned: Sequence[PlannedNode | ExistingPlacement], pods: Mapping[PodKey, Pod]) -> bool:
    """Whether it matters which pods kube-scheduler binds to which of the planned nodes: there are several, and their
    pods (`pods`: those of the plan) differ in their requests."""
    if len(planned) < 2:
        return False
    specs = {id(spec): spec for spec in (pods[key].spec for node in planned for key in node.pods if key in pods)}
    return len({spec.requests for spec in specs.values()}) > 1


@dataclass(frozen=True, slots=True)
class Openings:
    """Which nodes are to be opened. Times are seconds of a monotonic clock."""

    uids: frozenset[str] = frozenset()
    """Of the nodes that are to be opened now."""
    ready_since: Mapping[str, float] = EMPTY
    """When the first node of a group was seen Ready, by the group's name."""
    next_at: float = inf
    """When the Ready nodes of a group need not wait for its other nodes any more."""


def openings(
    closed: Iterable[Node],
    before: Openings,
    now: float,
    most_seconds: float,
    starting: Container[str] = frozenset(),
) -> Openings:
    """Open the Ready nodes of each group once all of its nodes are Ready, or one has been for `most_seconds`.

    `closed`: closed nodes that are not being deleted. `before`: what the last call returned.
    `starting`: the uids of those that count as not Ready whatever they say.
    """
    groups: defaultdict[str, list[Node]] = defaultdict(list)
    for node in closed:
        groups[_group(node)].append(node)
    ready = {
        group: [node.uid for node in nodes if node.ready and node.uid not in starting]
        for group, nodes in groups.items()
    }
    since = {group: before.ready_since.get(group, now) for group, uids in ready.items() if uids}
    ends = {group: at if len(ready[group]) == len(groups[group]) else at + most_seconds for group, at in since.items()}
    opened = frozenset(uid for group, end in ends.items() if end <= now for uid in ready[group])
    return Openings(opened, since, min((end for end in ends.values() if end > now), default=inf))


def _group(node: Node) -> str:
    """Return the name that a closed node shares with those that it is opened with."""
    taint = closed_in_service(node)
    return node.annotations[OPENS_WITH] if taint is None else taint.value


def with_startup_taints(closed: Iterable[Node], provisioners: Mapping[str, Provisioner]) -> Iterator[str]:
    """Yield the uids of Ready nodes on which startup taints of their Provisioner still are: kube-scheduler binds no pod
    to them yet."""
    for node in closed:
        provisioner = provisioners.get(node.labels.get(PROVISIONER_NAME, ""))
        startup = {(taint.key, taint.effect) for taint in provisioner.startup_taints} if provisioner else set()
        if node.ready and any((taint.key, taint.effect) in startup for taint in node.taints):
            yield node.uid


def expected_on(nodes: Iterable[Node], expected: Mapping[str, ExpectedPod]) -> dict[str, ExpectedPod]:
    """Those of the expected pods (by uid) that were planned for these nodes, each with its node's own name."""
    own = {name: node.name for node in nodes for name in names_of(node)}
    return {uid: ExpectedPod(pod.key, own[pod.node]) for uid, pod in expected.items() if pod.node in own}


def in_turn(nodes: Sequence[Node], pods: Mapping[str, int], most: int) -> Iterator[list[Node]]:
    """Divide nodes that are due into those that are opened one lot after the other, each with at most `most` pods to
    bind (`pods`: by node's name) or of one node."""
    lot, count = list[Node](), 0
    for node in nodes:
        here = pods.get(node.name, 0)
        if lot and count + here > most:
            yield lot
            lot, count = [], 0
        lot.append(node)
        count += here
    if lot:
        yield lot


def pending(expected: Mapping[str, ExpectedPod], pods: Mapping[PodKey, Pod]) -> Iterator[tuple[str, Pod, str]]:
    """Of the expected pods those that still have no node, each with its uid and the name of the node that it was
    planned for."""
    for uid, each in expected.items():
        pod = pods.get(each.key)
        if pod is not None and pod.uid == uid and not (pod.node_name or pod.terminating or pod.terminal):
            yield uid, pod, each.node
