"""Replace the first due node that may be removed, at any price: how expiration and drift decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.removal_command import Command

MOST_SIMULATIONS = 5
"""Limit for one pass."""


class DueReplacement:
    """Simulate due nodes, a few in each pass, so that nodes that cannot be removed do not block those after them.

    `method` as in Command.method, `reason` as in disruption.REASONS.
    """

    def __init__(self, method: str, reason: str) -> None:
        self._method = method
        self._reason = reason
        self._skip = 0
        """How many of the nodes that pass the gate earlier passes simulated without a result."""

    def decide(self, given: MethodInput, due: Sequence[Candidate], because: Callable[[Candidate], str]) -> Proposal:
        """Return the command for the first of `due` that may be removed; `because` is a node's reason in words."""
        blocked: list[tuple[Candidate, str]] = []
        command, simulated, passed = None, 0, 0
        for candidate in due:
            if candidate.name in given.held_back:
                continue
            refusal = given.gate.removal_refusal(candidate, self._reason)
            if refusal is not None:
                if not refusal.temporary:
                    blocked.append((candidate, refusal.reason))
                continue
            passed += 1
            if passed <= self._skip:
                continue
            if simulated == MOST_SIMULATIONS:
                break
            simulated += 1
            outcome = given.simulator.simulate([candidate.node])
            if not outcome.problem:
                text = because(candidate)
                command = Command(self._method, self._reason, text, (candidate,), outcome.replacements, outcome.solved)
                break
            blocked.append((candidate, outcome.problem))
        self._skip = 0 if command is not None or simulated == 0 else self._skip + simulated
        return Proposal((command,) if command else (), tuple(blocked), eligible=len(due))
