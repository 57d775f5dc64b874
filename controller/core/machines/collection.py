"""Garbage collection: instances without a Node, and Nodes without an instance.

Tags in EC2 are the write-ahead record of launches, by which this recovers from a controller's crash: a young instance
without a Node gets its Node (adoption), an old one that never joined is terminated. No single absent answer decides:
the caller asks the cloud and the API server again about each item before it acts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from controller.core.api.labels import PROVISIONER_NAME
from controller.core.cloud import CloudInstance
from controller.core.machines.cluster_proof import GOING, Fate, fate
from controller.core.machines.registration import joined
from controller.core.state.snapshot import Snapshot, StateNode

ADOPTABLE = frozenset({"pending", "running"})
"""Instance states in which a Node may be created. A stopped instance takes no pods."""


@dataclass(frozen=True, slots=True)
class CollectionTimes:
    """`registration_seconds`: an instance that has not joined by then is terminated (later Karpenter: 15 min).

    `consistency_seconds`: younger than this, absence from the cloud's or the API server's answers proves nothing.
    """

    registration_seconds: float = 900.0
    consistency_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Removal:
    """An instance or a node to remove, by name and provider id, with the reason in words."""

    name: str
    provider_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """Instances to give a Node, instances to terminate, Nodes to delete (their finalizer does the rest).

    `unlisted`: Nodes whose instance is not among those with the cluster's tag. Ask for it by its bare id.
    """

    adopt: tuple[CloudInstance, ...] = ()
    terminate: tuple[Removal, ...] = ()
    delete_nodes: tuple[Removal, ...] = ()
    unlisted: tuple[StateNode, ...] = ()


def plan_collection(
    snapshot: Snapshot, instances: Iterable[CloudInstance], now: float, times: CollectionTimes
) -> CollectionPlan:
    """Decide about `instances` (all live ones of this cluster, by tags) and the nodes of `snapshot` at `now`."""
    live = sorted((entry for entry in instances if entry.state not in GOING), key=lambda entry: entry.id)
    by_provider_id = {node.node.provider_id for node in snapshot.nodes.values()}
    alone = [
        entry for entry in live if entry.provider_id not in by_provider_id and entry.node_name not in snapshot.nodes
    ]
    adopt: list[CloudInstance] = []
    terminate: list[Removal] = []
    for entry in alone:
        if reason := _give_up_reason(snapshot, entry, now, times):
            terminate.append(Removal(entry.node_name or entry.id, entry.provider_id, reason))
        elif entry.node_name and entry.state in ADOPTABLE and entry.provisioner_name in snapshot.provisioners:
            adopt.append(entry)
    known = {entry.provider_id: entry for entry in live}
    removals, unlisted = [], []
    for node in snapshot.nodes.values():
        if PROVISIONER_NAME not in node.node.labels or node.leaving:
            continue
        if (removal := _unregistered(node, known, now, times)) is not None:
            removals.append(removal)
        elif _unlisted(node, known, now, times):
            unlisted.append(node)
    return CollectionPlan(tuple(adopt), tuple(terminate), tuple(removals), tuple(unlisted))


def instance_gone(node: StateNode, instance: CloudInstance | None) -> str:
    """Return why the Node is to be deleted, by the cloud's answer to its instance's bare id; empty when it stays.

    A kubelet that reports contradicts the answer: the Node stays while it is Ready (later Karpenter's rule).
    """
    if node.node.ready or fate(node.node, instance) is not Fate.GONE:
        return ""
    state = f"it is {instance.state}" if instance else "the cloud does not know it"
    return f"its instance does not exist any more ({state}), and its kubelet is silent"


def _give_up_reason(snapshot: Snapshot, entry: CloudInstance, now: float, times: CollectionTimes) -> str:
    age = now - entry.launched_at
    if age >= times.registration_seconds:
        return f"it has no Node {int(age)} s after its launch"
    provisioner = snapshot.provisioners.get(entry.provisioner_name)
    invalid = ("Provisioner", entry.provisioner_name) in snapshot.invalid
    gone = not invalid and (provisioner is None or provisioner.deleted_at is not None)
    if gone and age >= times.consistency_seconds:
        return f"its Provisioner {entry.provisioner_name} does not exist any more"
    return ""


def _unregistered(
    node: StateNode, known: dict[str, CloudInstance], now: float, times: CollectionTimes
) -> Removal | None:
    instance = known.get(node.node.provider_id)
    age = now - (instance.launched_at if instance else node.node.created)
    if joined(node.node) or age < times.registration_seconds:
        return None
    reason = f"it did not register within {int(times.registration_seconds)} s"
    return Removal(node.name, node.node.provider_id, reason)


def _unlisted(node: StateNode, known: dict[str, CloudInstance], now: float, times: CollectionTimes) -> bool:
    absent = node.node.provider_id not in known
    return absent and bool(node.node.provider_id) and now - node.node.created >= times.consistency_seconds
