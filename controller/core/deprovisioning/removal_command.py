"""A command: which nodes are removed, why, and which nodes are launched in their place before that."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from controller.core.deprovisioning.candidates import Candidate
from controller.core.provisioning.plan import PlannedNode, SolvedProblem

EXPIRATION: Final = "expiration"
DRIFT: Final = "drift"
EMPTINESS: Final = "emptiness"
CONSOLIDATION: Final = "consolidation"
REPAIR: Final = "repair"
ZONE_MOVE: Final = "zone-move"
REBALANCE: Final = "rebalance"
"""Names of the methods, as in annotations of nodes, metrics and the decision ledger."""


@dataclass(frozen=True, slots=True)
class Command:
    """`method`: name of the method that decided it; `reason`: one of disruption.REASONS, or `unhealthy`, which no
    disruption budget limits; `because`: it in words."""

    method: str
    reason: str
    because: str
    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedNode, ...] = ()
    solved: SolvedProblem | None = field(default=None, compare=False, repr=False)
    """The problem and plan of the replacements; audited before they are launched."""

    @property
    def action(self) -> str:
        """delete or replace."""
        return "replace" if self.replacements else "delete"

    @property
    def price_before(self) -> float:
        """$ an hour of the removed nodes whose price is known."""
        return sum(candidate.price or 0.0 for candidate in self.candidates)

    @property
    def price_after(self) -> float:
        """$ an hour of the replacements."""
        return sum(node.offering.price for node in self.replacements)

    def id(self, now: float) -> str:
        """12 hex digits, a hash of the method, of the nodes' uids and of `now` (Unix seconds)."""
        parts = (self.method, f"{now:.3f}", *sorted(candidate.node.node.uid for candidate in self.candidates))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def text(self) -> str:
        """Return the command in one line, for events and logs: action, nodes, replacements, and why."""
        nodes = ", ".join(
            f"{node.name}/{node.instance_type or '?'}/{node.capacity_type or '?'}"
            for node in (candidate.node.node for candidate in self.candidates)
        )
        after = ", ".join(f"{n.offering.instance_type}/{n.offering.capacity_type}" for n in self.replacements)
        count = f"{len(self.candidates)} node{'s' if len(self.candidates) != 1 else ''}"
        with_ = f" with {len(self.replacements)}: {after}" if after else ""
        return f"{self.action} {count} ({nodes}){with_}, because {self.because}"
