"""Find unhealthy nodes, and decide for how long that is tolerated, and when too many are for a repair of nodes.

Conditions and times are those of node auto repair in EKS and later Karpenter versions: Ready, and the conditions of the
EKS node monitoring agent. As there, nothing is repaired while over 20 % (rounded up) are unhealthy at once: then it is
the control plane, the network, or an image that all of them run, and replacing nodes would take down what still runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.core.api.frozen import FrozenMap
from controller.core.api.node import READY, Node
from controller.core.state.snapshot import Snapshot, StateNode

NOT_READY_SECONDS: Final = 1800.0
"""The default of the setting `nodeRepairAfter`."""
AGENT_SECONDS: Final[Mapping[str, float]] = FrozenMap(
    {
        "AcceleratedHardwareReady": 600.0,
        "ContainerRuntimeReady": 1800.0,
        "KernelReady": 1800.0,
        "NetworkingReady": 1800.0,
        "StorageReady": 1800.0,
    }
)
_PERCENT: Final = 20


@dataclass(frozen=True, slots=True)
class Sickness:
    """The condition of a node that is tolerated for the shortest time; `due_at`: until then (Unix seconds)."""

    condition: str
    status: str
    since: float
    due_at: float

    def text(self, now: float) -> str:
        """Describe it."""
        return f"condition {self.condition} has been {self.status} for {int(now - self.since)} s"


def sickness(node: Node, not_ready_seconds: float = NOT_READY_SECONDS) -> Sickness | None:
    """Return what is wrong with a node; None if it is healthy, or its conditions have no transition time."""
    all_of_them = (
        Sickness(each.type, each.status, each.since, each.since + _tolerated(each.type, not_ready_seconds))
        for each in node.unhealthy
    )
    return min(all_of_them, key=lambda each: (each.due_at, each.condition), default=None)


def _tolerated(condition: str, not_ready_seconds: float) -> float:
    return not_ready_seconds if condition == READY else AGENT_SECONDS[condition]


@dataclass(slots=True)
class Census:
    """How many nodes of the cluster and of each Provisioner are unhealthy now, however short a time.

    A node of a Provisioner counts once it is initialized. One that fell ill after its deletion does not count as
    unhealthy: its instance shuts down.
    """

    snapshot: Snapshot
    _nodes: Counter[str] = field(default_factory=Counter)
    _sick: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for node in self.snapshot.nodes.values():
            if node.initialized or not node.provisioner_name:
                self._nodes[node.provisioner_name] += 1
                self._sick[node.provisioner_name] += _unhealthy(node)

    def refusal(self, provisioner: str) -> str:
        """Return why no node of the Provisioner may be repaired now; empty when one may."""
        own = _too_many(self._sick[provisioner], self._nodes[provisioner], f"of Provisioner {provisioner}")
        return own or _too_many(self._sick.total(), self._nodes.total(), "of the cluster")


def _unhealthy(node: StateNode) -> bool:
    since = [each.since for each in node.node.unhealthy]
    if node.node.deleted_at is None:
        return bool(since) or not node.node.ready
    return any(at <= node.node.deleted_at for at in since)


def _too_many(sick: int, nodes: int, whose: str) -> str:
    allowed = -(-nodes * _PERCENT // 100)
    if sick <= allowed:
        return ""
    return (
        f"{sick} of {nodes} nodes {whose} are unhealthy at once, over {_PERCENT} %: "
        "it is not the nodes but what they share (control plane, network, image, node role)"
    )
