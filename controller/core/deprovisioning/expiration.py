"""Expiration: nodes that are older than their Provisioner's ttlSecondsUntilExpired are replaced, the oldest first.

The peer needs its own annotation `karpenter.sh/voluntary-disruption: expired` for it; here age alone decides, so that
there is no marker to go stale, and the annotation is what a user may set to have a node replaced now. The peer lets a
node expire whose pods fit nowhere; here it waits, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.api.labels import VOLUNTARY_DISRUPTION
from controller.core.deprovisioning.candidates import Candidate

EXPIRED = "expired"


def expires_at(candidate: Candidate) -> float | None:
    """Unix seconds; None: never. A node that a user marked is due since it was made."""
    if candidate.node.node.annotations.get(VOLUNTARY_DISRUPTION) == EXPIRED:
        return candidate.node.node.created
    ttl = candidate.provisioner.ttl_seconds_until_expired
    return None if ttl is None else candidate.node.node.created + ttl


def expired(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Those whose time is over (strictly), by when it was over, then by name."""
    due = [(at, candidate) for candidate in candidates if (at := expires_at(candidate)) is not None and at < now]
    return [candidate for _, candidate in sorted(due, key=lambda entry: (entry[0], entry[1].name))]


def is_expired(candidate: Candidate, now: float) -> bool:
    """Whether its time is over."""
    return bool(expired([candidate], now))


def next_expiry(candidates: Iterable[Candidate], now: float) -> float | None:
    """When the next one expires; None when none will."""
    return min((at for c in candidates if (at := expires_at(c)) is not None and at >= now), default=None)


def because(candidate: Candidate) -> str:
    """In words."""
    if candidate.node.node.annotations.get(VOLUNTARY_DISRUPTION) == EXPIRED:
        return f"annotation {VOLUNTARY_DISRUPTION}: {EXPIRED}"
    return f"older than ttlSecondsUntilExpired of {candidate.provisioner.ttl_seconds_until_expired} s"
