"""Prove that the process works on its own cluster, before a node or an instance is removed.

A controller with another region or another account's credentials gets well-formed answers about other machines: its own
instances seem not to exist, and those of a cluster of the same name seem to have lost their Nodes. So an absence counts
only beside positive evidence that the answers are about this cluster.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from controller.core.api.node import READY, Node
from controller.core.cloud import CloudIdentity, CloudInstance
from controller.core.machines.registration import joined
from controller.core.state.snapshot import Snapshot, StateNode

FEW = 3
"""Number of instances that may be unknown to the cloud at once: single nodes fail, and small clusters have few."""
MOST_SHARE = 0.2
"""Share of the nodes. If the instances of more nodes are unknown, the request went to the wrong place: the cloud shows
terminated instances for about an hour. Kubernetes' own limit for a zone in disruption is 55 %."""
FORGOTTEN_SECONDS = 3600.0
"""A terminated instance is shown for about an hour (EC2 user guide): a node that has been silent for longer may well
have an instance that the cloud does not know any more."""
CONSISTENCY_SECONDS = 30.0
"""The cloud may not show an instance whose Node is younger."""
GOING = frozenset({"shutting-down", "terminated"})
"""Instance states that end in termination, or did."""
_ZONE = re.compile(r"^aws:///(?P<zone>[^/]+)/i-[0-9a-f]+$")


class Standing(Enum):
    """What the process may do, by the last check."""

    PROVEN = "its own cluster: it launches and removes"
    DOUBTED = "not proven: nothing is removed; launches go on"
    DISPROVED = "another cluster's account or region: nothing is removed or launched"


@dataclass(frozen=True, slots=True)
class ClusterProof:
    """The verdict; `because`: why the cluster is not proven."""

    standing: Standing
    because: str = ""
    region: str = ""

    @property
    def proven(self) -> bool:
        """Whether removals may begin."""
        return self.standing is Standing.PROVEN


NOT_YET = ClusterProof(Standing.DOUBTED, "it is not proven yet that the controller looks at its own cluster")


def zone_of(provider_id: str) -> str:
    """Return the zone in `aws:///ZONE/i-...`; empty for other ids."""
    match = _ZONE.match(provider_id)
    return match["zone"] if match else ""


def in_region(zone: str, region: str) -> bool:
    """Return whether a zone, local zones included (us-west-2a, us-west-2-lax-1a), belongs to the region."""
    return zone.startswith(region) and not zone[len(region) : len(region) + 1].isdigit()


def elsewhere(node: Node, region: str) -> str:
    """Return why the node's instance cannot be one of this region; empty when it may be."""
    zone = zone_of(node.provider_id)
    if not zone or in_region(zone, region):
        return ""
    return f"its providerID names zone {zone}, and the controller works in region {region}"


def claimants(snapshot: Snapshot) -> list[StateNode]:
    """Return nodes of ours that stay and name an instance."""
    return [
        node
        for node in snapshot.nodes.values()
        if node.provisioner_name and not node.leaving and zone_of(node.node.provider_id)
    ]


def prove(
    identity: CloudIdentity, expected_arn: str, nodes: Iterable[StateNode], known: Collection[str], now: float
) -> ClusterProof:
    """Judge whether this is the cluster of the settings and of its nodes.

    `expected_arn` is the setting aws.clusterArn, empty if absent. `nodes` are the `claimants`; `known` the provider ids
    of those whose instance the cloud knows by its bare id, in whatever state.
    """
    region = identity.region
    if expected_arn and identity.cluster_arn != expected_arn:
        other = identity.cluster_arn or "no ARN"
        because = f"the setting aws.clusterArn is {expected_arn}, and AWS answers {other}"
        return ClusterProof(Standing.DISPROVED, because, region)
    everyone = list(nodes)
    here = [node for node in everyone if not elsewhere(node.node, region)]
    if everyone and not here:
        because = f"{len(everyone)} nodes, such as {everyone[0].name}: {elsewhere(everyone[0].node, region)}"
        return ClusterProof(Standing.DISPROVED, because, region)
    old = [node for node in here if now - node.node.created >= CONSISTENCY_SECONDS]
    if (because := _vanished(old, known, now)) != "":
        return ClusterProof(Standing.DOUBTED, because, region)
    if not expected_arn and not any(joined(node.node) and node.node.provider_id in known for node in here):
        because = "the setting aws.clusterArn is absent, and there is no registered Node whose instance AWS knows"
        return ClusterProof(Standing.DOUBTED, because, region)
    return ClusterProof(Standing.PROVEN, "", region)


def silent_since(node: Node) -> float:
    """Return since when a node is not Ready, Unix seconds; its creation if no kubelet has reported."""
    return next((each.since for each in node.unhealthy if each.type == READY), node.created)


def _vanished(nodes: Collection[StateNode], known: Collection[str], now: float) -> str:
    """Return why so many unknown instances mean wrong answers; empty if they are few, or explained."""
    recent = [node for node in nodes if node.node.ready or now - silent_since(node.node) < FORGOTTEN_SECONDS]
    unknown = [node for node in recent if node.node.provider_id not in known]
    ready = [node for node in nodes if node.node.ready]
    if ready and not any(node.node.provider_id in known for node in ready):
        return f"AWS knows none of the instances of {len(ready)} Ready nodes, such as {ready[0].node.provider_id}"
    if len(unknown) > max(FEW, MOST_SHARE * len(nodes)):
        return f"AWS does not know the instances of {len(unknown)} of {len(nodes)} nodes, too many at once"
    return ""


class Fate(Enum):
    """The state of a node's instance, by the cloud and the kubelet."""

    LIVES = "the cloud shows it, and it is not terminating"
    GONE = "the cloud says so, or does not know it and its kubelet is silent"
    UNKNOWN = "the cloud does not know it, and its kubelet still reports"


def fate(node: Node, instance: CloudInstance | None) -> Fate:
    """Judge by the cloud's answer to the instance's bare id; None: it does not know the id."""
    if instance is not None:
        return Fate.GONE if instance.state in GOING else Fate.LIVES
    return Fate.UNKNOWN if node.ready else Fate.GONE
