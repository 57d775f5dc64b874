"""Stand-ins: nodes that are being launched, as plans see them, with the planned labels and size.

A plan that is made while the launches of another are under way counts on them, so that no pod gets a second node, and
limits and topology know them. The Node takes the place of its stand-in as soon as the cluster state has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Node
from controller.core.api.pod import Pod, PodKey
from controller.core.cloud import LaunchRequest
from controller.core.machines.launching import tokens_in_use
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.state.snapshot import Snapshot, StateNode


@dataclass(frozen=True, slots=True)
class ExpectedPod:
    """A planned pod, and the node that the last plan has it on: its name, or that of its stand-in."""

    key: PodKey
    node: str


def names_of(node: Node) -> tuple[str, str]:
    """A node's name, and the name of the stand-in that it was planned under."""
    return node.name, stand_in_name(node.annotations.get(LAUNCH_TOKEN, ""))


def without_room(node: StateNode, pods: Iterable[Pod]) -> Iterator[Pod]:
    """Yield those of the pods for which the node has no room beside what is bound to it.

    Of a resource that is not among its allocatable ones there is taken to be enough: its kubelet may still report it.
    kube-scheduler binds to a node that is Ready whatever waits: pods that were planned for others may be there.
    """
    free = dict(node.allocatable)
    for pod in node.pods:
        _take(free, pod)
    for pod in pods:
        if all(amount <= free.get(name, amount) for name, amount in pod.spec.requests.items()):
            _take(free, pod)
        else:
            yield pod


def _take(free: dict[str, int], pod: Pod) -> None:
    for name, amount in pod.spec.requests.items():
        if name in free:
            free[name] -= amount


def stand_in_name(token: str) -> str:
    """Return the name of a launch's stand-in, by its launch token."""
    return f"launch-{token}"


def stand_in(request: LaunchRequest, now: float) -> StateNode:
    """Return the stand-in for the node of a launch. `now`: Unix seconds."""
    offering = request.offerings[0]
    entry, provisioner = request.instance_types[offering.instance_type], request.provisioner
    of_type = {
        requirement.key: next(iter(requirement.values))
        for requirement in entry.requirements.values()
        if not requirement.complement and len(requirement.values) == 1
    }
    name = stand_in_name(request.token)
    labels = {
        **provisioner.labels,
        **request.labels,
        **of_type,
        keys.HOSTNAME: name,
        keys.INSTANCE_TYPE: offering.instance_type,
        keys.ZONE: offering.zone,
        keys.CAPACITY_TYPE: offering.capacity_type,
        keys.PROVISIONER_NAME: provisioner.name,
    }
    node = Node(
        name=name,
        uid=name,
        provider_id="",
        labels=FrozenMap(labels),
        annotations=FrozenMap({**provisioner.annotations, LAUNCH_TOKEN: request.token}),
        taints=request.taints,
        created=now,
    )
    return StateNode(node=node, pods=(), capacity=entry.capacity, allocatable=entry.allocatable, taints=request.taints)


def with_stand_ins(snapshot: Snapshot, nodes: Iterable[StateNode]) -> Snapshot:
    """Return the snapshot with these stand-ins, except those whose Node it has."""
    there = tokens_in_use(snapshot)
    missing = {node.name: node for node in nodes if node.node.annotations[LAUNCH_TOKEN] not in there}
    if not missing:
        return snapshot
    return replace(snapshot, nodes=FrozenMap(dict(sorted({**snapshot.nodes, **missing}.items()))))
