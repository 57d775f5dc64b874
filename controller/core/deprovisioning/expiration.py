"""Expiration: nodes older than their Provisioner's ttlSecondsUntilExpired are replaced, the oldest first.

Karpenter v0.27 marks expired nodes with `karpenter.sh/voluntary-disruption: expired` first. Here age alone decides, and
users set the annotation to have a node replaced now. Karpenter v0.27 removes an expired node whose pods fit nowhere;
here it stays, and an event reports it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.due_replacement import DueReplacement
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.removal_command import EXPIRATION
from controller.core.state.snapshot import Snapshot

EXPIRED = "expired"
"""The annotation's value, and the reason in disruption budgets."""
_ANNOTATION = V1ALPHA5.keys.voluntary_disruption
_MARGIN_SECONDS = 0.05


class Expiration:
    """The method."""

    name = EXPIRATION

    def __init__(self) -> None:
        self._replacement = DueReplacement(EXPIRATION, EXPIRED)

    def wanted(self, candidate: Candidate, _snapshot: Snapshot, now: float) -> bool:
        """Return whether the node has expired."""
        return _is_expired(candidate, now)

    def decide(self, given: MethodInput) -> Proposal:
        """Replace the first expired node that may be removed; decide again when the next one expires."""
        expired = [candidate for candidate in given.candidates if _is_expired(candidate, given.now)]
        expired.sort(key=lambda candidate: (expires_at(candidate), candidate.name))
        proposal = self._replacement.decide(given, expired, because)
        times = map(expires_at, given.candidates)
        soonest = min((at for at in times if at >= given.now), default=math.inf)
        return replace(proposal, again_seconds=soonest - given.now + _MARGIN_SECONDS)


def expires_at(candidate: Candidate) -> float:
    """Return when the node expires, Unix seconds; infinite: never. One that a user marked is due since its creation."""
    created = candidate.node.node.created
    if candidate.node.node.annotations.get(_ANNOTATION) == EXPIRED:
        return created
    ttl = candidate.provisioner.disruption.expire_after_seconds
    return math.inf if ttl is None else created + ttl


def because(candidate: Candidate) -> str:
    """Return why an expired node is due, in words."""
    if candidate.node.node.annotations.get(_ANNOTATION) == EXPIRED:
        return f"annotation {_ANNOTATION}: {EXPIRED}"
    return f"older than ttlSecondsUntilExpired of {candidate.provisioner.disruption.expire_after_seconds} s"


def _is_expired(candidate: Candidate, now: float) -> bool:
    return expires_at(candidate) < now
