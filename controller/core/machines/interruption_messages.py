"""Interruption messages: parse what EventBridge puts into the queue about instances.

Sources: EC2 user guide "Spot Instance interruption notices", "EC2 instance rebalance recommendations", "Monitor
instance state changes"; AWS Health user guide "Event schema". Kinds, conditions and event reasons are those of
Karpenter v0.27. In addition, a spot warning sets a deadline for the drain, two minutes after the warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from controller.core.api.timestamps import parse_time
from controller.core.untrusted_json import read_object

SPOT_WARNING_SECONDS: Final = 120.0
"""Time from the warning to the end of the instance (EC2 user guide)."""


class Kind(Enum):
    """Karpenter v0.27's names."""

    SPOT_INTERRUPTION = "SpotInterruptionKind"
    REBALANCE = "RebalanceRecommendationKind"
    SCHEDULED_CHANGE = "ScheduledChangeKind"
    STATE_CHANGE = "StateChangeKind"
    NO_OP = "NoOpKind"


@dataclass(frozen=True, slots=True)
class Interruption:
    """`at`: when EventBridge saw it, Unix seconds. `state`: of a state change. A no-op names no instances."""

    kind: Kind
    instance_ids: tuple[str, ...] = ()
    at: float = 0.0
    state: str = ""

    @property
    def deadline(self) -> float | None:
        """When the instance ends at the latest, Unix seconds; None if that is not announced."""
        return self.at + SPOT_WARNING_SECONDS if self.kind is Kind.SPOT_INTERRUPTION else None

    @property
    def reason(self) -> str:
        """The event's reason."""
        if self.kind is Kind.STATE_CHANGE:
            return "InstanceStopping" if self.state in ("stopping", "stopped") else "InstanceTerminating"
        return _REASONS.get(self.kind, "")


_REASONS: Final = {
    Kind.SPOT_INTERRUPTION: "InstanceSpotInterrupted",
    Kind.REBALANCE: "InstanceSpotRebalanceRecommendation",
    Kind.SCHEDULED_CHANGE: "InstanceUnhealthy",
}
_KINDS: Final = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): Kind.SPOT_INTERRUPTION,
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): Kind.REBALANCE,
    ("aws.health", "AWS Health Event"): Kind.SCHEDULED_CHANGE,
    ("aws.ec2", "EC2 Instance State-change Notification"): Kind.STATE_CHANGE,
}
_ENDING: Final = frozenset({"stopping", "stopped", "shutting-down", "terminated"})
_NO_OP: Final = Interruption(Kind.NO_OP)


def parse_message(body: str) -> Interruption:
    """Parse a message's body; other kinds of events are no-ops. Raises ValueError if it is no EventBridge event."""
    if not body.strip():
        return _NO_OP
    event = read_object(body)
    kind = _KINDS.get((str(event.get("source")), str(event.get("detail-type"))))
    if kind is None or str(event.get("version")) != "0":
        return _NO_OP
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise ValueError("has no detail")
    at = parse_time(str(event.get("time")))
    if at is None:
        raise ValueError(f"time {event.get('time')!r} is no RFC 3339 time")
    return _of_kind(kind, detail, at)


def _of_kind(kind: Kind, detail: Mapping[str, Any], at: float) -> Interruption:
    if kind is Kind.SCHEDULED_CHANGE:
        if detail.get("service") != "EC2" or detail.get("eventTypeCategory") != "scheduledChange":
            return _NO_OP
        entities = detail.get("affectedEntities")
        if not isinstance(entities, list) or not all(isinstance(entity, Mapping) for entity in entities):
            raise ValueError("detail.affectedEntities is not a list of objects")
        return Interruption(kind, tuple(str(entity.get("entityValue", "")) for entity in entities), at)
    instance = detail.get("instance-id")
    if not isinstance(instance, str) or not instance:
        raise ValueError("detail.instance-id is missing")
    state = str(detail.get("state", "")).lower()
    if kind is Kind.STATE_CHANGE and state not in _ENDING:
        return _NO_OP
    return Interruption(kind, (instance,), at, state)
