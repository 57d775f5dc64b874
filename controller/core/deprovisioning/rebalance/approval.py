"""The approval of a rebalance: an annotation on each node to remove, written with a cordon when a user approves.

It has the step that removes the node and the pods that the node may have then, so that the controller detects changes.
It is removed with its node; on a node that stays after all it has the reason, and the cordon is removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Pod
from controller.core.deprovisioning.versioned_json import RecordFormat, read_annotation
from controller.core.provisioning.problem import leaving_pods
from controller.core.state.snapshot import Snapshot, StateNode
from controller.core.untrusted_json import number, whole

APPROVAL_ANNOTATION: Final = "karpenter.sh/rebalance-approval"
MOST_STEPS: Final = 100_000
MOST_SAVED: Final = 1e9
"""Upper bound of a saving that is accepted, $ an hour."""


@dataclass(frozen=True, slots=True)
class Approval:
    """One node's part of a plan. `plan`: its id; `at`: when it was approved, Unix seconds; `step` counts from 1.

    `pods`: digests of the pods that the node may have; `saves`: the node's share of what its step saves, $ an hour;
    `nodes`, `steps` and `plan_saves` are the whole plan's. `cordoned`: the approval made the node unschedulable.
    `stopped`: why the node stays; empty: it goes. `unknown`: members that another version added.
    """

    plan: str
    at: float
    step: int
    steps: int
    nodes: int
    pods: frozenset[str]
    saves: float
    plan_saves: float
    cordoned: bool = True
    stopped: str = ""
    unknown: FrozenMap[str, Any] = field(default=EMPTY, hash=False)

    @property
    def in_words(self) -> str:
        """Which step removes the node, or why it stays."""
        if self.stopped:
            return f"stays, as the plan has ended: {self.stopped}"
        return f"goes by step {self.step} of {self.steps} of the approved plan {self.plan}"


def pod_digest(pod: Pod) -> str:
    """Return 8 hex digits, a hash of the pod's uid."""
    return hashlib.sha256(pod.uid.encode(errors="replace")).hexdigest()[:8]


def new_pods(node: StateNode, known: Iterable[str]) -> list[str]:
    """Return pods (namespace/name) that would have to move and are not among these digests."""
    digests = frozenset(known)
    return [pod.full_name for pod in leaving_pods(node) if pod_digest(pod) not in digests]


_COUNT: Final = partial(whole, least=1, most=MOST_STEPS)
_SAVING: Final = partial(number, least=-MOST_SAVED)
_FORMAT: Final = RecordFormat(
    Approval,
    {
        "plan": ("plan", str),
        "at": ("at", number),
        "step": ("step", _COUNT),
        "steps": ("steps", _COUNT),
        "nodes": ("nodes", _COUNT),
        "pods": ("pods", lambda digests: frozenset(map(str, digests))),
        "saves": ("saves", _SAVING),
        "plan_saves": ("planSaves", _SAVING),
        "cordoned": ("cordoned", bool),
        "stopped": ("stopped", str),
    },
)
write_approval, parse_approval = _FORMAT.write, _FORMAT.parse


def read_approval(node: StateNode) -> Approval | None:
    """Return the approval on a node; None without one that can be read."""
    return read_annotation(node.node, APPROVAL_ANNOTATION, parse_approval)


def approvals(snapshot: Snapshot) -> Mapping[str, Approval]:
    """Return every approval that can be read, by node name."""
    read = ((name, read_approval(node)) for name, node in snapshot.nodes.items())
    return {name: approval for name, approval in read if approval is not None}


def under_way(snapshot: Snapshot) -> bool:
    """Return whether an approved plan still has nodes to remove."""
    return any(not approval.stopped for approval in approvals(snapshot).values())


def stop(approval: Approval, because: str, *, uncordoned: bool) -> Approval:
    """Mark the approval of a node that stays after all."""
    return replace(approval, stopped=approval.stopped or because, cordoned=approval.cordoned and not uncordoned)
