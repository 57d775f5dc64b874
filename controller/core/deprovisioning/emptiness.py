"""Emptiness: nodes without pods are stamped, and removed when ttlSecondsAfterEmpty of their Provisioner has passed.

The rules are those of Karpenter v0.27, with two fixed: the stamp is cleared when the TTL is removed from the
Provisioner, and a stamp that cannot be parsed is written anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import PROVISIONER_NAME
from controller.core.api.provisioner import Provisioner
from controller.core.api.timestamps import format_time, parse_time
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.candidates import Candidate, candidates
from controller.core.deprovisioning.method import MethodInput, NodeAnnotations, Proposal
from controller.core.deprovisioning.removal_command import EMPTINESS, Command
from controller.core.state.snapshot import Snapshot, StateNode

EMPTY_NODES = "empty"
"""The reason in disruption budgets."""
NOMINATED_RETRY_SECONDS = 30.0
"""A nominated node is judged again after this long (Karpenter v0.27's value)."""


class EmptinessAction(Enum):
    """What to do with a node."""

    KEEP = "keep"
    SET = "set"
    CLEAR = "clear"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class EmptinessVerdict:
    """`requeue_seconds`: when to decide again even if nothing changes; 0: only on a change."""

    action: EmptinessAction
    reason: str
    requeue_seconds: float = 0.0


class Emptiness:
    """The method. It needs neither instance types nor simulations."""

    name = EMPTINESS

    def wanted(self, candidate: Candidate, _snapshot: Snapshot, now: float) -> bool:
        """Return whether the node has been empty for its TTL."""
        return verdict(candidate.node, candidate.provisioner, now).action is EmptinessAction.DELETE

    def decide(self, given: MethodInput) -> Proposal:
        """Delete each node that was empty for its TTL; stamp nodes that became empty, and clear old stamps."""
        commands: list[Command] = []
        blocked: list[tuple[Candidate, str]] = []
        annotations: list[NodeAnnotations] = []
        again_seconds = math.inf
        for node in given.snapshot.nodes.values():
            if PROVISIONER_NAME not in node.node.labels:
                continue
            judged = verdict(node, given.snapshot.provisioners.get(node.provisioner_name), given.now)
            again_seconds = min(again_seconds, judged.requeue_seconds or math.inf)
            if judged.action is EmptinessAction.KEEP or node.name in given.held_back:
                continue
            if judged.action is EmptinessAction.CLEAR:
                annotations.append(NodeAnnotations(node, {V1ALPHA5.keys.emptiness_timestamp: None}, judged.reason))
            elif judged.action is EmptinessAction.DELETE:
                for candidate in candidates(given.snapshot, EMPTY, given.now, [node]):
                    refusal = given.gate.removal_refusal(candidate, EMPTY_NODES)
                    if refusal is None:
                        given.gate.grant([candidate])
                        commands.append(Command(EMPTINESS, EMPTY_NODES, judged.reason, (candidate,)))
                    elif not refusal.temporary:
                        blocked.append((candidate, refusal.reason))
            elif not given.gate.engaged(node):  # a command's replacement waits for the pods of the nodes it replaces
                stamp = {V1ALPHA5.keys.emptiness_timestamp: format_time(given.now)}
                annotations.append(NodeAnnotations(node, stamp, judged.reason))
        return Proposal(tuple(commands), tuple(blocked), annotations=tuple(annotations), again_seconds=again_seconds)


def verdict(node: StateNode, provisioner: Provisioner | None, now: float) -> EmptinessVerdict:
    """Decide what to do with a Provisioner's node at `now` (Unix seconds). provisioner None: it is gone or invalid.

    A terminating pod still occupies its node, so that a TTL of 0 does not cut its grace period short.
    """
    stamp = node.node.annotations.get(V1ALPHA5.keys.emptiness_timestamp)
    if node.leaving:
        return EmptinessVerdict(EmptinessAction.KEEP, "the node is leaving")
    if provisioner is None:
        return EmptinessVerdict(EmptinessAction.KEEP, "its Provisioner is not usable")
    ttl = provisioner.disruption.empty_after_seconds
    if ttl is None:
        return _clear(stamp, "ttlSecondsAfterEmpty is not set")
    if not node.initialized:
        return _clear(stamp, "the node is not initialized")
    if node.nominated_until > now:
        again_seconds = min(NOMINATED_RETRY_SECONDS, node.nominated_until - now)
        return EmptinessVerdict(EmptinessAction.KEEP, "pods are expected on the node", again_seconds)
    if not all(pod.terminal or pod.daemon or pod.static for pod in node.pods):
        return _clear(stamp, "pods run on the node")
    since = parse_time(stamp) if stamp is not None else None
    if since is None:
        return EmptinessVerdict(EmptinessAction.SET, "the node became empty", float(ttl))
    if now < since + ttl:
        return EmptinessVerdict(EmptinessAction.KEEP, "its time is not over", since + ttl - now)
    return EmptinessVerdict(EmptinessAction.DELETE, f"empty for {ttl} s or longer")


def _clear(stamp: str | None, reason: str) -> EmptinessVerdict:
    return EmptinessVerdict(EmptinessAction.KEEP if stamp is None else EmptinessAction.CLEAR, reason)
